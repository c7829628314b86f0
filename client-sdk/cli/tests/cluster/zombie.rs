//! The node that writes is stopped, taken for dead by its silence, and goes on later as if nothing had been.

use crate::harness::{Cluster, assert_continuous, chain, eventually, head, rolls, rounds};
use crate::load::{Load, RECORD_BYTES};
use crate::recoveries::all_live;
use seamlog::TopicConfig;
use std::time::{Duration, Instant};

const TOPIC: &str = "undead";
const RATE_PER_S: u64 = 200;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_was_paused_and_returns_is_harmless() {
    let paused_for = Duration::from_secs(rounds(5, 30) as u64);
    let cluster = Cluster::up(&[]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: 60 * RATE_PER_S * RECORD_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(RATE_PER_S).await;
    let stopped = head(&client, TOPIC).await;
    let node = format!("segd-{}", stopped.replicas[0]);
    cluster.seam(["dev", "pause", &node]);
    let since = Instant::now();
    load.next_ack().await;
    load.progress(RATE_PER_S).await;
    eventually("a long enough pause", async || {
        load.check();
        since.elapsed() >= paused_for
    })
    .await;
    cluster.seam(["dev", "resume", &node]);
    load.progress(2 * RATE_PER_S).await;
    all_live(&client).await;
    // It takes part again: a roll by hand goes as any other.
    client.admin().roll_topic(TOPIC, None).await.expect("asked");
    let before = head(&client, TOPIC).await.id;
    eventually("a roll", async || head(&client, TOPIC).await.id != before).await;
    load.progress(RATE_PER_S).await;
    load.finish().await;
    assert_continuous(&chain(&client, TOPIC).await.0);
    let rolls = rolls(&client, TOPIC).await;
    assert!(rolls.iter().any(|roll| roll.segment == stopped.id && roll.by_recovery), "{stopped:?}: {rolls:?}");
}
