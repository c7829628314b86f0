//! Processes killed under load: a router, and the node that writes. Clients go on, nothing acked is lost, nothing doubled.

use crate::harness::{Cluster, assert_continuous, chain, eventually, head, rolls};
use crate::load::{Load, RECORD_BYTES};
use seamlog::TopicConfig;

const TOPIC: &str = "shaken";
const RATE_PER_S: u64 = 400;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_router_costs_clients_nothing() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "3", "--router", "2"]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: RATE_PER_S * RECORD_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(RATE_PER_S).await;
    // Whichever it uses, it loses it.
    for router in ["router-1", "router-2"] {
        cluster.seam(["dev", "kill", router]);
        load.progress(RATE_PER_S).await;
        cluster.seam(["dev", "restart", router]);
    }
    load.finish().await;
    assert_continuous(&chain(&client, TOPIC).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_recovered() {
    let cluster = Cluster::up(&["--segd", "5"]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: 4 * RATE_PER_S * RECORD_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(RATE_PER_S).await;
    let killed = head(&client, TOPIC).await;
    let node = format!("segd-{}", killed.replicas[0]);
    cluster.seam(["dev", "kill", &node]);
    load.progress(2 * RATE_PER_S).await;
    eventually("another head", async || head(&client, TOPIC).await.id != killed.id).await;

    cluster.seam(["dev", "restart", &node]);
    load.progress(RATE_PER_S).await;
    eventually("all nodes", async || {
        load.check();
        let nodes = client.admin().list_nodes().await.expect("metad answers");
        nodes.iter().all(|node| node.state == "live")
    })
    .await;
    load.finish().await;
    assert_continuous(&chain(&client, TOPIC).await.0);
    let rolls = rolls(&client, TOPIC).await;
    assert!(rolls.iter().any(|roll| roll.segment == killed.id && roll.by_recovery), "{killed:?}: {rolls:?}");
}
