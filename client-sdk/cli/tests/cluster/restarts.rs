//! Restarts of everything: every process killed at once under load, each one by itself, and a cluster that is stopped and
//! started as a user does it. Topics, chains and every acked record are there afterwards, and the load goes on.

use crate::harness::{Cluster, assert_continuous, chain, rounds};
use crate::load::{Load, RECORD_BYTES, read_all};
use crate::recoveries::all_live;
use seamlog::{Client, Record, TopicConfig};

const TOPIC: &str = "phoenix";
const RATE_PER_S: u64 = 200;

async fn create(client: &Client, topic: &str) {
    let config = TopicConfig { segment_bytes: 2 * RATE_PER_S * RECORD_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(topic, config).await.expect("created");
}

/// A topic of several ranges to which nobody writes any more.
async fn fill_quiet_topic(client: &Client) {
    let config = TopicConfig { ranges: 4, ..TopicConfig::default() };
    client.admin().create_topic("quiet", config).await.expect("created");
    let producer = client.producer("quiet").build().await.expect("a producer");
    for n in 0..100_u32 {
        let record = Record::new(n.to_string()).key(n.to_string());
        producer.send(record).await.expect("taken").await.expect("acked");
    }
    producer.close().await;
}

fn quiet_records(cluster: &Cluster) -> Vec<u32> {
    let text = cluster.seam(["consume", "quiet", "--from", "earliest"]);
    let mut records: Vec<u32> = text.lines().map(|line| line.parse().expect("a number")).collect();
    records.sort_unstable();
    records
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_is_killed_whole_comes_back() {
    let cluster = Cluster::up(&[]);
    let client = cluster.client();
    create(&client, TOPIC).await;
    fill_quiet_topic(&client).await;
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    for round in 0..rounds(3, 10) {
        load.progress(2 * RATE_PER_S).await;
        let before = chain(&client, TOPIC).await.0;
        cluster.seam(["dev", "kill", "all"]);
        assert!(cluster.states().iter().all(|(_, state)| state == "crashed"), "{:?}", cluster.states());
        // All at once, as a user does it who finds it dead; or one after the other.
        if round % 2 == 0 {
            cluster.seam(["dev", "down"]);
            cluster.seam(["dev", "up"]);
        } else {
            cluster.seam(["dev", "restart", "all"]);
        }
        load.progress(2 * RATE_PER_S).await;
        let after = chain(&client, TOPIC).await.0;
        let (_, sealed) = before.split_last().expect("a chain has a head");
        for (was, is) in sealed.iter().zip(&after) {
            assert_eq!((was.id, was.start, was.end, was.next), (is.id, is.start, is.end, is.next));
        }
        assert_continuous(&after);
        all_live(&client).await;
    }
    load.finish().await;
    assert_eq!(quiet_records(&cluster), (0..100).collect::<Vec<_>>());
    fill_more(&client).await;
}

/// The ranges nobody wrote to while all was killed take records again.
async fn fill_more(client: &Client) {
    let producer = client.producer("quiet").build().await.expect("a producer");
    for n in 0..16_u32 {
        let record = Record::new("more").key(n.to_string());
        producer.send(record).await.expect("taken").await.expect("acked");
    }
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_process_restarts_under_load() {
    let cluster = Cluster::up(&[]);
    let client = cluster.client();
    create(&client, TOPIC).await;
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    for name in
        ["segd-1", "metad-1", "segd-2", "metad-2", "segd-3", "router-1", "segd-4", "metad-3", "segd-5", "router-2"]
    {
        load.progress(RATE_PER_S).await;
        cluster.seam(["dev", "restart", name]);
    }
    load.progress(RATE_PER_S).await;
    load.finish().await;
    all_live(&client).await;
    assert_continuous(&chain(&client, TOPIC).await.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_cluster_starts_where_it_ended() {
    let cluster = Cluster::up(&["--segd", "3", "--router", "1"]);
    let client = cluster.client();
    create(&client, TOPIC).await;
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(3 * RATE_PER_S).await;
    let sent = load.finish().await;
    drop(client);
    cluster.seam(["dev", "down"]);
    cluster.seam(["dev", "up"]);
    let client = cluster.client();
    // Its open segment too: it was written by processes that are gone.
    assert_eq!(read_all(&client, TOPIC).await, sent);
    let producer = client.producer(TOPIC).build().await.expect("a producer");
    let ack = producer.send(Record::new("after")).await.expect("taken").await.expect("acked");
    assert_eq!(ack.offset.0, sent, "dense over the restart");
    producer.close().await;
    assert_continuous(&chain(&client, TOPIC).await.0);
}
