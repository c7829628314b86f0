//! Retention with real processes: the log's start moves, the files go from every node, from one that was down too; readers
//! that were overtaken are told what they missed and go on; a change of the settings holds at once.

use crate::harness::{Cluster, chain, eventually, soon};
use bytes::Bytes;
use seamlog::{AlterTopic, Client, ConsumeError, Consumer, Offset, Producer, ReadFrom, Record, TopicConfig};
use std::collections::BTreeSet;
use std::fs;

const TOPIC: &str = "short";
const SEGMENT_BYTES: u64 = 64 << 10;
const RECORD_BYTES: usize = 1024;
/// More than a segment holds.
const PART: u64 = 100;

fn value(n: u64) -> Bytes {
    let mut value = vec![b'.'; RECORD_BYTES];
    let text = format!("{n:012}");
    value[..text.len()].copy_from_slice(text.as_bytes());
    Bytes::from(value)
}

/// Writes records `from` on until so many more segments are in the chain or trimmed. Returns the next record's number.
async fn roll(client: &Client, producer: &Producer, mut next: u64, rolls: usize) -> u64 {
    let before = client.admin().roll_history(TOPIC, 0).await.expect("metad answers").len();
    for done in 1..=rolls {
        for _ in 0..PART {
            producer.send(Record::new(value(next))).await.expect("taken").await.expect("acked");
            next += 1;
        }
        eventually("a roll", async || {
            client.admin().roll_history(TOPIC, 0).await.is_ok_and(|rolls| rolls.len() >= before + done)
        })
        .await;
    }
    next
}

async fn log_start(client: &Client) -> u64 {
    client.admin().describe_topic(TOPIC).await.expect("metad answers").ranges[0].start
}

/// Segments whose files lie on a node.
fn files(cluster: &Cluster, node: &str) -> BTreeSet<u64> {
    let dir = cluster.root().join("data").join(node).join("segments");
    let id = |name: std::ffi::OsString| name.to_str()?.strip_suffix(".log")?.parse().ok();
    fs::read_dir(dir).expect("a node has one").filter_map(|file| id(file.expect("readable").file_name())).collect()
}

/// Waits until these nodes hold no file of a segment that is neither in the chain nor to follow it.
async fn only_what_is_kept(cluster: &Cluster, client: &Client, nodes: &[&str]) {
    eventually("files of deleted segments to go", async || {
        let (chain, candidates) = chain(client, TOPIC).await;
        let known: BTreeSet<u64> = chain.iter().chain(&candidates).map(|segment| segment.id).collect();
        nodes.iter().all(|node| files(cluster, node).is_subset(&known))
    })
    .await;
}

