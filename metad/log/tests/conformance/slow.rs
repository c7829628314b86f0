//! Links with a long round trip: the clocks bear it, and a proposal costs one of it.

use crate::cluster::{Cluster, agree, commit, leader, start_all, until};
use crate::raft::Embedded;
use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const ROUND_TRIP: Duration = Duration::from_millis(200);

/// With the default clocks and 200 ms of round trip a cluster forms, an idle leader stays, and its lease with it.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_leader_keeps_its_lease_at_200_ms() {
    let delay = Arc::new(AtomicU64::new(ROUND_TRIP.as_micros() as u64 / 2));
    let mut cluster = Embedded::with_long_links(delay).await;
    start_all(&mut cluster).await;
    commit(&cluster, "first").await;
    let at = leader(&cluster).await;
    let log = cluster.log(at).unwrap();
    let term = log.status().term;
    // Longer than a lease, an election and several heartbeats: whatever would break has broken by then.
    let idle = Instant::now();
    until("the cluster idles", || (idle.elapsed() > ROUND_TRIP * 30).then_some(())).await;
    log.propose(Bytes::from_static(b"after a rest")).await.expect("an idle leader takes a proposal at once");
    assert_eq!(log.status().term, term, "an idle leader was replaced");
    agree(&cluster, "after a rest").await;
}

/// Committing takes one round trip, not two, and so do many at once: none waits for the one before.
#[tokio::test(flavor = "multi_thread")]
async fn a_proposal_costs_one_round_trip() {
    let delay = Arc::new(AtomicU64::new(ROUND_TRIP.as_micros() as u64 / 2));
    let mut cluster = Embedded::with_long_links(delay).await;
    start_all(&mut cluster).await;
    commit(&cluster, "warm").await;
    let at = leader(&cluster).await;
    let measured = until("the round trip was measured", || {
        let round_trips = cluster.round_trips_us(at);
        round_trips.iter().all(|micros| *micros > 0).then(|| round_trips.into_iter().min().unwrap())
    });
    let round_trip = Duration::from_micros(measured.await);
    assert!(round_trip >= ROUND_TRIP, "the links are slow: {round_trip:?}");
    let log = cluster.log(at).unwrap();
    // The best of a few: a busy machine may delay any one of them, but nothing makes one faster than the protocol.
    let mut best = Duration::MAX;
    for number in 0..5 {
        let started = Instant::now();
        log.propose(Bytes::from(format!("single {number}"))).await.unwrap();
        best = best.min(started.elapsed());
    }
    assert!(best < ROUND_TRIP * 17 / 10, "a proposal took {best:?} at a round trip of {ROUND_TRIP:?}");
    // Ten, each sent while the one before is under way.
    let mut best = Duration::MAX;
    for round in 0..3 {
        let started = Instant::now();
        let mut proposals = tokio::task::JoinSet::new();
        for number in 0..10u32 {
            let log = log.clone();
            proposals.spawn(async move {
                tokio::time::sleep(ROUND_TRIP / 10 * number / 2).await;
                log.propose(Bytes::from(format!("many {round} {number}"))).await.unwrap();
            });
        }
        while let Some(done) = proposals.join_next().await {
            done.unwrap();
        }
        best = best.min(started.elapsed());
    }
    // The last starts after half a round trip and takes one.
    assert!(best < ROUND_TRIP * 22 / 10, "ten overlapping proposals took {best:?}");
}

/// The round trip may grow in mid-run from nothing to 200 ms without a change of leader.
#[tokio::test(flavor = "multi_thread")]
async fn a_link_may_grow_slow() {
    let delay = Arc::new(AtomicU64::new(0));
    let mut cluster = Embedded::with_long_links(delay.clone()).await;
    start_all(&mut cluster).await;
    commit(&cluster, "fast").await;
    let at = leader(&cluster).await;
    let log = cluster.log(at).unwrap();
    let term = log.status().term;
    delay.store(ROUND_TRIP.as_micros() as u64 / 2, Ordering::Relaxed);
    for number in 0..20 {
        log.propose(Bytes::from(format!("slow {number}"))).await.expect("the leader goes on");
    }
    assert_eq!(log.status().term, term);
    agree(&cluster, "slow 19").await;
}
