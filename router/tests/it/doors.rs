//! Who gets in, and what a client is told that asks for the wrong thing.

use crate::world::{LONG, World, append, batch, hear, wait_for};
use bytes::Bytes;
use router::Limits;
use seam_transport::Role;
use seam_transport::stream::{FrameReader, FrameWriter, open_bi};
use seam_wire::error::{Certainty, ErrorCode};
use seam_wire::frame::Frame;
use seam_wire::meta::SegmentState;
use seam_wire::msg::{FromRouter, TailFrom, ToRouter};
use seam_wire::{NodeId, Offset};

async fn refusal(reader: &mut FrameReader) -> ErrorCode {
    match hear(reader).await.msg {
        FromRouter::Error { error } => {
            assert_eq!(error.certainty, Certainty::Definite);
            error.code
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_names_and_offsets_are_told() {
    let mut world = World::start(Limits::default()).await;
    let named = |topic: &str, range_index| ToRouter::ProduceOpen { topic: topic.to_owned(), range_index };
    let (_writer, mut reader) = world.open(named("nope", 0)).await;
    assert_eq!(refusal(&mut reader).await, ErrorCode::UnknownTopic);
    let (_writer, mut reader) = world.open(named("t", 1)).await;
    assert_eq!(refusal(&mut reader).await, ErrorCode::UnknownRange);
    for follow in [true, false] {
        let mut tail = world.tail(TailFrom::Offset(Offset(1)), follow).await;
        assert_eq!(refusal(&mut tail).await, ErrorCode::OffsetOutOfRange);
    }
    world.record(1, None, 0, 10, 2);
    world.cluster.add(2, Some(10));
    wait_for("the roll to be known", async || world.metric("meta_version").await == 4.0).await;
    let (_writer, mut reader) = world.open(ToRouter::Offsets { topic: "t".to_owned(), range_index: 0 }).await;
    match hear(&mut reader).await.msg {
        FromRouter::Offsets { earliest, latest, .. } => assert_eq!((earliest, latest), (Offset(0), Offset(10))),
        other => panic!("{other:?}"),
    }
}

/// The head moved and metad does not know it yet: the ends are right all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_latest_offset_is_found_beyond_what_metad_knows() {
    let mut world = World::start(Limits::default()).await;
    let (mut writer, mut reader) = world.produce().await;
    world.prepare(2, 1);
    wait_for("the candidate to be known", async || world.metric("meta_version").await == 3.0).await;
    append(&mut writer, 0, batch(3, 10, None)).await;
    hear(&mut reader).await;
    world.cluster.switch(1, 2);
    append(&mut writer, 1, batch(2, 10, None)).await;
    assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { base_offset: Offset(3), .. }));
    let mut bounded = world.tail(TailFrom::Earliest, false).await;
    assert!(matches!(hear(&mut bounded).await.msg, FromRouter::TailOpened { start: Offset(0), .. }));
    for end in [3, 5] {
        assert!(matches!(hear(&mut bounded).await.msg, FromRouter::Records { next } if next == Offset(end)));
    }
    assert!(matches!(hear(&mut bounded).await.msg, FromRouter::TailEnd { end: Offset(5) }));
}

