//! A cluster that grows under load: no client sees an error, and the new nodes take part.

use crate::harness::{Cluster, assert_continuous, chain, eventually};
use crate::load::{Load, RECORD_BYTES, read_all};
use seamlog::{Client, TopicConfig};

const TOPIC: &str = "growing";
const RATE_PER_S: u64 = 400;
/// Two thirds of a second at this rate.
const SEGMENT_BYTES: u64 = RATE_PER_S * RECORD_BYTES * 2 / 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scale_under_load() {
    let cluster = Cluster::up(&["--segd", "5", "--router", "2"]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: SEGMENT_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    eventually("rolls before", async || chain(&client, TOPIC).await.0.len() > 2).await;
    load.check();

    cluster.seam(["dev", "scale", "segd=7", "router=3"]);
    load.check();
    let nodes = client.admin().list_nodes().await.expect("metad answers");
    assert_eq!(nodes.iter().filter(|node| node.state == "live").count(), 7, "{nodes:?}");
    for node in [6, 7] {
        eventually("a new node with a replica of the chain", async || {
            load.check();
            chain(&client, TOPIC).await.0.iter().any(|segment| segment.replicas.contains(&node))
        })
        .await;
    }
    load.progress(RATE_PER_S).await;
    let written = load.finish().await;
    assert_continuous(&chain(&client, TOPIC).await.0);

    // The new router serves by itself.
    let mut settings = cluster.settings();
    settings.routers.retain(|router| router.name == "router-3");
    assert_eq!(settings.routers.len(), 1, "client.toml names the new router");
    assert_eq!(read_all(&Client::connect(settings).expect("good settings"), TOPIC).await, written);
}
