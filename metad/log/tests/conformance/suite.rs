//! The contract of `MetaLog`, point by point. Each test takes a fresh cluster of three and leaves it as it likes.

use crate::cluster::{Cluster, agree, commit, leader, start_all, until};
use bytes::Bytes;
use metad_log::ProposeError;
use std::collections::BTreeSet;

/// 1, 2: one order everywhere, the response is the state machine's own, indexes grow.
pub async fn order(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    let mut indexes = Vec::new();
    for number in 0..50u64 {
        let command = format!("c{number}");
        let (index, response) = commit(cluster, &command).await;
        // A leader may change on the way and have a command committed twice; the count tells then.
        assert!(response.ends_with(format!(":{command}").as_bytes()), "{response:?}");
        indexes.push(index);
    }
    assert!(indexes.is_sorted_by(|a, b| a < b), "{indexes:?}");
    agree(cluster, "c49").await;
    let seen = cluster.seen(0).commands();
    for (number, index) in indexes.iter().enumerate() {
        let at = seen.iter().find(|(at, _)| at == index).expect("a committed index is applied");
        assert_eq!(at.1, format!("c{number}").into_bytes());
    }
}

/// 2: many proposals at once are each answered with their own response.
pub async fn concurrent(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    let at = leader(cluster).await;
    let log = cluster.log(at).unwrap();
    let mut proposals = tokio::task::JoinSet::new();
    for number in 0..200u64 {
        let log = log.clone();
        proposals.spawn(async move {
            let command = format!("n{number}");
            (command.clone(), log.propose(Bytes::from(command)).await)
        });
    }
    let mut taken = BTreeSet::new();
    while let Some(done) = proposals.join_next().await {
        let (command, outcome) = done.unwrap();
        match outcome {
            Ok((index, response)) => {
                assert!(response.ends_with(format!(":{command}").as_bytes()), "{command}: {response:?}");
                assert!(taken.insert(index), "index {index} was given twice");
            }
            // A machine under load may lose its lease; what was refused must then not be there.
            Err(ProposeError::NotLeader { .. } | ProposeError::Overloaded) => {
                let there = cluster.seen(at).commands().iter().any(|(_, seen)| seen == command.as_bytes());
                assert!(!there, "{command} was refused and applied");
            }
            Err(ProposeError::Unknown(_)) => {}
            Err(why @ (ProposeError::ShuttingDown | ProposeError::TooLarge { .. })) => panic!("{why}"),
        }
    }
    assert!(!taken.is_empty());
    commit(cluster, "end").await;
    agree(cluster, "end").await;
}

/// 3: a follower takes nothing and names the leader.
pub async fn followers_refuse(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    commit(cluster, "first").await;
    let at = leader(cluster).await;
    for other in (0..3).filter(|other| *other != at) {
        let log = cluster.log(other).unwrap();
        until("the follower knows the leader", || log.leadership().borrow().leader.clone()).await;
        match log.propose(Bytes::from_static(b"astray")).await {
            Err(ProposeError::NotLeader { leader: Some(_) }) => {}
            outcome => panic!("a follower answered {outcome:?}"),
        }
        assert!(matches!(log.barrier().await, Err(ProposeError::NotLeader { .. })));
    }
    commit(cluster, "last").await;
    agree(cluster, "last").await;
    assert!(cluster.seen(at).commands().iter().all(|(_, command)| command != b"astray"));
}

/// 4, 5: the leader dies, the others go on and lose nothing; it comes back and catches up.
pub async fn leader_change(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    let mut last = String::new();
    for round in 0..3 {
        for number in 0..10 {
            last = format!("r{round}-{number}");
            commit(cluster, &last).await;
        }
        let old = leader(cluster).await;
        let term = cluster.log(old).unwrap().status().term;
        cluster.kill(old).await;
        let new = leader(cluster).await;
        assert_ne!(new, old);
        let log = cluster.log(new).unwrap();
        assert!(log.status().term > term);
        // The barrier in `leader` has passed: the new leader's state holds all that was committed under the old one.
        let seen = cluster.seen(new).commands();
        assert!(seen.iter().any(|(_, command)| command == last.as_bytes()), "{last} is gone");
        last = format!("r{round}-after");
        commit(cluster, &last).await;
        cluster.start(old).await;
        agree(cluster, &last).await;
    }
}

