//! A client's produce stream: every batch is checked whole before it enters; answers come from the range's task.

use crate::range::RangeEvent;
use crate::shared::Shared;
use quinn::SendStream;
use router_core::producer::{ClientStream, ProducerSeq};
use seam_transport::quic::code;
use seam_transport::stream::{FrameReader, FrameSender, WriterLimits, spawn_writer_with};
use seam_wire::batch::{BatchHeader, verify};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const REPLIES: WriterLimits = WriterLimits { frames: 65_536, bytes: 16 << 20 };

/// Numbers client streams over the whole process.
static NEXT_CLIENT: AtomicU64 = AtomicU64::new(0);

pub async fn serve(topic: String, range_index: u32, send: SendStream, mut reader: FrameReader, shared: Arc<Shared>) {
    let replies = spawn_writer_with::<FromRouter>(send, REPLIES);
    let resolved = shared.chains.read().resolve(&topic, range_index);
    let range = match resolved {
        Ok(range) => range,
        Err(error) => {
            shared.counters.unknown_topics.inc();
            refuse(&replies, error).await;
            reader.stop(code::CANCELLED);
            return;
        }
    };
    let client = ClientStream(NEXT_CLIENT.fetch_add(1, Ordering::Relaxed));
    let inbox = shared.range(range);
    let opened = FromRouter::ProduceOpened { range, max_batch_bytes: shared.limits.max_batch_bytes };
    if replies.send(Frame::new(opened).range(range)).await.is_err()
        || inbox.send(RangeEvent::ClientOpen { client, replies: replies.clone() }).await.is_err()
    {
        return;
    }
    shared.counters.produce_streams.inc();
    loop {
        let read = tokio::select! {
            read = reader.read::<ToRouter>() => read,
            _ = replies.closed() => break,
        };
        match read {
            Ok(Some(Frame { msg: ToRouter::Append { seq }, payload, .. })) => match check(&payload, &shared) {
                Ok(header) => {
                    let producer =
                        header.producer.map(|(id, epoch, base_sequence)| ProducerSeq { id, epoch, base_sequence });
                    let deadline = shared.now().after_us(shared.limits.append_deadline_ms.saturating_mul(1000));
                    let append = RangeEvent::Append { client, seq, producer, payload, deadline };
                    if inbox.send(append).await.is_err() {
                        break;
                    }
                }
                Err(error) => {
                    if replies.send(Frame::new(FromRouter::AppendError { seq, error }).range(range)).await.is_err() {
                        break;
                    }
                }
            },
            Ok(Some(Frame {
                msg: ToRouter::ProduceOpen { .. } | ToRouter::TailOpen { .. } | ToRouter::Offsets { .. },
                ..
            })) => {
                shared.counters.bad_frames.inc();
                refuse(&replies, WireError::refused(ErrorCode::BadFrame, "a produce stream carries appends only"))
                    .await;
                reader.stop(code::BAD_FRAME);
                break;
            }
            Ok(None) => break,
            Err(error) => {
                if let Some(error) = crate::listen::note_bad(&error, &shared) {
                    refuse(&replies, error).await;
                }
                break;
            }
        }
    }
    shared.counters.produce_streams.dec();
    // The range's task is gone only while the process stops.
    let _ = inbox.send(RangeEvent::ClientGone { client }).await;
}

/// The last word on a stream. If it cannot be said, the client is gone.
pub async fn refuse(replies: &FrameSender<FromRouter>, error: WireError) {
    let _ = replies.send(Frame::new(FromRouter::Error { error })).await;
}

fn check(payload: &[u8], shared: &Shared) -> Result<BatchHeader, WireError> {
    let limit = shared.limits.max_batch_bytes as usize;
    if payload.len() > limit {
        shared.counters.batches_too_large.inc();
        let detail = format!("the batch has {} bytes, the limit is {limit}; send smaller batches", payload.len());
        return Err(WireError::refused(ErrorCode::BatchTooLarge, detail));
    }
    let checked = verify(payload, shared.limits.max_uncompressed_bytes).map_err(WireError::from);
    let whole = checked.and_then(|header| {
        if header.length as usize == payload.len() {
            Ok(header)
        } else {
            Err(WireError::refused(ErrorCode::BadBatch, "an append carries exactly one batch"))
        }
    });
    if whole.is_err() {
        shared.counters.bad_batches.inc();
    }
    whole
}
