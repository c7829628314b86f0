//! An append stream of a router: frames in, checked; acks out, as the node gives them.

use crate::driver::Event;
use crate::listen::Shared;
use quinn::SendStream;
use seam_transport::quic::code;
use seam_transport::stream::{FrameReader, WriterLimits, spawn_writer_with};
use seam_wire::SegmentId;
use seam_wire::batch;
use seam_wire::error::WireError;
use seam_wire::frame::Frame;
use seam_wire::msg::{FromSegd, ToSegd};
use segd_core::io::{Input, StreamId};
use std::sync::atomic::Ordering;
use tokio_util::sync::CancellationToken;

const REPLIES: WriterLimits = WriterLimits { frames: 65_536, bytes: 16 << 20 };

pub async fn serve(segment: SegmentId, send: SendStream, mut reader: FrameReader, shared: Shared) {
    let stream = StreamId(shared.next_stream.fetch_add(1, Ordering::Relaxed));
    let replies = spawn_writer_with::<FromSegd>(send, REPLIES);
    let gone = CancellationToken::new();
    let open = Event::StreamOpen { stream, segment, replies: replies.clone(), gone: gone.clone() };
    if shared.inbox.network.send(open).await.is_err() {
        return;
    }
    shared.counters.append_streams.inc();
    loop {
        let read = tokio::select! {
            biased;
            () = gone.cancelled() => {
                reader.stop(code::CANCELLED);
                break;
            }
            read = reader.read::<ToSegd>() => read,
        };
        match read {
            Ok(Some(Frame { msg: ToSegd::Append { seq }, payload, trace, .. })) => match check(&payload) {
                Ok(header) => {
                    shared.counters.appends.inc();
                    if !shared.inbox.bring(Input::Append { stream, seq, header, batch: payload, trace }).await {
                        break;
                    }
                }
                Err(error) => {
                    // The router checked it: a batch that is bad here was damaged between. This stream is not to be trusted.
                    shared.counters.bad_batches.inc();
                    tracing::warn!(%segment, %error, "a bad batch; its stream is closed");
                    let _ = replies.try_send(Frame::new(FromSegd::AppendError { seq, error }));
                    reader.stop(code::BAD_FRAME);
                    break;
                }
            },
            Ok(Some(Frame { msg: ToSegd::AppendOpen | ToSegd::TailOpen { .. } | ToSegd::Committed, .. })) => {
                shared.counters.bad_frames.inc();
                reader.stop(code::BAD_FRAME);
                break;
            }
            Ok(None) => break,
            Err(error) => {
                shared.note_bad(&error, "a router's append stream");
                break;
            }
        }
    }
    shared.counters.append_streams.dec();
    shared.inbox.complete(Input::StreamClosed { stream });
}

fn check(payload: &[u8]) -> Result<batch::BatchHeader, WireError> {
    let header = batch::BatchHeader::parse(payload)?.with_records()?;
    if header.length as usize != payload.len() {
        return Err(WireError::refused(seam_wire::ErrorCode::BadBatch, "an append carries exactly one batch"));
    }
    batch::verify_crc(payload)?;
    Ok(header)
}