/// An orderly hand-over leaves another leader and loses nothing.
pub async fn hand_over(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    commit(cluster, "before").await;
    let old = leader(cluster).await;
    let log = cluster.log(old).unwrap();
    log.transfer().await;
    until("the old leader steps down", || (!log.leadership().borrow().is_leader).then_some(())).await;
    assert_ne!(leader(cluster).await, old);
    commit(cluster, "after").await;
    agree(cluster, "after").await;
}

/// 5: all members stop and come back from their disks with equal state.
pub async fn restart_all(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    for number in 0..20 {
        commit(cluster, &format!("k{number}")).await;
    }
    agree(cluster, "k19").await;
    let before = cluster.seen(0).commands();
    for _ in 0..4 {
        for at in 0..3 {
            cluster.kill(at).await;
        }
        start_all(cluster).await;
        // 4: at once, though a leader may have come back in its old term and know nothing to be committed in it yet.
        let at = leader(cluster).await;
        assert_eq!(cluster.seen(at).commands(), before, "a barrier passed, and the state is older");
        for other in (0..3).filter(|other| *other != at) {
            cluster.log(other).expect("it was started").caught_up().await;
            assert_eq!(cluster.seen(other).commands(), before, "it said that it had caught up");
        }
        agree(cluster, "k19").await;
        for at in 0..3 {
            assert_eq!(cluster.seen(at).commands(), before, "member {at} replayed something else");
        }
    }
    commit(cluster, "more").await;
    agree(cluster, "more").await;
}

/// 5: a member far behind gets a snapshot; then it is like the others, and stays so over a restart.
pub async fn snapshot_to_laggard(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    commit(cluster, "early").await;
    agree(cluster, "early").await;
    let at = leader(cluster).await;
    let laggard = (at + 1) % 3;
    // Entries outlive the snapshot that covers them for a moment, and a member that comes back then needs none of it.
    let mut round = 0;
    while !caught_up_by_snapshot(cluster, laggard, round).await {
        round += 1;
        assert!(round < 5, "no snapshot in {round} rounds: {:?}", cluster.seen(laggard).restored_at());
    }
    // And again from its own disk.
    cluster.kill(laggard).await;
    cluster.start(laggard).await;
    commit(cluster, "at last").await;
    agree(cluster, "at last").await;
}

/// The member misses three snapshots' worth of entries and returns. Whether it was brought up by a snapshot that covers
/// them.
async fn caught_up_by_snapshot(cluster: &mut dyn Cluster, laggard: usize, round: u32) -> bool {
    cluster.kill(laggard).await;
    let entries = cluster.snapshot_entries() * 3;
    for number in 0..entries {
        commit(cluster, &format!("x{round}-{number}")).await;
    }
    let last = format!("x{round}-{}", entries - 1);
    let covered = until("a snapshot covers what the member missed", || {
        let at = (0..3).find(|at| cluster.log(*at).is_some_and(|log| log.leadership().borrow().is_leader))?;
        let index = cluster.log(at)?.status().snapshot_index;
        (index > 2).then_some(index)
    })
    .await;
    cluster.start(laggard).await;
    agree(cluster, &last).await;
    let restored = cluster.seen(laggard).restored_at();
    restored.iter().any(|index| *index >= covered)
}

/// Without a quorum nothing is acknowledged; with it again, everything goes on.
pub async fn no_quorum(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    commit(cluster, "with").await;
    let at = leader(cluster).await;
    for other in (0..3).filter(|other| *other != at) {
        cluster.kill(other).await;
    }
    let log = cluster.log(at).unwrap();
    let outcome = log.propose(Bytes::from_static(b"alone")).await;
    assert!(outcome.is_err(), "one member of three acknowledged: {outcome:?}");
    assert!(log.barrier().await.is_err(), "one member of three passed a barrier");
    for other in (0..3).filter(|other| *other != at) {
        cluster.start(other).await;
    }
    commit(cluster, "with again").await;
    agree(cluster, "with again").await;
}

/// A stopped member says so and applies nothing more.
pub async fn shutdown(cluster: &mut dyn Cluster) {
    start_all(cluster).await;
    commit(cluster, "one").await;
    let at = leader(cluster).await;
    let log = cluster.log(at).unwrap();
    log.shutdown().await;
    log.shutdown().await;
    let count = cluster.seen(at).count();
    assert!(log.propose(Bytes::from_static(b"late")).await.is_err());
    cluster.kill(at).await;
    commit(cluster, "two").await;
    assert_eq!(cluster.seen(at).count(), count, "a stopped member went on applying");
}