/// The head cannot answer: what is sealed is delivered all the same, then comes the error, with the head and its nodes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sealed_is_delivered_though_the_head_does_not_answer() {
    let mut world = World::start(Limits { query_ms: 300, ..Limits::default() }).await;
    let (mut writer, mut reader) = world.produce().await;
    append(&mut writer, 0, batch(3, 10, None)).await;
    hear(&mut reader).await;
    world.prepare(2, 1);
    world.cluster.switch(1, 2);
    world.record(1, None, 0, 3, 2);
    // A head on a node nobody has heard of.
    world.tell_segment_on(2, Some(1), SegmentState::Open { start: Offset(3) }, NodeId(9));
    wait_for("the head to be lost", async || world.metric("meta_version").await == 6.0).await;
    for (from, start) in [(TailFrom::Earliest, 0), (TailFrom::Offset(Offset(2)), 2)] {
        let mut bounded = world.tail(from, false).await;
        assert!(matches!(hear(&mut bounded).await.msg, FromRouter::TailOpened { start: at, .. } if at.0 == start));
        assert!(matches!(hear(&mut bounded).await.msg, FromRouter::Records { next: Offset(3) }));
        match hear(&mut bounded).await.msg {
            FromRouter::Error { error } => {
                assert!(error.retryable && error.certainty == Certainty::Definite, "{error}");
                assert!(error.detail.contains("seg-2 (open) is on segd-9 (unknown)"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_batch_fails_alone() {
    let world = World::start(Limits { max_batch_bytes: 4096, ..Limits::default() }).await;
    let (mut writer, mut reader) = world.produce().await;
    let mut lying = batch(3, 10, None).to_vec();
    // The record count says 3; now the checksum is right for a count of 2.
    lying[57..61].copy_from_slice(&2i32.to_be_bytes());
    lying[23..27].copy_from_slice(&1i32.to_be_bytes());
    let crc = seam_wire_crc(&lying);
    lying[17..21].copy_from_slice(&crc.to_be_bytes());
    let mut damaged = batch(3, 10, None).to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let bad = [(lying, ErrorCode::BadBatch), (damaged, ErrorCode::BadBatch), (vec![1; 9], ErrorCode::BadBatch)];
    let large = (batch(1, 5000, None).to_vec(), ErrorCode::BatchTooLarge);
    for (seq, (payload, code)) in bad.into_iter().chain([large]).enumerate() {
        append(&mut writer, seq as u64, Bytes::from(payload)).await;
        match hear(&mut reader).await.msg {
            FromRouter::AppendError { seq: told, error } => {
                assert_eq!((told, error.code, error.certainty), (seq as u64, code, Certainty::Definite));
            }
            other => panic!("{other:?}"),
        }
    }
    append(&mut writer, 4, batch(1, 10, None)).await;
    assert!(matches!(hear(&mut reader).await.msg, FromRouter::AppendAck { seq: 4, base_offset: Offset(0) }));
    assert_eq!(world.metric("bad_batches").await, 4.0);
}

fn seam_wire_crc(batch: &[u8]) -> u32 {
    // CRC-32C, bit by bit: the test's own, so that the check is not checked by itself.
    let mut crc = !0u32;
    for byte in &batch[21..] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
        }
    }
    !crc
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_frame_ends_its_stream_alone() {
    let world = World::start(Limits::default()).await;
    let (mut good, mut good_reader) = world.produce().await;
    let (mut send, recv) = open_bi(&world.client, LONG).await.unwrap();
    send.write_all(&[0xff; 200]).await.unwrap();
    assert_eq!(refusal(&mut FrameReader::new(recv)).await, ErrorCode::BadFrame);
    // An append that is not the next one, and one on no produce stream.
    let (mut skipping, mut skipped) = world.produce().await;
    append(&mut skipping, 1, batch(1, 10, None)).await;
    assert_eq!(refusal(&mut skipped).await, ErrorCode::InvalidArgument);
    let (send, recv) = open_bi(&world.client, LONG).await.unwrap();
    let mut writer = FrameWriter::new(send);
    writer.write(&Frame::new(ToRouter::Append { seq: 0 })).await.unwrap();
    assert_eq!(refusal(&mut FrameReader::new(recv)).await, ErrorCode::InvalidArgument);
    // A bad frame in mid-stream is told too.
    let (writer, mut told) = world.produce().await;
    writer.into_inner().write_all(&[0xff; 200]).await.unwrap();
    assert_eq!(refusal(&mut told).await, ErrorCode::BadFrame);
    wait_for("four bad frames to be counted", async || world.metric("bad_frames").await == 4.0).await;
    append(&mut good, 0, batch(1, 10, None)).await;
    assert!(matches!(hear(&mut good_reader).await.msg, FromRouter::AppendAck { .. }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_clients_are_served() {
    let world = World::start(Limits::default()).await;
    for (name, role) in [("segd-9", Role::Segd), ("metad-9", Role::Metad), ("router-9", Role::Router)] {
        let connection = world.stranger(name, role).await;
        let closed = tokio::time::timeout(LONG, connection.closed()).await.unwrap();
        assert!(matches!(closed, quinn::ConnectionError::ApplicationClosed(_)), "{closed:?}");
    }
    assert_eq!(world.metric("not_authorized").await, 3.0);
    world.produce().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_clean() {
    let world = World::start(Limits::default()).await;
    let (mut writer, mut reader) = world.produce().await;
    append(&mut writer, 0, batch(1, 10, None)).await;
    hear(&mut reader).await;
    let mut tail = world.tail(TailFrom::Latest, true).await;
    hear(&mut tail).await;
    let last_word = tokio::spawn(async move { hear(&mut tail).await.msg });
    world.server.shutdown().await;
    match last_word.await.unwrap() {
        FromRouter::Error { error } => assert!(error.retryable, "{error}"),
        other => panic!("{other:?}"),
    }
}
