//! Reading from a moment on.

use crate::double::{Cluster, TOPIC};
use seamlog::{Client, Offset, ReadFrom, Record};
use std::time::Duration;

async fn first(client: &Client, moment_ms: i64) -> Option<(Offset, i64)> {
    let builder = client.consumer(TOPIC).range(0).from(ReadFrom::Timestamp(moment_ms)).follow(false);
    let mut consumer = builder.build().await.unwrap();
    let record = consumer.next().await.transpose().unwrap();
    record.map(|record| (record.offset, record.timestamp_ms))
}

async fn write(client: &Client, timestamps: impl IntoIterator<Item = i64>) {
    let producer = client.producer(TOPIC).linger(Duration::ZERO).max_batch_bytes(1 << 10).build().await.unwrap();
    for timestamp_ms in timestamps {
        let record = Record::new("x".repeat(100)).timestamp_ms(timestamp_ms);
        drop(producer.send(record).await.unwrap());
    }
    producer.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_is_found_to_the_record() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client();
    write(&client, (0..500).map(|n| 1_000 + n / 2 * 10)).await;
    assert!(cluster.ranges[0].batches() > 20);
    for (moment_ms, offset, timestamp_ms) in
        [(0, 0, 1_000), (1_000, 0, 1_000), (1_001, 2, 1_010), (2_500, 300, 2_500), (3_485, 498, 3_490)]
    {
        assert_eq!(first(&client, moment_ms).await, Some((Offset(offset), timestamp_ms)), "{moment_ms}");
    }
    assert_eq!(first(&client, 3_491).await, None, "nothing is that late yet");
}

#[tokio::test(flavor = "multi_thread")]
async fn out_of_order_it_is_a_place_where_the_moment_is_passed() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client();
    write(&client, (0..400).map(|n| if n % 97 == 3 { n - 90 } else { n })).await;
    for moment_ms in [5, 100, 250, 399] {
        let (offset, timestamp_ms) = first(&client, moment_ms).await.unwrap();
        assert!(timestamp_ms >= moment_ms);
        assert!(offset.0 >= moment_ms as u64, "all of the batch before is earlier: {offset}");
    }
}