/// Everything from `next` on, up to `end`, each record once or told as missed. Returns from where to where that was.
async fn read_on(consumer: &mut Consumer, mut next: u64, end: u64) -> Option<(u64, u64)> {
    let mut missed: Option<(u64, u64)> = None;
    while next < end {
        match soon("the next record", consumer.next()).await.expect("it follows") {
            Ok(record) => {
                assert_eq!((record.offset, record.value), (Offset(next), Some(value(next))));
                next += 1;
            }
            Err(ConsumeError::Trimmed { range: 0, from, start }) => {
                assert_eq!(from, Offset(next), "what was read is not missed, and nothing is told twice");
                assert!(start > from && missed.is_none_or(|(_, before)| before == next), "{missed:?} {from} {start}");
                missed = Some((missed.map_or(from.0, |(first, _)| first), start.0));
                next = start.0;
            }
            Err(other) => panic!("{other}"),
        }
    }
    missed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn old_segments_go_from_every_disk_and_readers_go_on() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "4", "--router", "2"]);
    let client = cluster.client();
    let config =
        TopicConfig { segment_bytes: SEGMENT_BYTES, retention_bytes: 3 * SEGMENT_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let producer = client.producer(TOPIC).build().await.expect("a producer");

    // Readers that fall behind: one stops in the midst of a segment, one asks for an offset that is about to go.
    for n in 0..20 {
        producer.send(Record::new(value(n))).await.expect("taken").await.expect("acked");
    }
    let slow = client.consumer(TOPIC).from(ReadFrom::Earliest).max_buffer_bytes(64 << 10);
    let mut slow = slow.build().await.expect("a consumer");
    assert_eq!(read_on(&mut slow, 0, 10).await, None);
    let next = roll(&client, &producer, 20, 3).await;
    let held = files(&cluster, "segd-4");
    assert!(!held.is_empty(), "each segment is on three of four nodes");

    // A node goes down with what it holds; all of that is trimmed while it is away.
    cluster.seam(["dev", "kill", "segd-4"]);
    let mut next = roll(&client, &producer, next, 6).await;
    eventually("the start to pass all that the dead node holds", async || {
        next = roll(&client, &producer, next, 1).await;
        let (chain, _) = chain(&client, TOPIC).await;
        held.iter().all(|id| chain.iter().all(|segment| segment.id > *id))
    })
    .await;
    only_what_is_kept(&cluster, &client, &["segd-1", "segd-2", "segd-3"]).await;
    assert!(!files(&cluster, "segd-4").is_empty(), "nobody is there to delete them");
    // Trims come with metad's sweep, a moment after a roll.
    eventually("no whole segment more than is asked for", async || {
        let topic = client.admin().describe_topic(TOPIC).await.expect("metad answers");
        let oldest = topic.ranges[0].segments.iter().find(|segment| segment.state == "sealed");
        oldest.is_some_and(|oldest| topic.ranges[0].sealed_bytes - oldest.bytes < 3 * SEGMENT_BYTES)
    })
    .await;
    let topic = client.admin().describe_topic(TOPIC).await.expect("metad answers");
    let range = &topic.ranges[0];
    let sealed: Vec<_> = range.segments.iter().filter(|segment| segment.state == "sealed").collect();
    assert_eq!(range.sealed_bytes, sealed.iter().map(|segment| segment.bytes).sum::<u64>());
    assert!(sealed.iter().all(|segment| segment.bytes > 0 && segment.sealed_at_ms > 1_600_000_000_000));
    assert!(range.sealed_bytes >= 3 * SEGMENT_BYTES, "so much is kept");
    assert!(range.sealed_bytes - sealed[0].bytes < 3 * SEGMENT_BYTES, "and no whole segment more");
    assert_eq!(sealed[0].start, Some(range.start));

    // It returns and deletes what the cluster has forgotten meanwhile.
    cluster.seam(["dev", "restart", "segd-4"]);
    only_what_is_kept(&cluster, &client, &["segd-1", "segd-2", "segd-3", "segd-4"]).await;
    eventually("every replica's word", async || {
        let status = client.admin().status().await.expect("metad answers");
        let (_, candidates) = chain(&client, TOPIC).await;
        status.candidates_open == candidates.len() as u64
    })
    .await;

    // The slow reader is told what it missed, once, and has all the rest.
    let start = log_start(&client).await;
    let missed = read_on(&mut slow, 10, next).await.expect("it was overtaken");
    assert!(missed.0 >= 10 && missed.1 == start, "{missed:?}, the log starts at {start}");
    // So is one that asks for what is gone; one from the earliest offset misses nothing.
    let late = client.consumer(TOPIC).from(ReadFrom::Offset(Offset(1))).build().await;
    assert_eq!(read_on(&mut late.expect("a consumer"), 1, next).await, Some((1, start)));
    let from_start = client.consumer(TOPIC).from(ReadFrom::Earliest).build().await;
    assert_eq!(read_on(&mut from_start.expect("a consumer"), start, next).await, None);
    let told: f64 =
        ["router-1", "router-2"].map(|name| cluster.metrics_of(name).sum("router_tails_trimmed", "")).iter().sum();
    assert!(told >= 2.0, "{told}");
    let trimmed = ["segd-1", "segd-2", "segd-3"].map(|name| cluster.metrics_of(name).sum("segd_segments_trimmed", ""));
    assert!(trimmed.iter().all(|count| *count > 0.0), "{trimmed:?}");

    // From the shell: the records on one stream, what was missed on the other.
    let output = cluster.command(["consume", TOPIC, "--from", "5"]).output().expect("seam runs");
    let (records, told) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert_eq!(records.lines().count() as u64, next - start);
    assert!(told.contains(&format!("deleted offsets 5 to {start}")), "{told}");
    let described = cluster.seam(["topic", "describe", TOPIC]);
    assert!(
        described.contains(&format!("from offset {start}")) && described.contains("retention bytes  192KiB"),
        "{described}"
    );

    // A change holds at once: no new segment is needed. The newest that has records stays, and the open one.
    cluster.seam(["topic", "alter", TOPIC, "--retention-bytes", "1"]);
    eventually("all but the newest sealed segment to go", async || chain(&client, TOPIC).await.0.len() == 2).await;
    cluster.seam(["topic", "alter", TOPIC, "--retention-bytes", "0", "--retention-age", "7d"]);
    let kept = log_start(&client).await;
    let next = roll(&client, &producer, next, 3).await;
    assert_eq!(log_start(&client).await, kept, "nothing is a week old");
    client
        .admin()
        .alter_topic(TOPIC, AlterTopic { retention_ms: Some(1), ..AlterTopic::default() })
        .await
        .expect("altered");
    eventually("everything old to go", async || chain(&client, TOPIC).await.0.len() == 2).await;
    let start = log_start(&client).await;
    assert!(start > kept);
    let rest = client.consumer(TOPIC).from(ReadFrom::Earliest).build().await;
    assert_eq!(read_on(&mut rest.expect("a consumer"), start, next).await, None);
    producer.close().await;
}
