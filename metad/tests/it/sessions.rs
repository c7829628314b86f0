//! Sessions: what metad learns of a node that dies, and what it does not believe.

use crate::cluster::{Cluster, PATIENCE, until};
use crate::nodes::{Nodes, heartbeat};
use seam_grpc as rpc;
use seam_transport::Role;
use seam_wire::NodeId;
use std::time::Duration;

async fn states(cluster: &Cluster) -> Vec<String> {
    let admin = cluster.client("client", Role::Client);
    let nodes = admin.list_nodes(rpc::ListNodesRequest {}).await.unwrap().nodes;
    nodes.into_iter().map(|node| node.state).collect()
}

async fn wait_for(cluster: &Cluster, wanted: &[&str]) {
    let look = async {
        while states(cluster).await != wanted {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.unwrap_or_else(|_| panic!("never {wanted:?}"));
}

/// Silence alone would take longer than this test may.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_dead_when_its_session_broke_and_no_other_is_opened() {
    let mut cluster = Cluster::new();
    cluster.suspect_ms = 10 * u64::try_from(PATIENCE.as_millis()).unwrap();
    cluster.start_all().await;
    let nodes = Nodes::start(&cluster, 3).await;
    nodes.kill(NodeId(2));
    wait_for(&cluster, &["live", "dead", "live"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_move_to_the_next_leader_and_nobody_is_suspected() {
    let mut cluster = Cluster::started().await;
    let nodes = Nodes::start(&cluster, 3).await;
    let old = cluster.leader().await;
    cluster.kill(old).await;
    let new = cluster.leader().await;
    let standing = || {
        let text = cluster.members[new].as_ref()?.registry().render();
        text.lines().any(|line| line == "seam_metad_sessions 3").then_some(text)
    };
    until("three sessions", standing).await;
    assert_eq!(states(&cluster).await, ["live"; 3]);
    nodes.kill(NodeId(1));
    wait_for(&cluster, &["dead", "live", "live"]).await;
    let text = cluster.members[new].as_ref().unwrap().registry().render();
    assert!(text.lines().any(|line| line == "seam_metad_sessions_broken_total 1"), "{text}");
}

/// Its process lives and its session stands, so it is no dead node: what an operator needs to know is told beside that.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_disk_is_told_to_operators() {
    let cluster = Cluster::started().await;
    let nodes = Nodes::start(&cluster, 2).await;
    let admin = cluster.client("client", Role::Client);
    let failed = async || -> Vec<bool> {
        let nodes = admin.list_nodes(rpc::ListNodesRequest {}).await.unwrap().nodes;
        nodes.into_iter().map(|node| node.disk_failed).collect()
    };
    assert_eq!(failed().await, [false, false]);
    nodes.kill(NodeId(2));
    let beat = rpc::HeartbeatRequest { disk_failed: true, ..heartbeat(NodeId(2)) };
    let told = async {
        loop {
            let mut session = nodes.clients[&NodeId(2)].open_session(beat).await.unwrap();
            session.answer().await.unwrap();
            if failed().await == [false, true] {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.expect("the failed disk is told");
}
