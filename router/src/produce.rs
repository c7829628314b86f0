//! A client's produce stream: frames in, every batch checked whole, into the range; answers come as the range gives them.

use crate::listen::{Door, note_bad};
use crate::range::Range;
use quinn::SendStream;
use router_core::producer::ClientStream;
use seam_transport::quic::code;
use seam_transport::stream::{FrameReader, FrameSender, StreamError, WriterLimits, spawn_writer_with};
use seam_wire::RangeId;
use seam_wire::batch;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Bytes of answers that may wait for one client.
const REPLY_BYTES: u32 = 32 << 20;

/// How a stream ended.
enum End {
    /// The client finished its side.
    Done,
    Broken,
}

pub async fn serve(door: Door, peer: Arc<str>, range: RangeId, send: SendStream, mut reader: FrameReader) {
    let context = Arc::clone(&door.context);
    let limits = WriterLimits { frames: context.limits.client_acks, bytes: REPLY_BYTES };
    let replies = spawn_writer_with::<FromRouter>(send, limits);
    let max_batch_bytes = u32::try_from(context.limits.max_batch_bytes).unwrap_or(u32::MAX);
    let opened = Frame::new(FromRouter::ProduceOpened { range, max_batch_bytes }).range(range);
    if replies.send(opened).await.is_err() {
        return;
    }
    let cut = CancellationToken::new();
    let (range, client) = door.ranges.join(range, &context, replies.clone(), cut.clone());
    context.counters.produce_streams.inc();
    let end = take_appends(&peer, &range, client, &mut reader, &replies, &cut).await;
    context.counters.produce_streams.dec();
    match end {
        End::Done => {
            range.finish(client);
            // The range holds the other end until its last answer. An error means that the client is gone.
            let _ = replies.finish().await;
        }
        End::Broken => range.leave(client),
    }
}

async fn take_appends(
    peer: &str,
    range: &Arc<Range>,
    client: ClientStream,
    reader: &mut FrameReader,
    replies: &FrameSender<FromRouter>,
    cut: &CancellationToken,
) -> End {
    let context = &range.context;
    let limits = context.limits.batch();
    let mut expected = 0;
    loop {
        let read = tokio::select! {
            biased;
            () = cut.cancelled() => {
                reader.stop(code::CANCELLED);
                return End::Broken;
            }
            // What was taken is still answered; the rest is the client's to send elsewhere.
            () = context.stop.cancelled() => return End::Done,
            read = reader.read::<ToRouter>() => read,
        };
        let (seq, payload, trace) = match read {
            Ok(Some(Frame { msg: ToRouter::Append { seq }, payload, trace, .. })) if seq == expected => {
                (seq, payload, trace)
            }
            Ok(Some(frame)) => {
                let detail = format!("append {expected} was due on this stream, not {:?}", frame.msg);
                context.counters.bad_frame(peer, "order", &detail);
                let error = WireError::refused(ErrorCode::InvalidArgument, detail);
                // The client may be gone already.
                let _ = replies.send(Frame::new(FromRouter::Error { error })).await;
                reader.stop(code::BAD_FRAME);
                return End::Broken;
            }
            Ok(None) => return End::Done,
            Err(error) => {
                note_bad(context, peer, &error);
                if let StreamError::Frame(error) = error {
                    // The client may be gone already.
                    let _ = replies.send(Frame::new(FromRouter::Error { error: error.into() })).await;
                }
                return End::Broken;
            }
        };
        expected += 1;
        match batch::verify_with(&payload, &limits) {
            Ok(header) => {
                context.counters.append_bytes.inc_by(payload.len() as u64);
                range.append(client, seq, &header, payload, trace).await;
            }
            Err(error) => {
                context.counters.bad_batch(error.code());
                let reply = FromRouter::AppendError { seq, error: error.into() };
                if replies.send(Frame::new(reply).range(range.id)).await.is_err() {
                    return End::Broken;
                }
            }
        }
    }
}
