//! Frames over real streams: whole ones, broken ones, and many at once.

use crate::world::{PATIENCE, Pair, eventually, pair, soon};
use bytes::Bytes;
use quinn::RecvStream;
use seam_transport::quic::{QuicConfig, code};
use seam_transport::stream::{FrameReader, FrameWriter, StreamError, open_bi, open_uni};
use seam_wire::frame::{Frame, FrameError, HEADER_LEN, MAX_PAYLOAD_BYTES};
use seam_wire::msg::{FromSegd, ToSegd};
use seam_wire::{Epoch, Offset, RangeId, SegmentId, TraceContext};
use std::sync::Arc;
use tokio::sync::Semaphore;

fn append(seq: u64, payload: impl Into<Bytes>) -> Frame<ToSegd> {
    Frame::new(ToSegd::Append { seq }).range(RangeId(3)).segment(SegmentId(7)).epoch(Epoch(1)).payload(payload.into())
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    (0..len as u64).map(|at| (at.wrapping_mul(31).wrapping_add(seed) % 251) as u8).collect()
}

async fn uni(pair: &Pair, first: &[u8]) -> (quinn::SendStream, RecvStream) {
    let mut send = open_uni(&pair.client, PATIENCE).await.unwrap();
    send.write_all(first).await.unwrap();
    let receive = soon("the stream arrives", pair.server.accept_uni()).await.unwrap();
    (send, receive)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_round_trip_in_order_both_ways() {
    let pair = pair(&QuicConfig::default()).await;
    let trace = TraceContext { trace_id: 5, span_id: 6, flags: 1 };
    let sizes = [0, 1, HEADER_LEN, 5_000, 70_000, 3 << 20, 10];
    let frames: Vec<_> =
        sizes.iter().enumerate().map(|(seq, len)| append(seq as u64, pattern(*len, seq as u64)).trace(trace)).collect();

    let server = pair.server.clone();
    let echo = tokio::spawn(async move {
        let (send, receive) = server.accept_bi().await.unwrap();
        let (mut writer, mut reader) = (FrameWriter::new(send), FrameReader::new(receive));
        let mut got = Vec::new();
        while let Some(frame) = reader.read::<ToSegd>().await.unwrap() {
            let ToSegd::Append { seq } = frame.msg else { panic!("{frame:?}") };
            let ack = Frame::new(FromSegd::AppendAck { seq, base_offset: Offset(seq * 10) });
            writer.write(&ack.segment(frame.segment).payload(frame.payload.clone())).await.unwrap();
            got.push(frame);
        }
        writer.finish().unwrap();
        got
    });

    let (send, receive) = open_bi(&pair.client, PATIENCE).await.unwrap();
    let (mut writer, mut reader) = (FrameWriter::new(send), FrameReader::new(receive));
    writer.write(&frames[0]).await.unwrap();
    writer.write_all_frames(&frames[1..]).await.unwrap();
    writer.finish().unwrap();
    for (seq, frame) in frames.iter().enumerate() {
        let ack = soon("an ack", reader.read::<FromSegd>()).await.unwrap().unwrap();
        assert_eq!(ack.msg, FromSegd::AppendAck { seq: seq as u64, base_offset: Offset(seq as u64 * 10) });
        assert_eq!(ack.payload, frame.payload);
    }
    assert_eq!(reader.read::<FromSegd>().await.unwrap(), None);
    assert_eq!(reader.read::<FromSegd>().await.unwrap(), None);
    assert_eq!(echo.await.unwrap(), frames);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bad_frame_ends_its_stream_and_no_other() {
    let pair = pair(&QuicConfig::default()).await;
    let good = append(1, pattern(100, 1)).encode().unwrap().to_bytes();
    let (mut healthy, healthy_end) = uni(&pair, &good).await;
    let mut healthy_end = FrameReader::new(healthy_end);
    soon("a frame", healthy_end.read::<ToSegd>()).await.unwrap().unwrap();

    let mut flipped = good.to_vec();
    *flipped.last_mut().unwrap() ^= 1;
    let mut no_magic = good.to_vec();
    no_magic[0] ^= 0xff;
    // The header alone: it must be refused before its body is waited for.
    let mut huge = good[..HEADER_LEN].to_vec();
    huge[8..12].copy_from_slice(&(MAX_PAYLOAD_BYTES as u32 + 1).to_le_bytes());
    let other_family = Frame::new(FromSegd::AppendOpened).encode().unwrap().to_bytes().to_vec();

    type Expected = fn(&FrameError) -> bool;
    let cases: [(Vec<u8>, Expected); 4] = [
        (flipped, |error| matches!(error, FrameError::Crc { .. })),
        (no_magic, |error| matches!(error, FrameError::Magic(_))),
        (huge, |error| matches!(error, FrameError::TooLarge { .. })),
        (other_family, |error| matches!(error, FrameError::WrongFamily { .. })),
    ];
    for (number, (bytes, expected)) in cases.into_iter().enumerate() {
        // A good frame before the bad one still counts.
        let (mut send, receive) = uni(&pair, &good).await;
        send.write_all(&bytes).await.unwrap();
        let mut reader = FrameReader::new(receive);
        assert!(soon("the good frame", reader.read::<ToSegd>()).await.unwrap().is_some());
        let error = soon("the bad frame", reader.read::<ToSegd>()).await.unwrap_err();
        assert!(matches!(&error, StreamError::Frame(frame) if expected(frame)), "case {number}: {error}");
        assert_eq!(reader.read::<ToSegd>().await.unwrap_err(), error, "the error is final");
        assert_eq!(soon("the sender is told", send.stopped()).await.unwrap(), Some(code::BAD_FRAME));

        healthy.write_all(&good).await.unwrap();
        let frame = soon("the healthy stream goes on", healthy_end.read::<ToSegd>()).await.unwrap().unwrap();
        assert_eq!(frame.payload, pattern(100, 1));
    }
    assert!(pair.server.close_reason().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_end_inside_a_frame_is_no_clean_end() {
    let pair = pair(&QuicConfig::default()).await;
    let bytes = append(1, pattern(1000, 1)).encode().unwrap().to_bytes();
    for cut in [1, HEADER_LEN - 1, HEADER_LEN, bytes.len() - 1] {
        let (mut send, receive) = uni(&pair, &bytes[..cut]).await;
        send.finish().unwrap();
        let error = soon("the end", FrameReader::new(receive).read::<ToSegd>()).await.unwrap_err();
        assert!(matches!(error, StreamError::Truncated { .. }), "cut at {cut}: {error}");
    }
    let (mut send, receive) = uni(&pair, &bytes[..100]).await;
    send.reset(code::CANCELLED).unwrap();
    let error = soon("the reset", FrameReader::new(receive).read::<ToSegd>()).await.unwrap_err();
    assert_eq!(error, StreamError::Read(quinn::ReadError::Reset(code::CANCELLED)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_read_loses_nothing() {
    let pair = pair(&QuicConfig::default()).await;
    let frames: Vec<_> = (0..50).map(|seq| append(seq, pattern(3_000, seq))).collect();
    let wire: Vec<u8> = frames.iter().flat_map(|frame| frame.encode().unwrap().to_bytes()).collect();
    let (mut send, receive) = uni(&pair, &wire[..10]).await;
    let pieces = wire[10..].chunks(701).count();
    // A piece is sent for each read that was dropped, so that reads are dropped all through the frames.
    let drops = Arc::new(Semaphore::new(0));
    let allowed = Arc::clone(&drops);
    let sent = tokio::spawn(async move {
        for piece in wire[10..].chunks(701) {
            allowed.acquire().await.unwrap().forget();
            send.write_all(piece).await.unwrap();
        }
        send.finish().unwrap();
        send.stopped().await
    });
    let mut reader = FrameReader::new(receive);
    let (mut got, mut dropped) = (Vec::new(), 0);
    loop {
        let read = tokio::select! {
            biased;
            read = reader.read::<ToSegd>() => read.unwrap(),
            () = std::future::ready(()) => {
                dropped += 1;
                drops.add_permits(1);
                tokio::task::yield_now().await;
                continue;
            }
        };
        match read {
            Some(frame) => got.push(frame),
            None => break,
        }
    }
    assert_eq!(got, frames);
    assert!(dropped >= pieces, "{dropped} reads dropped over {pieces} pieces");
    sent.await.unwrap().unwrap();
}

/// Regression for a receive-side limit in older QUIC stacks: a large window and a reader that does not read must not
/// cost the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_blocks_only_its_own_stream() {
    let config = QuicConfig { stream_window_bytes: 16 << 20, ..QuicConfig::default() };
    let pair = pair(&config).await;
    const FRAMES: u64 = 40;
    const BYTES: usize = 1 << 20;
    let (slow, receive) = uni(&pair, &append(0, Bytes::new()).encode().unwrap().to_bytes()).await;
    let mut slow_reader = FrameReader::new(receive);
    let sending = tokio::spawn(async move {
        let mut writer = FrameWriter::new(slow);
        for seq in 1..=FRAMES {
            writer.write(&append(seq, pattern(BYTES, seq))).await.unwrap();
        }
        writer.finish().unwrap();
        writer.stopped().await
    });
    // The unread stream fills its window.
    eventually("the window fills", || pair.server.stats().udp_rx.bytes > 16 << 20).await;
    assert!(!sending.is_finished());

    let (send, receive) = uni(&pair, &append(0, Bytes::new()).encode().unwrap().to_bytes()).await;
    let (mut writer, mut reader) = (FrameWriter::new(send), FrameReader::new(receive));
    soon("the first", reader.read::<ToSegd>()).await.unwrap().unwrap();
    for seq in 1..=200 {
        writer.write(&append(seq, pattern(2_000, seq))).await.unwrap();
        let frame = soon("the other stream flows", reader.read::<ToSegd>()).await.unwrap().unwrap();
        assert_eq!(frame.msg, ToSegd::Append { seq });
    }
    assert!(!sending.is_finished(), "the slow stream was never blocked: the test shows nothing");

    for seq in 0..=FRAMES {
        let frame = soon("the slow stream catches up", slow_reader.read::<ToSegd>()).await.unwrap().unwrap();
        assert_eq!(frame.msg, ToSegd::Append { seq });
        assert_eq!(frame.payload, if seq == 0 { Vec::new() } else { pattern(BYTES, seq) });
    }
    assert_eq!(slow_reader.read::<ToSegd>().await.unwrap(), None);
    sending.await.unwrap().unwrap();
}
