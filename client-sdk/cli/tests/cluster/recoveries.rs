//! The node that writes is killed, again and again: how long until a record that was sent after it is acked.

use crate::harness::{Cluster, assert_continuous, chain, eventually, head, rolls, rounds};
use crate::load::{Load, RECORD_BYTES};
use seamlog::{Client, TopicConfig};
use std::time::{Duration, UNIX_EPOCH};

const TOPIC: &str = "bereft";
const RATE_PER_S: u64 = 200;
/// The silence after which metad takes a node for dead. A killed node must be noticed by its broken session long before.
const SILENCE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_is_noticed_by_its_broken_session_and_replaced_at_once() {
    let kills = rounds(4, 30);
    let cluster = Cluster::up(&[]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: 60 * RATE_PER_S * RECORD_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    let mut waits = Vec::new();
    for nth in 1..=kills {
        load.progress(RATE_PER_S).await;
        let killed = head(&client, TOPIC).await;
        let node = format!("segd-{}", killed.replicas[0]);
        let began_us = cluster.json(&["dev", "kill", &node])["began_unix_us"].as_u64().expect("a time");
        load.next_ack().await;
        let waited = UNIX_EPOCH.elapsed().expect("after 1970") - Duration::from_micros(began_us);
        println!("kill {nth}: {node} killed to next ack {waited:?}{}", phases(&cluster, began_us));
        waits.push(waited);
        let moved = head(&client, TOPIC).await;
        assert_ne!(moved.id, killed.id, "acked by another head");
        cluster.seam(["dev", "restart", &node]);
        all_live(&client).await;
    }
    load.finish().await;
    assert_continuous(&chain(&client, TOPIC).await.0);
    let recovered = rolls(&client, TOPIC).await.iter().filter(|roll| roll.by_recovery).count();
    assert!(recovered >= kills, "{recovered} recoveries for {kills} kills");
    waits.sort_unstable();
    let at = |part: f64| waits[((waits.len() - 1) as f64 * part).round() as usize];
    println!("{kills} kills: p50 {:?}, p99 {:?}, max {:?}", at(0.5), at(0.99), at(1.0));
    assert!(at(0.5) < SILENCE, "half of the kills were only noticed by silence: {waits:?}");
}

pub async fn all_live(client: &Client) {
    eventually("all nodes live", async || {
        client.admin().list_nodes().await.is_ok_and(|nodes| nodes.iter().all(|node| node.state == "live"))
    })
    .await;
}

/// What metad's leader says of this kill in its log, in milliseconds since it.
fn phases(cluster: &Cluster, began_us: u64) -> String {
    const DAY_US: u64 = 24 * 3600 * 1_000_000;
    let mut told = String::new();
    for member in 1..=3 {
        let log = cluster.root().join(format!("logs/metad-{member}.log"));
        for line in std::fs::read_to_string(log).unwrap_or_default().lines() {
            let Some(at) = time_of_day_us(line) else { continue };
            let since = (at + DAY_US - began_us % DAY_US) % DAY_US;
            let words = ["the session broke", "state=Dead", "a recovery begins", "recovered"];
            if let Some(what) = words.iter().find(|words| line.contains(**words)).filter(|_| since < DAY_US / 2) {
                told.push_str(&format!(", {what} {:.0} ms", since as f64 / 1000.0));
            }
        }
    }
    told
}

/// Of `2026-11-30T23:45:35.736950Z ...`.
fn time_of_day_us(line: &str) -> Option<u64> {
    let time = line.split_once('T')?.1.split_once('Z')?.0;
    let mut parts = time.split([':', '.']);
    let mut next = || parts.next().and_then(|part| part.parse::<u64>().ok());
    let (hours, minutes, seconds, micros) = (next()?, next()?, next()?, next()?);
    Some(((hours * 60 + minutes) * 60 + seconds) * 1_000_000 + micros)
}
