//! The owner task: coalescing, bounds, and how it ends.

use crate::world::{PATIENCE, Pair, eventually, pair, soon};
use bytes::Bytes;
use quinn::RecvStream;
use seam_transport::quic::{QuicConfig, code};
use seam_transport::stream::{
    FrameReader, FrameSender, StreamError, TrySendError, WriterLimits, open_uni, spawn_writer, spawn_writer_with,
};
use seam_wire::frame::Frame;
use seam_wire::msg::ToSegd;

const WINDOW: u64 = 64 << 10;

fn append(seq: u64, bytes: usize) -> Frame<ToSegd> {
    Frame::new(ToSegd::Append { seq }).payload(Bytes::from(vec![seq as u8; bytes]))
}

/// A connection on which an unread stream takes 64 KiB and no more.
async fn narrow() -> Pair {
    pair(&QuicConfig { stream_window_bytes: WINDOW, ..QuicConfig::default() }).await
}

/// A sender whose owner task is stuck in a write of frame 0, and the unread other end.
async fn stuck(pair: &Pair, limits: WriterLimits) -> (FrameSender<ToSegd>, RecvStream) {
    let sender = spawn_writer_with(open_uni(&pair.client, PATIENCE).await.unwrap(), limits);
    sender.send(append(0, 4 * WINDOW as usize)).await.unwrap();
    let receive = soon("the stream arrives", pair.server.accept_uni()).await.unwrap();
    eventually("the owner takes the frame", || sender.stats().queued_frames == 0).await;
    assert_eq!(sender.stats().written_frames, 0);
    (sender, receive)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_queues_up_behind_a_write_leaves_in_few() {
    let pair = narrow().await;
    let (sender, receive) = stuck(&pair, WriterLimits { frames: 1000, bytes: 8 << 20 }).await;
    for seq in 1..=500 {
        sender.try_send(append(seq, 20)).unwrap();
    }
    assert_eq!(sender.stats().queued_frames, 500);
    let watch = sender.clone();
    let mut reader = FrameReader::new(receive);
    for seq in 0..=500 {
        let frame = soon("a frame", reader.read::<ToSegd>()).await.unwrap().unwrap();
        assert_eq!(frame.msg, ToSegd::Append { seq });
    }
    eventually("all is written", || watch.stats().written_frames == 501).await;
    let stats = watch.stats();
    assert!(stats.writes * 50 < stats.written_frames, "{stats:?}");
    eventually("the gauge is empty", || watch.queued_bytes() == 0).await;
    drop(watch);
    let finishing = tokio::spawn(sender.finish());
    assert_eq!(soon("the finish", reader.read::<ToSegd>()).await.unwrap(), None);
    soon("delivery is known", finishing).await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropping_the_last_sender_finishes_after_what_is_queued() {
    let pair = narrow().await;
    let sender = spawn_writer::<ToSegd>(open_uni(&pair.client, PATIENCE).await.unwrap(), 64);
    let clone = sender.clone();
    for seq in 0..10 {
        sender.send(append(seq, 20_000)).await.unwrap();
    }
    drop(sender);
    clone.send(append(10, 0)).await.unwrap();
    drop(clone);
    let mut reader = FrameReader::new(soon("the stream arrives", pair.server.accept_uni()).await.unwrap());
    for seq in 0..=10 {
        let frame = soon("a frame", reader.read::<ToSegd>()).await.unwrap().unwrap();
        assert_eq!(frame.msg, ToSegd::Append { seq });
    }
    assert_eq!(soon("the finish", reader.read::<ToSegd>()).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_bounds_of_the_queue_hold() {
    let pair = narrow().await;
    let (by_frames, _unread) = stuck(&pair, WriterLimits { frames: 3, bytes: 8 << 20 }).await;
    for seq in 1..=3 {
        by_frames.try_send(append(seq, 10)).unwrap();
    }
    let error = by_frames.try_send(append(4, 10)).unwrap_err();
    assert!(matches!(&error, TrySendError::Full(frame) if frame.msg == ToSegd::Append { seq: 4 }), "{error}");

    let (by_bytes, receive) = stuck(&pair, WriterLimits { frames: 100, bytes: 300 << 10 }).await;
    let error = by_bytes.try_send(append(1, 100 << 10)).unwrap_err();
    assert!(matches!(error, TrySendError::Full(_)), "{error}");
    let waiting = {
        let by_bytes = by_bytes.clone();
        tokio::spawn(async move { by_bytes.send(append(1, 100 << 10)).await })
    };
    let mut reader = FrameReader::new(receive);
    for seq in 0..2 {
        let frame = soon("room comes with reading", reader.read::<ToSegd>()).await.unwrap().unwrap();
        assert_eq!(frame.msg, ToSegd::Append { seq });
    }
    waiting.await.unwrap().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_learn_that_the_peer_stopped() {
    let pair = narrow().await;
    // One idle owner, one stuck in a write with a task waiting for room.
    let idle = spawn_writer::<ToSegd>(open_uni(&pair.client, PATIENCE).await.unwrap(), 8);
    idle.send(append(0, 10)).await.unwrap();
    let mut idle_end = FrameReader::new(soon("the stream arrives", pair.server.accept_uni()).await.unwrap());
    soon("a frame", idle_end.read::<ToSegd>()).await.unwrap().unwrap();
    let (busy, busy_end) = stuck(&pair, WriterLimits { frames: 8, bytes: 300 << 10 }).await;
    let waiting = {
        let busy = busy.clone();
        tokio::spawn(async move { busy.send(append(1, 200 << 10)).await })
    };
    let mut busy_end = FrameReader::new(busy_end);
    idle_end.stop(code::CANCELLED);
    busy_end.stop(code::CANCELLED);
    let stopped = StreamError::Write(quinn::WriteError::Stopped(code::CANCELLED));
    assert_eq!(soon("the idle one learns", idle.closed()).await, stopped);
    assert_eq!(soon("the waiting one learns", waiting).await.unwrap().unwrap_err(), stopped);
    assert_eq!(idle.send(append(1, 1)).await.unwrap_err(), stopped);
    assert!(matches!(idle.try_send(append(1, 1)).unwrap_err(), TrySendError::Stream(error) if error == stopped));
    eventually("nothing stays in the gauge", || busy.queued_bytes() == 0).await;
    assert_eq!(soon("finish says so", busy.finish()).await.unwrap_err(), stopped);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_learn_that_the_connection_is_lost() {
    let pair = narrow().await;
    let sender = spawn_writer::<ToSegd>(open_uni(&pair.client, PATIENCE).await.unwrap(), 8);
    pair.server.close(code::SHUTDOWN, b"going down");
    let error = soon("it learns", sender.closed()).await;
    assert!(matches!(&error, StreamError::Connection(_)), "{error}");
    assert!(error.to_string().contains("going down"), "{error}");
}
