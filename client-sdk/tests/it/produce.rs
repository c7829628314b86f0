//! Producing when all is well.

use crate::double::{Cluster, TOPIC};
use bytes::Bytes;
use client_core::partition::range_of;
use seamlog::{Ack, Completion, Compression, ErrorCode, Offset, ReadFrom, Record};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

pub fn number(n: u32) -> Bytes {
    Bytes::from(format!("record {n:06}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn records_come_back_as_they_went() {
    for compression in [Compression::None, Compression::Lz4] {
        let cluster = Cluster::start(3, 2).await;
        let client = cluster.client();
        let producer = client.producer(TOPIC).compression(compression).max_batch_bytes(4 << 10).build().await.unwrap();
        assert_eq!(producer.ranges(), 3);
        let mut handles = Vec::new();
        for n in 0..2_000 {
            let record =
                Record::new(number(n)).key(format!("key-{}", n % 7)).header("h", "content").timestamp_ms(n.into());
            handles.push(producer.send(record).await.unwrap());
        }
        let mut acks = Vec::new();
        for handle in handles {
            acks.push(handle.await.unwrap());
        }
        assert_eq!(producer.buffered_bytes(), 0);
        let mut consumer = client.consumer(TOPIC).follow(false).build().await.unwrap();
        let mut read = Vec::new();
        while let Some(record) = consumer.next().await {
            read.push(record.unwrap());
        }
        assert_eq!(read.len(), 2_000);
        for record in read {
            let n = record.timestamp_ms as usize;
            assert_eq!(acks[n], Ack { range: record.range, offset: record.offset });
            assert_eq!(record.value.unwrap(), number(n as u32));
            let key = record.key.unwrap();
            assert_eq!(key, format!("key-{}", n % 7));
            assert_eq!(record.range, range_of(&key, 3));
            assert_eq!(record.headers, [("h".to_owned(), Bytes::from("content"))]);
        }
        // Of one key, in the order of sending.
        for range in 0..3 {
            let offsets: Vec<Offset> = acks.iter().filter(|ack| ack.range == range).map(|ack| ack.offset).collect();
            assert!(offsets.is_sorted(), "range {range}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn records_without_a_key_share_batches_and_use_all_ranges() {
    let cluster = Cluster::start(3, 1).await;
    let producer = cluster.client().producer(TOPIC).max_batch_bytes(1 << 10).build().await.unwrap();
    for n in 0..1_000 {
        drop(producer.send(Record::new(number(n))).await.unwrap());
    }
    producer.flush().await;
    let counts: Vec<usize> = cluster.ranges.iter().map(|log| log.values().len()).collect();
    assert_eq!(counts.iter().sum::<usize>(), 1_000);
    assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
    let batches: usize = cluster.ranges.iter().map(|log| log.batches()).sum();
    assert!(batches < 300, "{batches} batches of 1000 small records");
}

#[tokio::test(flavor = "multi_thread")]
async fn outcomes_come_by_callback_with_their_token() {
    let cluster = Cluster::start(1, 1).await;
    let (sender, mut completions) = mpsc::unbounded_channel::<Completion>();
    let builder = cluster.client().producer(TOPIC).on_complete(move |completion| sender.send(completion).unwrap());
    let producer = builder.build().await.unwrap();
    let due = Instant::now();
    let sending = {
        let producer = producer.clone();
        // Any thread will do.
        std::thread::spawn(move || {
            (0..500).for_each(|n| producer.send_due(Record::new(number(n)), due, n.into()).unwrap())
        })
    };
    for n in 0..500u64 {
        let completion = completions.recv().await.unwrap();
        assert_eq!((completion.token, completion.due), (n, due));
        assert_eq!(completion.result.unwrap().offset, Offset(n));
        assert!(completion.done > due);
    }
    sending.join().unwrap();
    let silent = cluster.client().producer(TOPIC).build().await.unwrap();
    assert_eq!(silent.send_due(Record::new("x"), due, 0).unwrap_err().code, ErrorCode::InvalidArgument);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lone_record_lingers_as_long_as_told_and_no_flush_waits_for_it() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client();
    let linger = Duration::from_millis(300);
    let patient = client.producer(TOPIC).linger(linger).build().await.unwrap();
    let hasty = client.producer(TOPIC).linger(Duration::ZERO).build().await.unwrap();
    let started = Instant::now();
    patient.send(Record::new("a")).await.unwrap().await.unwrap();
    let lingered = started.elapsed();
    assert!(lingered >= linger, "{lingered:?}");
    let started = Instant::now();
    hasty.send(Record::new("b")).await.unwrap().await.unwrap();
    assert!(started.elapsed() < lingered, "{:?}", started.elapsed());
    let forever = client.producer(TOPIC).linger(Duration::from_secs(20)).build().await.unwrap();
    let handle = forever.send(Record::new("c")).await.unwrap();
    forever.flush().await;
    assert_eq!(handle.await.unwrap().offset, Offset(2));
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_and_dropped_producers_leave_nothing_behind() {
    let cluster = Cluster::start(2, 1).await;
    let client = cluster.client();
    let producer = client.producer(TOPIC).linger(Duration::from_secs(20)).build().await.unwrap();
    let handle = producer.submit(Record::new("a").key("k"));
    let clone = producer.clone();
    producer.close().await;
    let range = handle.await.unwrap().range;
    let error = clone.send(Record::new("b")).await.unwrap_err();
    assert_eq!((error.code, error.retryable), (ErrorCode::Unavailable, false), "{error}");
    clone.close().await;
    clone.flush().await;

    let dropped = client.producer(TOPIC).linger(Duration::from_secs(20)).build().await.unwrap();
    let handle = dropped.submit(Record::new("b").key("k"));
    drop(dropped);
    assert_eq!(handle.await.unwrap(), Ack { range, offset: Offset(1) });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_holds_no_more_than_told_and_a_record_no_more_than_allowed() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client();
    let producer = client.producer(TOPIC).max_batch_bytes(1 << 10).build().await.unwrap();
    let error = producer.submit(Record::new(vec![0; 2_000])).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::BatchTooLarge, "{error}");
    assert!(error.is_definite() && !error.retryable);
    let acks: Vec<_> = (0..8).map(|n| producer.submit(Record::new(vec![n; 500]))).collect();
    for ack in acks {
        ack.await.unwrap();
    }
    let mut batches = client.consumer(TOPIC).from(ReadFrom::Earliest).follow(false).build_batches().await.unwrap();
    while let Some(batch) = batches.next().await {
        assert!(batch.unwrap().bytes.len() <= 1 << 10);
    }
    for bad in [client.producer(TOPIC).max_in_flight(17), client.producer(TOPIC).max_batch_bytes(1 << 30)] {
        let error = bad.build().await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::InvalidArgument), "{error}");
    }
}
