//! An append stream to one segment's primary: opened, written from a queue, its answers brought to the range.

use crate::range::Range;
use router_core::producer::{Input, UpstreamId};
use seam_transport::stream::{FrameReader, FrameSender, WriterLimits, open_bi, spawn_writer_with};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromSegd, ToSegd};
use seam_wire::{NodeId, SegmentId};
use std::sync::Arc;
use std::time::Duration;

/// A primary that stops the stream says why on the other half: this long it is waited for.
const LAST_WORD: Duration = Duration::from_secs(2);
/// What a frame takes beside its batch, at most.
const FRAME_OVERHEAD_BYTES: usize = 256;

/// Where sends go: a queue until the stream stands.
pub enum Pipe {
    Opening(Vec<Frame<ToSegd>>),
    Open(FrameSender<ToSegd>),
}

impl Pipe {
    /// Never waits: what is in flight is bounded by the range, and the queue holds all of it. A stream that is over loses
    /// the frame; its end is told by its reader.
    pub fn send(&mut self, frame: Frame<ToSegd>) {
        match self {
            Pipe::Opening(waiting) => waiting.push(frame),
            Pipe::Open(sender) => {
                let _ = sender.try_send(frame);
            }
        }
    }

    /// The stream stands: what waited goes first.
    pub fn open(&mut self, sender: FrameSender<ToSegd>) {
        if let Pipe::Opening(waiting) = std::mem::replace(self, Pipe::Open(sender)) {
            for frame in waiting {
                self.send(frame);
            }
        }
    }
}

/// Runs the stream to its end and tells the range. Aborted when the range closes it.
pub async fn run(range: Arc<Range>, up: UpstreamId, segment: SegmentId, node: NodeId) {
    if let Err(error) = carry(&range, up, segment, node).await {
        tracing::debug!(range = %range.id, %segment, %node, %error, "an append stream is over");
    }
    range.feed(Input::UpstreamBroken { up });
}

async fn carry(range: &Arc<Range>, up: UpstreamId, segment: SegmentId, node: NodeId) -> Result<(), WireError> {
    let context = &range.context;
    let broken = |why: &dyn std::fmt::Display| WireError::retry(ErrorCode::Unavailable, why.to_string());
    let connection = context.nodes.connection(node, context.limits.node_wait()).await?;
    let (send, recv) = open_bi(&connection, context.quic.open_timeout()).await.map_err(|error| broken(&error))?;
    let limits = &context.limits;
    let frames = limits.range_inflight_batches + 1;
    let bytes = limits.range_inflight_bytes.max(limits.max_batch_bytes) + frames * FRAME_OVERHEAD_BYTES;
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    let sender = spawn_writer_with::<ToSegd>(send, WriterLimits { frames: frames + 1, bytes });
    let hello = Frame::new(ToSegd::AppendOpen).range(range.id).segment(segment);
    sender.send(hello).await.map_err(|error| broken(&error))?;
    range.attach(up, sender.clone());
    let mut reader = FrameReader::new(recv);
    let mut last_word = None;
    loop {
        let read = tokio::select! {
            biased;
            read = reader.read::<FromSegd>() => read,
            _ = sender.closed(), if last_word.is_none() => {
                last_word = Some(tokio::time::Instant::now() + LAST_WORD);
                continue;
            }
            () = crate::clock::sleep_until(last_word), if last_word.is_some() => {
                // After `Moved` the stream is stopped and goes on acking: then silence is no fault.
                if range.awaits_word(up) {
                    context.counters.stopped_without_moved.inc();
                    return Err(broken(&"stopped by the primary without a reason"));
                }
                last_word = Some(tokio::time::Instant::now() + LAST_WORD);
                continue;
            }
        };
        match read {
            Ok(Some(frame)) => range.from_segd(up, frame),
            Ok(None) => return Err(broken(&"ended by the primary")),
            Err(error) => {
                if matches!(error, seam_transport::stream::StreamError::Frame(_)) {
                    context.counters.bad_frame(&node.to_string(), "segd", &error);
                }
                return Err(broken(&error));
            }
        }
    }
}
