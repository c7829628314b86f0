//! A member that is gone is tried again with pauses.

use crate::cluster::{Cluster, commit, leader, start_all, until};
use crate::raft::Embedded;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Regression: a refused connection was tried again at once, thousands of times a second, since the pause after an error
/// lies in the stream of requests and nobody had asked for one yet.
#[tokio::test(flavor = "multi_thread")]
async fn a_dead_member_is_not_dialed_without_pause() {
    let mut cluster = Embedded::new().await;
    start_all(&mut cluster).await;
    commit(&cluster, "first").await;
    let at = leader(&cluster).await;
    let dead = (at + 1) % 3;
    cluster.kill(dead).await;
    // In its place somebody who hangs up on everyone and counts.
    let listener = loop {
        match tokio::net::TcpListener::bind(cluster.addr(dead)).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    };
    let dials = Arc::new(AtomicU64::new(0));
    let counted = dials.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::Relaxed);
            drop(stream);
        }
    });
    let started = Instant::now();
    // Without barriers: each of those is a heartbeat of its own.
    let log = cluster.log(at).unwrap();
    while started.elapsed() < Duration::from_secs(3) {
        log.propose(Bytes::from_static(b"on")).await.unwrap();
    }
    until("it is dialed at all", || (dials.load(Ordering::Relaxed) > 0).then_some(())).await;
    let per_second = dials.load(Ordering::Relaxed) / started.elapsed().as_secs().max(1);
    // Heartbeats every 100 ms, and as much again for entries, votes and upkeep.
    assert!(per_second < 100, "{per_second} connections a second to a dead member");
}
