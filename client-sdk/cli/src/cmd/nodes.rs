//! `seam nodes`: the segd nodes as metad sees them.

use crate::args::Global;
use crate::output::Out;
use crate::{session, units};
use anyhow::Result;
use clap::Args;
use seamlog::{NodeInfo, TopicInfo};
use std::collections::BTreeSet;

/// List the segd nodes: state, failure domain, load, free space. Dead nodes that hold nothing any more are left out, but not of
/// the JSON.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  seam nodes\n  seam nodes --json | jq '.[] | select(.state != \"live\" or .disk_failed)'"
)]
pub struct Nodes {
    /// Dead nodes that hold nothing too: those that were removed.
    #[arg(long)]
    all: bool,
}

impl Nodes {
    /// # Errors
    /// metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let admin = session::open(global)?.admin();
        let mut nodes = admin.list_nodes().await?;
        if out.is_json() {
            return out.json(&nodes);
        }
        let known = nodes.len();
        if !self.all && nodes.iter().any(is_dead) {
            let holders = holders(&admin.list_topics().await?);
            nodes.retain(|node| !is_dead(node) || holders.contains(&node.id));
        }
        let rows: Vec<_> = nodes.iter().map(row).collect();
        let headings = ["NODE", "STATE", "DOMAIN", "ADDRESS", "PRIMARIES", "REPLICAS", "WRITES", "FREE", "HEARD OF"];
        out.table(&headings, &rows)?;
        match known - nodes.len() {
            0 => Ok(()),
            left_out => out.line(format!("{left_out} dead without data: `seam nodes --all` shows them too")),
        }
    }
}

fn is_dead(node: &NodeInfo) -> bool {
    node.state == "dead"
}

/// The nodes that some segment has for a replica, however old.
fn holders(topics: &[TopicInfo]) -> BTreeSet<u32> {
    let segments = topics.iter().flat_map(|topic| &topic.ranges).flat_map(|range| &range.segments);
    segments.flat_map(|segment| segment.replicas.iter().copied()).collect()
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
