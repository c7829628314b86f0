//! `seam nodes`: the segd nodes as metad sees them.

use crate::args::Global;
use crate::output::Out;
use crate::{session, units};
use anyhow::Result;
use clap::Args;
use seamlog::NodeInfo;

/// List the segd nodes: state, failure domain, load, free space.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  seam nodes\n  seam nodes --json | jq '.[] | select(.state != \"live\")'")]
pub struct Nodes {}

impl Nodes {
    /// # Errors
    /// metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let nodes = session::open(global)?.admin().list_nodes().await?;
        if out.is_json() {
            return out.json(&nodes);
        }
        let row = |node: &NodeInfo| {
            vec![
                node.name.clone(),
                node.state.clone(),
                node.domain.clone(),
                node.addr.clone(),
                node.primaries.to_string(),
                node.replicas.to_string(),
                format!("{}/s", units::bytes_rough(node.write_bytes_per_s)),
                units::bytes_rough(node.free_bytes),
                format!("{} ms ago", node.heartbeat_age_ms),
            ]
        };
        let rows: Vec<_> = nodes.iter().map(row).collect();
        let headings = ["NODE", "STATE", "DOMAIN", "ADDRESS", "PRIMARIES", "REPLICAS", "WRITES", "FREE", "HEARD OF"];
        out.table(&headings, &rows)
    }
}
