//! Producing while connections break, answers get lost, appends are refused and routers hang.

use crate::double::{Cluster, Fate, TOPIC};
use crate::produce::number;
use seamlog::{Certainty, ErrorCode, Record, SendHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

#[tokio::test(flavor = "multi_thread")]
async fn every_record_is_written_once_and_in_order_whatever_breaks() {
    let cluster = Cluster::start(1, 2).await;
    cluster.on_append(|count| match count {
        5 | 61 => Fate::WrittenAndBroken,
        11 | 12 | 90 => Fate::Overloaded,
        30 => Fate::Broken,
        _ if count % 41 == 40 => Fate::Overloaded,
        _ => Fate::Written,
    });
    let builder = cluster.client().producer(TOPIC).linger(Duration::ZERO).max_batch_bytes(1 << 10);
    let producer = builder.max_in_flight(16).build().await.unwrap();
    let mut handles: Vec<SendHandle> = Vec::new();
    for n in 0..5_000 {
        handles.push(producer.send(Record::new(number(n))).await.unwrap());
    }
    for (handle, n) in handles.into_iter().zip(0u64..) {
        assert_eq!(handle.await.unwrap().offset.0, n);
    }
    let values = cluster.ranges[0].values();
    assert!(values.iter().zip(0..).all(|(value, n)| *value == number(n)) && values.len() == 5_000);
    assert!(cluster.plan.appends.load(Ordering::Relaxed) > 100, "the plan was not met");
    assert_eq!(cluster.ranges[0].epochs(), [0], "nothing was in doubt");
}

#[tokio::test(flavor = "multi_thread")]
async fn routers_may_die_and_come_back() {
    let mut cluster = Cluster::start(1, 2).await;
    let producer = cluster.client().producer(TOPIC).linger(Duration::ZERO).build().await.unwrap();
    for n in 0..60u32 {
        match n % 20 {
            5 => cluster.kill(0),
            10 => cluster.revive(0).await,
            12 => cluster.kill(1),
            18 => cluster.revive(1).await,
            _ => {}
        }
        let ack = producer.send(Record::new(number(n))).await.unwrap().await.unwrap();
        assert_eq!(ack.offset.0, u64::from(n));
    }
    assert_eq!(cluster.ranges[0].values().len(), 60);
}

/// P5 and the epoch, as an application sees them.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_cluster_ends_every_record_within_its_deadline_and_the_next_epoch_goes_on() {
    let cluster = Cluster::start(1, 1).await;
    let silent = Arc::new(AtomicBool::new(true));
    cluster.on_append({
        let silent = Arc::clone(&silent);
        move |count| match count {
            _ if !silent.load(Ordering::Relaxed) => Fate::Written,
            0 => Fate::WrittenSilently,
            _ => Fate::Ignored,
        }
    });
    let deadline = Duration::from_millis(800);
    let builder = cluster.client().producer(TOPIC).linger(Duration::ZERO).max_in_flight(2).deadline(deadline);
    let producer = builder.build().await.unwrap();
    let first = producer.submit(Record::new("first"));
    // One a batch: each waits until the one before has left.
    while cluster.plan.appends.load(Ordering::Relaxed) < 1 {
        tokio::task::yield_now().await;
    }
    let second = producer.submit(Record::new("second"));
    while cluster.plan.appends.load(Ordering::Relaxed) < 2 {
        tokio::task::yield_now().await;
    }
    for handle in [first, second] {
        let error = handle.await.unwrap_err();
        assert_eq!((error.code, error.certainty), (ErrorCode::DeadlineExceeded, Certainty::Indeterminate), "{error}");
    }
    silent.store(false, Ordering::Relaxed);
    producer.send(Record::new("after")).await.unwrap().await.unwrap();
    assert_eq!(cluster.ranges[0].values(), ["first", "after"]);
    assert_eq!(cluster.ranges[0].epochs(), [1]);
}

