//! Ranges whose end no answer can decide: they say so, take nothing and lose nothing by themselves, and go on behind a gap entry
//! once an operator has given up, in so many words, what nobody can tell. Nodes that come back later change nothing.

use crate::harness::{Cluster, eventually, head, soon};
use crate::recoveries::all_live;
use seamlog::{AckMode, Client, ConsumeError, Offset, ReadFrom, Record, TopicConfig};
use std::collections::BTreeSet;
use std::fs;

const RECORDS: u64 = 100;
/// What a gap entry stands for.
const GAP: u64 = 1 << 40;

async fn fill(client: &Client, topic: &str, config: TopicConfig) {
    client.admin().create_topic(topic, config).await.expect("created");
    write(client, topic, 0..RECORDS).await;
}

/// Writes these numbers; the offset of the last.
async fn write(client: &Client, topic: &str, numbers: std::ops::Range<u64>) -> u64 {
    let producer = client.producer(topic).build().await.expect("a producer");
    let mut last = 0;
    for n in numbers {
        let acked = producer.send(Record::new(n.to_string())).await.expect("taken").await.expect("acked");
        last = acked.offset.0;
    }
    producer.close().await;
    last
}

async fn stuck(client: &Client, topic: &str) -> Option<String> {
    let described = client.admin().describe_topic(topic).await.ok()?;
    described.ranges[0].stuck.clone()
}

async fn until_stuck(client: &Client, topic: &str) -> String {
    eventually("the range to say that it is stuck", async || stuck(client, topic).await.is_some()).await;
    stuck(client, topic).await.expect("it stays so")
}

fn node(id: u32) -> String {
    format!("segd-{id}")
}

/// What the shell says first, and what it does when told to. Then the range takes records again; the offset of the first.
async fn accept(cluster: &Cluster, client: &Client, topic: &str) -> u64 {
    let told = cluster.seam(["topic", "describe", topic]);
    assert!(told.contains("STUCK") && told.contains("accept-loss"), "{told}");
    let asked = cluster.refused(&["range", "accept-loss", topic, "--range", "0"]);
    let segment = head(client, topic).await.id.to_string();
    assert!(asked.contains(&format!("--i-accept-the-loss-of {segment}")), "{asked}");
    assert!(stuck(client, topic).await.is_some(), "nothing was done");
    let other = (head(client, topic).await.id + 1).to_string();
    let refused = cluster.refused(&["range", "accept-loss", topic, "--range", "0", "--i-accept-the-loss-of", &other]);
    assert!(refused.contains("nothing was given up"), "{refused}");
    cluster.seam(["range", "accept-loss", topic, "--range", "0", "--i-accept-the-loss-of", &segment]);
    soon("a record to be acked again", write(client, topic, RECORDS..RECORDS + 1)).await
}

/// All that is left, in order: numbers, and what was given up.
async fn read(client: &Client, topic: &str, from: ReadFrom) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut consumer = client.consumer(topic).from(from).follow(false).build().await.expect("a consumer");
    let (mut numbers, mut lost) = (Vec::new(), Vec::new());
    while let Some(record) = soon("the next record", consumer.next()).await {
        match record {
            Ok(record) => {
                let value = record.value.expect("a number");
                numbers.push(std::str::from_utf8(&value).expect("text").parse().expect("a number"));
            }
            Err(ConsumeError::Lost { range: 0, from: Offset(from), next: Offset(next) }) => lost.push((from, next)),
            Err(other) => panic!("{other}"),
        }
    }
    (numbers, lost)
}

fn wipe(cluster: &Cluster, node: &str) {
    fs::remove_dir_all(cluster.root().join("data").join(node)).expect("its disk");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_that_no_answer_can_decide_goes_on_when_an_operator_accepts_the_loss() {
    let cluster = Cluster::up(&[]);
    let client = cluster.client();

    // Two of three disks are lost: one replica alone cannot tell.
    fill(&client, "two-disks", TopicConfig::default()).await;
    let replicas = head(&client, "two-disks").await.replicas;
    assert_eq!(stuck(&client, "two-disks").await, None);
    let segment = head(&client, "two-disks").await.id.to_string();
    let early =
        cluster.refused(&["range", "accept-loss", "two-disks", "--range", "0", "--i-accept-the-loss-of", &segment]);
    assert!(early.contains("nothing has to be given up"), "{early}");
    for id in &replicas[..2] {
        cluster.seam(["dev", "kill", &node(*id)]);
        wipe(&cluster, &node(*id));
    }
    for id in &replicas[..2] {
        cluster.seam(["dev", "restart", &node(*id)]);
    }
    all_live(&client).await;
    let why = until_stuck(&client, "two-disks").await;
    assert!(why.contains("lost its copy"), "{why}");
    let first = accept(&cluster, &client, "two-disks").await;
    let (numbers, lost) = read(&client, "two-disks", ReadFrom::Earliest).await;
    let [(from, next)] = lost[..] else { panic!("{lost:?}") };
    assert_eq!((next - from, first), (GAP, next), "what comes next lies above every offset that was shown");
    assert!(from <= RECORDS, "{from}");
    assert_eq!(numbers, (0..from).chain([RECORDS]).collect::<Vec<_>>(), "what the third replica held is there");
    // A reader whose place lies in what was given up, and the shell.
    let (numbers, lost) = read(&client, "two-disks", ReadFrom::Offset(Offset(from + 7))).await;
    assert_eq!((numbers, lost), (vec![RECORDS], vec![(from, next)]));
    let printed = cluster.seam(["consume", "two-disks", "--from", "earliest"]);
    assert_eq!(printed.lines().count() as u64, from + 1);

    // One replica, on a node that is gone. It comes back when it is too late.
    let single = TopicConfig { replicas: 1, ack_quorum: 1, ..TopicConfig::default() };
    fill(&client, "single", single).await;
    let gone = node(head(&client, "single").await.replicas[0]);
    cluster.seam(["dev", "kill", &gone]);
    let why = until_stuck(&client, "single").await;
    assert!(why.contains(&gone) && why.contains("down"), "{why}");
    assert_eq!(accept(&cluster, &client, "single").await, GAP);
    cluster.seam(["dev", "restart", &gone]);
    all_live(&client).await;
    assert_eq!(write(&client, "single", RECORDS + 1..2 * RECORDS).await, GAP + RECORDS - 1);
    let (numbers, lost) = read(&client, "single", ReadFrom::Earliest).await;
    assert_eq!((numbers, lost), ((RECORDS..2 * RECORDS).collect(), vec![(0, GAP)]));

    // A power loss of all, without a sync before the acks: the copies are there, but nobody knows that nothing is missing.
    fill(&client, "unsynced", TopicConfig { ack: AckMode::Replicated, ..TopicConfig::default() }).await;
    cluster.seam(["dev", "kill", "all"]);
    cluster.seam(["dev", "restart", "all"]);
    all_live(&client).await;
    let why = until_stuck(&client, "unsynced").await;
    assert!(why.contains("its end"), "{why}");
    let first = accept(&cluster, &client, "unsynced").await;
    let (numbers, lost) = read(&client, "unsynced", ReadFrom::Earliest).await;
    assert_eq!(lost, [(first - GAP, first)]);
    let kept: BTreeSet<u64> = numbers.iter().copied().collect();
    assert!(kept.contains(&0) && kept.contains(&RECORDS) && kept.len() == numbers.len(), "{numbers:?}");

    for topic in ["two-disks", "single", "unsynced"] {
        assert_eq!(stuck(&client, topic).await, None);
        write(&client, topic, 0..10).await;
    }
}
