//! `seam nodes`: the segd nodes as metad sees them.

use crate::args::Global;
use crate::output::Out;
use crate::{session, units};
use anyhow::Result;
use clap::Args;
use seamlog::NodeInfo;

/// List the segd nodes: state, failure domain, load, free space.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  seam nodes\n  seam nodes --json | jq '.[] | select(.state != \"live\" or .disk_failed)'"
)]
pub struct Nodes {}

impl Nodes {
    /// # Errors
    /// metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let nodes = session::open(global)?.admin().list_nodes().await?;
        if out.is_json() {
            return out.json(&nodes);
        }
        let rows: Vec<_> = nodes.iter().map(row).collect();
        let headings = ["NODE", "STATE", "DOMAIN", "ADDRESS", "PRIMARIES", "REPLICAS", "WRITES", "FREE", "HEARD OF"];
        out.table(&headings, &rows)
    }
}

fn row(node: &NodeInfo) -> Vec<String> {
    vec![
        node.name.clone(),
        if node.disk_failed { format!("{}, disk failed", node.state) } else { node.state.clone() },
        node.domain.clone(),
        node.addr.clone(),
        node.primaries.to_string(),
        node.replicas.to_string(),
        format!("{}/s", units::bytes_rough(node.write_bytes_per_s)),
        units::bytes_rough(node.free_bytes),
        format!("{} ms ago", node.heartbeat_age_ms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_disk_failed_is_not_shown_as_live_alone() {
        let told = serde_json::json!({
            "id": 2, "name": "segd-2", "addr": "127.0.0.1:1", "domain": "zone-a", "state": "live", "incarnation": 1,
            "free_bytes": 0, "write_bytes_per_s": 0, "primaries": 0, "replicas": 3, "heartbeat_age_ms": 40,
            "disk_failed": true,
        });
        let mut node: NodeInfo = serde_json::from_value(told).expect("a node");
        assert_eq!(row(&node)[1], "live, disk failed");
        node.disk_failed = false;
        assert_eq!(row(&node)[1], "live");
    }
}