/// What is in doubt stays in doubt, and is written at most once, whenever its copy arrives.
#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_arrives_late_is_written_before_the_next_epoch_or_never() {
    for before in [true, false] {
        let cluster = Cluster::start(1, 1).await;
        cluster.on_append(|count| if count == 0 { Fate::UnderWay } else { Fate::Written });
        let builder = cluster.client().producer(TOPIC).linger(Duration::ZERO).deadline(Duration::from_millis(500));
        let producer = builder.build().await.unwrap();
        let error = producer.send(Record::new("late")).await.unwrap().await.unwrap_err();
        assert_eq!(error.certainty, Certainty::Indeterminate, "{error}");
        let late = cluster.plan.under_way.lock().pop().unwrap();
        if before {
            cluster.ranges[0].append(&late).unwrap();
        }
        producer.send(Record::new("after")).await.unwrap().await.unwrap();
        let again = cluster.ranges[0].append(&late).unwrap_err();
        assert_eq!((again.code, again.certainty), (ErrorCode::ProducerFenced, Certainty::Definite), "{again}");
        let written: &[&str] = if before { &["late", "after"] } else { &["after"] };
        assert_eq!(cluster.ranges[0].values(), written);
        assert_eq!(cluster.ranges[0].epochs(), [1]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_always_refused_certainly_did_not_happen() {
    let cluster = Cluster::start(1, 1).await;
    cluster.on_append(|_| Fate::Overloaded);
    let builder = cluster.client().producer(TOPIC).linger(Duration::ZERO).deadline(Duration::from_millis(500));
    let producer = builder.build().await.unwrap();
    let error = producer.send(Record::new("x")).await.unwrap().await.unwrap_err();
    assert_eq!((error.code, error.certainty), (ErrorCode::DeadlineExceeded, Certainty::Definite), "{error}");
    assert!(error.retryable && error.detail.contains("on purpose"), "{error}");
    assert!(cluster.plan.appends.load(Ordering::Relaxed) > 2, "it was not tried again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_batch_does_not_hold_up_the_ones_behind_it() {
    let cluster = Cluster::start(1, 1).await;
    cluster.on_append(|count| if count == 1 { Fate::Bad } else { Fate::Written });
    let producer = cluster.client().producer(TOPIC).linger(Duration::ZERO).build().await.unwrap();
    let mut outcomes = Vec::new();
    for n in 0..6 {
        let handle = producer.submit(Record::new(number(n)));
        while cluster.plan.appends.load(Ordering::Relaxed) <= u64::from(n).min(1) {
            tokio::task::yield_now().await;
        }
        outcomes.push(handle);
    }
    for (handle, n) in outcomes.into_iter().zip(0..) {
        match handle.await {
            Ok(_) => assert_ne!(n, 1),
            Err(error) => {
                assert_eq!((n, error.code, error.certainty), (1, ErrorCode::BadBatch, Certainty::Definite), "{error}");
            }
        }
    }
    let values = cluster.ranges[0].values();
    assert_eq!(values, [0, 2, 3, 4, 5].map(number));
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_told_in_time_with_names() {
    let mut cluster = Cluster::start(1, 2).await;
    let producer = cluster.client().producer(TOPIC).deadline(Duration::from_millis(700)).build().await.unwrap();
    cluster.kill(0);
    cluster.kill(1);
    let started = Instant::now();
    let error = producer.send(Record::new("x")).await.unwrap().await.unwrap_err();
    assert!(started.elapsed() >= Duration::from_millis(700));
    assert_eq!(error.code, ErrorCode::DeadlineExceeded, "{error}");
    assert!(error.retryable && error.detail.contains("router"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_buffer_refuses_or_waits_and_never_grows() {
    let cluster = Cluster::start(1, 1).await;
    let open = Arc::new(AtomicBool::new(false));
    cluster.on_append({
        let open = Arc::clone(&open);
        move |_| if open.load(Ordering::Relaxed) { Fate::Written } else { Fate::Overloaded }
    });
    let producer = cluster.client().producer(TOPIC).max_buffer_bytes(10_000).build().await.unwrap();
    let taken: Vec<SendHandle> = (0..9).map(|_| producer.submit(Record::new(vec![0; 1_000]))).collect();
    let error = producer.submit(Record::new(vec![0; 1_000])).await.unwrap_err();
    assert_eq!((error.code, error.is_definite(), error.retryable), (ErrorCode::Overloaded, true, true), "{error}");
    assert!(producer.buffered_bytes() <= 10_000);
    let waiting = {
        let producer = producer.clone();
        tokio::spawn(async move { producer.send(Record::new(vec![0; 1_000])).await.unwrap().await })
    };
    assert!(!waiting.is_finished());
    open.store(true, Ordering::Relaxed);
    for handle in taken {
        handle.await.unwrap();
    }
    waiting.await.unwrap().unwrap();
    assert_eq!(cluster.ranges[0].values().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_that_does_not_know_the_topic_yet_is_waited_for() {
    let cluster = Cluster::start(1, 1).await;
    cluster.plan.unaware.store(true, Ordering::Relaxed);
    let producer = cluster.client().producer(TOPIC).build().await.unwrap();
    let handle = producer.submit(Record::new("early"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    cluster.plan.unaware.store(false, Ordering::Relaxed);
    assert_eq!(handle.await.unwrap().offset.0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn producing_does_without_metad() {
    for ranges in [1, 5, 8] {
        let cluster = Cluster::start(ranges, 1).await;
        cluster.kill_metad();
        let mut config = cluster.config();
        config.request_timeout_ms = 1_000;
        let client = seamlog::Client::connect(config).unwrap();
        let producer = client.producer(TOPIC).build().await.unwrap();
        assert_eq!(producer.ranges() as usize, ranges);
        producer.send(Record::new("x")).await.unwrap().await.unwrap();
    }
}
