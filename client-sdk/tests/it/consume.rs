//! Consuming: order, exactly once, over breaks and damage.

use crate::double::{Cluster, TOPIC, TailFate};
use crate::produce::number;
use seamlog::{ConsumeError, Offset, ReadFrom, Record};
use std::time::Duration;

async fn fill(cluster: &Cluster, from: u32, to: u32) {
    let producer =
        cluster.client().producer(TOPIC).linger(Duration::ZERO).max_batch_bytes(1 << 10).build().await.unwrap();
    for n in from..to {
        drop(producer.send(Record::new(number(n)).key("k")).await.unwrap());
    }
    producer.flush().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_record_comes_once_and_in_order_whatever_breaks() {
    let mut cluster = Cluster::start(1, 2).await;
    fill(&cluster, 0, 3_000).await;
    assert!(cluster.ranges[0].batches() > 30);
    cluster.on_tail(|count| match count {
        3 | 70 => TailFate::Broken,
        7 => TailFate::Refused,
        12 => TailFate::Damaged,
        20 => TailFate::Skipped,
        25 | 26 => TailFate::Repeated,
        _ => TailFate::Served,
    });
    let mut consumer = cluster.client().consumer(TOPIC).range(0).build().await.unwrap();
    for n in 0..3_000u32 {
        if n == 1_500 {
            cluster.kill(0);
        }
        let record = consumer.next().await.unwrap().unwrap();
        assert_eq!((record.offset, record.value.unwrap()), (Offset(n.into()), number(n)));
        if n == 2_000 {
            cluster.revive(0).await;
        }
    }
    // It follows.
    fill(&cluster, 3_000, 3_100).await;
    for n in 3_000..3_100u32 {
        assert_eq!(consumer.next().await.unwrap().unwrap().value.unwrap(), number(n));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_come_whole_and_start_within_one_where_asked() {
    let cluster = Cluster::start(1, 1).await;
    fill(&cluster, 0, 500).await;
    let builder = cluster.client().consumer(TOPIC).from(ReadFrom::Offset(Offset(3))).follow(false);
    let mut batches = builder.build_batches().await.unwrap();
    let mut next = 3;
    while let Some(batch) = batches.next().await {
        let batch = batch.unwrap();
        assert_eq!(batch.first, Offset(next));
        for record in batch.records().unwrap() {
            assert_eq!((record.offset.0, record.value.unwrap()), (next, number(next as u32)));
            next += 1;
        }
        assert_eq!(batch.next, Offset(next));
    }
    assert_eq!(next, 500);
}

#[tokio::test(flavor = "multi_thread")]
async fn latest_begins_with_what_comes_next() {
    let cluster = Cluster::start(1, 1).await;
    fill(&cluster, 0, 100).await;
    let client = cluster.client();
    let mut consumer = client.consumer(TOPIC).from(ReadFrom::Latest).build().await.unwrap();
    let offsets = client.offsets(TOPIC, 0).await.unwrap();
    assert_eq!((offsets.earliest, offsets.latest), (Offset(0), Offset(100)));
    let reading = tokio::spawn(async move { consumer.next().await.unwrap().unwrap() });
    while !reading.is_finished() {
        let end = *cluster.ranges[0].end().borrow() as u32;
        fill(&cluster, end, end + 1).await;
    }
    let record = reading.await.unwrap();
    assert!(record.offset >= Offset(100));
    assert_eq!(record.value.unwrap(), number(record.offset.0 as u32));
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ranges_are_read_and_each_in_its_order() {
    let cluster = Cluster::start(4, 2).await;
    let client = cluster.client();
    let producer = client.producer(TOPIC).max_batch_bytes(1 << 10).build().await.unwrap();
    for n in 0..2_000 {
        drop(producer.send(Record::new(number(n))).await.unwrap());
    }
    producer.close().await;
    cluster.on_tail(|count| if count % 37 == 20 { TailFate::Broken } else { TailFate::Served });
    let mut next = [0; 4];
    let mut consumer = client.consumer(TOPIC).follow(false).build().await.unwrap();
    while let Some(record) = consumer.next().await {
        let record = record.unwrap();
        assert_eq!(record.offset.0, next[record.range as usize]);
        next[record.range as usize] += 1;
    }
    assert_eq!(next.iter().sum::<u64>(), 2_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_everywhere_is_told_and_not_delivered() {
    let cluster = Cluster::start(1, 2).await;
    fill(&cluster, 0, 300).await;
    let batches = cluster.ranges[0].batches() as u64;
    assert!(batches > 3);
    cluster.on_tail(|count| if count >= 2 { TailFate::Damaged } else { TailFate::Served });
    let mut consumer = cluster.client().consumer(TOPIC).range(0).build().await.unwrap();
    let mut next = 0;
    let error = loop {
        match consumer.next().await.unwrap() {
            Ok(record) => {
                assert_eq!(record.value.unwrap(), number(next));
                next += 1;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(&error, ConsumeError::Damaged { offset, .. } if offset.0 == u64::from(next)), "{error}");
    assert!(consumer.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_consumer_holds_up_nobody_else() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client();
    let producer = client.producer(TOPIC).max_batch_bytes(64 << 10).build().await.unwrap();
    let mut slow = client.consumer(TOPIC).max_buffer_bytes(64 << 10).build().await.unwrap();
    let mut quick = client.consumer(TOPIC).max_buffer_bytes(64 << 10).build().await.unwrap();
    let value = vec![7; 10_000];
    for n in 0..300u64 {
        producer.send(Record::new(value.clone())).await.unwrap().await.unwrap();
        assert_eq!(quick.next().await.unwrap().unwrap().offset.0, n);
        if n == 0 {
            assert_eq!(slow.next().await.unwrap().unwrap().offset.0, 0);
        }
    }
    for n in 1..300u64 {
        assert_eq!(slow.next().await.unwrap().unwrap().offset.0, n);
    }
}
