//! Consumer groups: who gets what, what is committed, and what is delivered again.

use crate::double::{Cluster, TOPIC};
use crate::produce::number;
use seamlog::{CommitError, GroupAdminError, GroupConsumer, Offset, ReadFrom, Record, ResetTo};
use std::collections::BTreeSet;
use std::time::Duration;

const RANGES: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

async fn fill(cluster: &Cluster, from: u32, to: u32) {
    let client = cluster.client();
    for range in 0..RANGES {
        let producer = client.producer(TOPIC).range(range).linger(Duration::ZERO).build().await.unwrap();
        for n in from..to {
            drop(producer.send(Record::new(number(n))).await.unwrap());
        }
        producer.close().await;
    }
}

async fn soon<T>(what: &str, of: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, of).await.unwrap_or_else(|_| panic!("{what} did not come about"))
}

async fn take(consumer: &mut GroupConsumer) -> (u32, u64) {
    let record = soon("a record", consumer.next()).await.unwrap().unwrap();
    assert_eq!(record.value.unwrap(), number(record.offset.0 as u32));
    (record.range, record.offset.0)
}

/// Polls all until their shares, in whatever order, are these and nothing is under way; what comes is collected.
async fn settle(consumers: &mut [GroupConsumer], counts: &[usize], taken: &mut Vec<(u32, u64)>) {
    let reached = async {
        loop {
            for consumer in &mut *consumers {
                if let Ok(record) = tokio::time::timeout(Duration::from_millis(10), consumer.next()).await {
                    let record = record.unwrap().unwrap();
                    taken.push((record.range, record.offset.0));
                }
            }
            let mut has: Vec<usize> = consumers.iter().map(|it| it.assignment().ranges.len()).collect();
            has.sort_unstable_by(|a, b| b.cmp(a));
            if has == counts && consumers.iter().all(|it| it.assignment().waiting == 0) {
                return;
            }
        }
    };
    soon("an even share", reached).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_goes_on_where_it_was() {
    let cluster = Cluster::start(RANGES as usize, 2).await;
    fill(&cluster, 0, 50).await;
    let client = cluster.client();
    let mut consumer = client.consumer(TOPIC).group("g").build().await.unwrap();
    let mut seen = BTreeSet::new();
    for _ in 0..90 {
        assert!(seen.insert(take(&mut consumer).await));
    }
    consumer.close().await.unwrap();
    let mut consumer = client.consumer(TOPIC).group("g").build().await.unwrap();
    for _ in 90..200 {
        let record = take(&mut consumer).await;
        assert!(seen.insert(record), "{record:?} was committed");
    }
    assert_eq!(seen.len(), 200);
    consumer.commit().await.unwrap();
    let group = client.groups().describe("g").await.unwrap();
    let lags: Vec<_> = group.topics[0].ranges.iter().map(|range| (range.committed, range.lag)).collect();
    assert_eq!(lags, [(Some(50), Some(0)); RANGES as usize]);
    assert_eq!((group.members.len(), client.groups().list().await.is_ok()), (1, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn members_share_and_a_range_moves_without_a_repeat() {
    let cluster = Cluster::start(RANGES as usize, 1).await;
    fill(&cluster, 0, 400).await;
    let client = cluster.client();
    let build = async || client.consumer(TOPIC).group("g").build().await.unwrap();
    let (mut taken, mut consumers) = (Vec::new(), vec![build().await]);
    settle(&mut consumers, &[4], &mut taken).await;
    consumers.push(build().await);
    settle(&mut consumers, &[2, 2], &mut taken).await;
    let has = |consumer: &GroupConsumer| consumer.assignment().ranges.into_keys().collect::<BTreeSet<_>>();
    let before = [has(&consumers[0]), has(&consumers[1])];
    consumers.push(build().await);
    settle(&mut consumers, &[2, 1, 1], &mut taken).await;
    // Which of the two gives one up is drawn; nothing else moves.
    assert!(before.iter().zip(&consumers).all(|(before, consumer)| has(consumer).is_subset(before)));
    // One leaves: the others take its share.
    consumers.remove(1).close().await.unwrap();
    settle(&mut consumers, &[2, 2], &mut taken).await;
    let rest = async {
        while taken.len() < 400 * RANGES as usize {
            for consumer in &mut consumers {
                if let Ok(record) = tokio::time::timeout(Duration::from_millis(5), consumer.next()).await {
                    let record = record.unwrap().unwrap();
                    taken.push((record.range, record.offset.0));
                }
            }
        }
    };
    soon("everything", rest).await;
    let once: BTreeSet<_> = taken.iter().collect();
    assert_eq!(once.len(), taken.len(), "hand-overs between live members repeat nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_not_committed_comes_again_and_a_zombie_commits_nothing() {
    let cluster = Cluster::start(RANGES as usize, 1).await;
    fill(&cluster, 0, 10).await;
    let client = cluster.client();
    let group = || client.consumer(TOPIC).group("g").auto_commit(None).session_timeout(Duration::from_secs(2));
    // A client of its own, on a runtime that is stopped: the zombie.
    let config = cluster.config();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (mut zombie, runtime) = tokio::task::spawn_blocking(move || {
        let zombie = runtime.block_on(async {
            let client = seamlog::Client::connect(config).unwrap();
            let builder = client.consumer(TOPIC).group("g").auto_commit(None);
            let mut zombie = builder.session_timeout(Duration::from_secs(2)).build().await.unwrap();
            for n in 0..20 {
                take(&mut zombie).await;
                if n == 9 {
                    zombie.commit().await.unwrap();
                }
            }
            zombie
        });
        (zombie, runtime)
    })
    .await
    .unwrap();
    let committed: u64 = {
        let described = client.groups().describe("g").await.unwrap();
        described.topics[0].ranges.iter().filter_map(|range| range.committed).sum()
    };
    assert_eq!(committed, 10);
    let mut heir = group().build().await.unwrap();
    let mut again = BTreeSet::new();
    while again.len() < 30 {
        assert!(again.insert(take(&mut heir).await), "twice to the heir");
    }
    heir.commit().await.unwrap();
    // The zombie wakes: what it had was others' by then.
    let verdict =
        tokio::task::spawn_blocking(move || runtime.block_on(async { soon("an answer", zombie.commit()).await }));
    let verdict = verdict.await.unwrap();
    assert!(matches!(&verdict, Err(CommitError::Fenced { ranges }) if !ranges.is_empty()), "{verdict:?}");
    let described = client.groups().describe("g").await.unwrap();
    assert!(described.topics[0].ranges.iter().all(|range| range.lag == Some(0)), "{described:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_without_a_commit_is_kept() {
    let cluster = Cluster::start(RANGES as usize, 1).await;
    fill(&cluster, 0, 10).await;
    let client = cluster.client();
    let group = || client.consumer(TOPIC).group("g").from(ReadFrom::Latest);
    let mut first = group().build().await.unwrap();
    let pinned = async {
        loop {
            let _ = tokio::time::timeout(Duration::from_millis(20), first.next()).await;
            let described = client.groups().describe("g").await.unwrap();
            if described.topics.iter().flat_map(|topic| &topic.ranges).all(|range| range.committed == Some(10)) {
                return;
            }
        }
    };
    soon("the starts' commits", pinned).await;
    drop(first);
    fill(&cluster, 10, 12).await;
    let mut second = group().build().await.unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < 2 * RANGES as usize {
        let (range, offset) = take(&mut second).await;
        assert!(offset >= 10);
        seen.insert((range, offset));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_moves_an_idle_group_and_not_a_live_one() {
    let cluster = Cluster::start(RANGES as usize, 1).await;
    fill(&cluster, 0, 10).await;
    let (client, groups) = (cluster.client(), cluster.client().groups());
    assert!(matches!(groups.describe("g").await, Err(GroupAdminError::Unknown { .. })));
    let mut consumer = client.consumer(TOPIC).group("g").label("me").build().await.unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < 10 * RANGES as usize {
        seen.insert(take(&mut consumer).await);
    }
    consumer.commit().await.unwrap();
    let to = ResetTo(ReadFrom::Offset(Offset(4)));
    let refused = groups.reset("g", TOPIC, to, &[], false).await;
    assert!(matches!(&refused, Err(GroupAdminError::InUse { members, .. }) if members == &["me"]), "{refused:?}");
    // Forced: the member goes on from there.
    groups.reset("g", TOPIC, to, &[1], true).await.unwrap();
    for offset in 4..10 {
        assert_eq!(take(&mut consumer).await, (1, offset));
    }
    consumer.close().await.unwrap();
    let beyond = groups.reset("g", TOPIC, ResetTo(ReadFrom::Offset(Offset(11))), &[], false).await;
    assert!(matches!(beyond, Err(GroupAdminError::OutOfRange { .. })), "{beyond:?}");
    let moved = groups.reset("g", TOPIC, ResetTo(ReadFrom::Earliest), &[], false).await.unwrap();
    assert_eq!(moved.values().collect::<Vec<_>>(), [&Offset(0); RANGES as usize]);
    let mut again = client.consumer(TOPIC).group("g").build().await.unwrap();
    let mut seen = BTreeSet::new();
    while seen.len() < 10 * RANGES as usize {
        seen.insert(take(&mut again).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_the_house_are_refused() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client();
    let create = client.admin().create_topic("seam.group.mine", seamlog::TopicConfig::default()).await;
    let delete = client.admin().delete_topic("seam.group.mine").await;
    let produce = client.producer("seam.group.mine").build().await;
    for error in [create.unwrap_err(), delete.unwrap_err(), produce.unwrap_err()] {
        assert!(error.to_string().contains("belong to Seamlog itself"), "{error}");
    }
    let error = client.consumer(TOPIC).group("no spaces").build().await.unwrap_err();
    assert!(error.to_string().contains("a-z"), "{error}");
    let error = client.consumer(TOPIC).range(0).group("g").build().await.unwrap_err();
    assert!(error.to_string().contains("leave out range"), "{error}");
}
