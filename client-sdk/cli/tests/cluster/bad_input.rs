//! Bytes that a router must not take: each is told to the client in so many words, counted at the router, and felt by nobody
//! else.

use crate::harness::{Cluster, Metrics, until};
use crate::load::Load;
use crate::raw::{Rude, clear, hear, refusal};
use bytes::Bytes;
use seam_transport::stream::{FrameReader, FrameWriter};
use seam_wire::batch::{BatchBuilder, BatchLimits, Compression};
use seam_wire::frame::{EncodedFrame, Frame, HEADER_LEN, MAX_PAYLOAD_BYTES};
use seam_wire::msg::{FromRouter, TailFrom, ToRouter};
use seamlog::{Client, ConsumeError, ErrorCode, Offset, ReadFrom, Record, TopicConfig};

const TOPIC: &str = "clean";
const RATE_PER_S: u64 = 200;
const ROUTER: &str = "router-1";
const MANY: usize = 1 << 30;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_input_is_told_and_counted() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "3", "--router", "1"]);
    let client = cluster.client();
    client.admin().create_topic(TOPIC, TopicConfig::default()).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(RATE_PER_S / 2).await;
    let (rude, metrics) = (Rude::connect(&cluster, ROUTER).await, cluster.metrics_of(ROUTER));

    frames(&rude, &metrics).await;
    load.check();
    batches(&rude, &metrics).await;
    load.check();
    names_and_offsets(&rude, &metrics).await;
    load.check();
    through_the_sdk(&client).await;

    load.progress(RATE_PER_S).await;
    load.finish().await;
}

/// Each ends its stream with `BadFrame`, whether it comes first or after good ones.
async fn frames(rude: &Rude, metrics: &Metrics) {
    let append = Frame::new(ToRouter::Append { seq: 0 }).payload(batch(1, 10)).encode().expect("small");
    let mut checksum = whole(&append);
    *checksum.last_mut().expect("a payload") ^= 1;
    let mut length = whole(&append);
    length[8..12].copy_from_slice(&(MAX_PAYLOAD_BYTES as u32 + 1).to_le_bytes());
    // A length that is allowed and not true: what follows is no frame.
    let mut short = whole(&append);
    short[8..12].copy_from_slice(&1u32.to_le_bytes());
    let noise = vec![0x5a; 3 * HEADER_LEN];
    for (told, bytes) in (1..).zip([checksum, length, short, noise]) {
        let (writer, mut reader) = rude.produce(TOPIC).await;
        send(writer, &bytes).await;
        assert_eq!(refusal(&mut reader).await, ErrorCode::BadFrame);
        let (writer, mut reader) = rude.open().await;
        send(writer, &bytes).await;
        assert_eq!(refusal(&mut reader).await, ErrorCode::BadFrame);
        until("both counted", || metrics.sum("router_bad_frames", "frame") == f64::from(2 * told));
    }
}

/// Each fails alone: the stream goes on.
async fn batches(rude: &Rude, metrics: &Metrics) {
    let mut damaged = batch(3, 10).to_vec();
    *damaged.last_mut().expect("records") ^= 1;
    let mut lying = batch(3, 10).to_vec();
    lying[57..61].copy_from_slice(&2i32.to_be_bytes());
    lying[23..27].copy_from_slice(&1i32.to_be_bytes());
    let crc = crc32c(&lying[21..]);
    lying[17..21].copy_from_slice(&crc.to_be_bytes());
    let bad = [
        (
            ErrorCode::BadBatch,
            Bytes::from_static(b"no batch at all, but long enough to have the header of one: so it is"),
        ),
        (ErrorCode::BadBatch, Bytes::new()),
        (ErrorCode::BadBatch, Bytes::from(damaged)),
        (ErrorCode::BadBatch, Bytes::from(lying)),
        // Almost 9 MiB in records that are allowed each, then one record of 2 MiB.
        (ErrorCode::BatchTooLarge, batch(10, 900 << 10)),
        (ErrorCode::BatchTooLarge, batch(1, 2 << 20)),
    ];
    let (mut writer, mut reader) = rude.produce(TOPIC).await;
    for (seq, (code, payload)) in (0..).zip(bad) {
        let count = || metrics.sum("router_bad_batches", &format!("{code:?}"));
        let before = count();
        assert_eq!(refused_append(&mut writer, &mut reader, seq, payload).await, code, "append {seq}");
        until("the batch counted", || count() == before + 1.0);
    }
    // That no good one is taken from this stream into the topic of the load: an empty stream end is all that is left.
    writer.finish().expect("open");
}

async fn names_and_offsets(rude: &Rude, metrics: &Metrics) {
    let produce = |topic: &str, range_index| ToRouter::ProduceOpen { topic: topic.to_owned(), range_index };
    let beyond = Offset(1 << 40);
    let tail =
        |follow| ToRouter::TailOpen { topic: TOPIC.to_owned(), range_index: 0, from: TailFrom::Offset(beyond), follow };
    let asked = [
        (produce("nobody-made-it", 0), ErrorCode::UnknownTopic),
        (ToRouter::Offsets { topic: "nobody-made-it".to_owned(), range_index: 0 }, ErrorCode::UnknownTopic),
        (produce(TOPIC, 7), ErrorCode::UnknownRange),
        (tail(true), ErrorCode::OffsetOutOfRange),
        (tail(false), ErrorCode::OffsetOutOfRange),
    ];
    for (hello, code) in asked {
        let count = || metrics.sum("router_stream_errors", &format!("{code:?}"));
        let before = count();
        let (_writer, mut reader) = rude.say(hello.clone()).await;
        assert_eq!(refusal(&mut reader).await, code, "{hello:?}");
        until("the refusal counted", || count() == before + 1.0);
    }
}

/// The same as an application meets it.
async fn through_the_sdk(client: &Client) {
    let beyond = client.consumer(TOPIC).from(ReadFrom::Offset(Offset(1 << 40))).follow(false).build().await;
    match beyond.expect("a consumer").next().await {
        Some(Err(ConsumeError::OffsetOutOfRange { range: 0, detail })) => assert!(!detail.is_empty()),
        other => panic!("{other:?}"),
    }
    let unknown = client.producer("nobody-made-it").build().await.expect_err("refused");
    assert_eq!(unknown.code(), Some(ErrorCode::UnknownTopic), "{unknown}");
    let producer = client.producer(TOPIC).build().await.expect("a producer");
    let large = producer.send(Record::new(vec![0; 2 << 20])).await.expect_err("refused");
    assert!(large.code == ErrorCode::BatchTooLarge && large.is_definite() && !large.retryable, "{large}");
}

async fn send(writer: FrameWriter, bytes: &[u8]) {
    // The router may stop the stream before it has all.
    let _ = writer.into_inner().write_all(bytes).await;
}

async fn refused_append(writer: &mut FrameWriter, reader: &mut FrameReader, seq: u64, payload: Bytes) -> ErrorCode {
    writer.write(&Frame::new(ToRouter::Append { seq }).payload(payload)).await.expect("taken");
    match hear(reader).await {
        FromRouter::AppendError { seq: told, error } => {
            assert_eq!(told, seq);
            clear(&error)
        }
        other => panic!("{other:?}"),
    }
}

fn whole(frame: &EncodedFrame) -> Vec<u8> {
    frame.to_bytes().to_vec()
}

/// A batch of records of this size, whatever the limits.
fn batch(records: usize, bytes: usize) -> Bytes {
    let limits = BatchLimits {
        max_batch_bytes: MANY,
        max_uncompressed_bytes: MANY,
        max_record_bytes: MANY,
        ..BatchLimits::default()
    };
    let mut batch = BatchBuilder::new(Compression::None, None).limits(limits);
    for _ in 0..records {
        batch.push(1, None, Some(&vec![7; bytes]), &[]).expect("within the limits");
    }
    batch.build().expect("not empty")
}

/// CRC-32C, bit by bit: the test's own, so that the check is not checked by itself.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    !bytes.iter().fold(!0u32, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}
