//! The ends of a range: the earliest offset is the chain's, the latest is asked of the head's primary.

use crate::context::Context;
use crate::listen::{last_word, refuse};
use quinn::SendStream;
use seam_transport::stream::{FrameReader, FrameWriter, open_bi};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, FromSegd, ToSegd};
use seam_wire::{NodeId, Offset, RangeId, SegmentId};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

pub async fn answer(context: &Arc<Context>, range: RangeId, send: SendStream) {
    let outcome = ends(context, range).await;
    match outcome {
        Ok((earliest, latest)) => {
            last_word(FrameWriter::new(send), FromRouter::Offsets { range, earliest, latest }).await;
        }
        Err(error) => refuse(context, send, error).await,
    }
}

/// Earliest offset and committed end.
pub async fn ends(context: &Context, range: RangeId) -> Result<(Offset, Offset), WireError> {
    let latest = latest(context, range).await?;
    let earliest = earliest(context, range)?;
    Ok((earliest, latest.max(earliest)))
}

/// The earliest offset there is.
pub fn earliest(context: &Context, range: RangeId) -> Result<Offset, WireError> {
    context.picture.read().earliest(range).ok_or_else(|| {
        WireError::retry(ErrorCode::Unavailable, format!("{range} has no segment yet; try again shortly"))
    })
}

/// The committed end of the range at some moment after the call, from the head's primary. Waits up to `limits.query_ms`
/// for one that answers. Errors name the head and its nodes.
pub async fn latest(context: &Context, range: RangeId) -> Result<Offset, WireError> {
    asked_latest(context, range).await.map_err(|error| {
        let chains = context.picture.read();
        let Some(head) = chains.head(range) else { return error };
        let why = format!("the end of {range} cannot be told, its head does not answer: {}", chains.whereabouts(head));
        WireError { detail: format!("{why}; {}", error.detail), ..error }
    })
}

async fn asked_latest(context: &Context, range: RangeId) -> Result<Offset, WireError> {
    let deadline = Instant::now() + context.limits.query();
    let mut last = WireError::retry(ErrorCode::Unavailable, format!("{range} has no segment yet; try again shortly"));
    // What a sealed segment said of its end and next, where metad does not know it yet.
    let mut beyond: Option<(SegmentId, Offset)> = None;
    loop {
        let (segment, floor) = match beyond {
            Some((segment, floor)) => (Some(segment), floor),
            None => (context.picture.read().head(range), Offset(0)),
        };
        let node = segment.and_then(|segment| context.picture.read().primary(segment));
        if let (Some(segment), Some(node)) = (segment, node) {
            let asked = timeout_at(deadline, ask(context, range, segment, node)).await;
            match asked {
                Ok(Ok(Answer::Open { committed })) => return Ok(committed.max(floor)),
                Ok(Ok(Answer::Sealed { end, next })) => {
                    beyond = Some((next, end));
                    continue;
                }
                Ok(Err(error)) => last = error,
                Err(_) => return Err(last),
            }
        }
        // A recovery may have given the range another head meanwhile.
        beyond = None;
        if Instant::now() + PAUSE >= deadline {
            return Err(last);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

enum Answer {
    Open { committed: Offset },
    Sealed { end: Offset, next: SegmentId },
}

async fn ask(context: &Context, range: RangeId, segment: SegmentId, node: NodeId) -> Result<Answer, WireError> {
    match exchange(context, range, segment, node, ToSegd::Committed, 1).await? {
        FromSegd::Committed { committed, end: None, .. } => Ok(Answer::Open { committed }),
        FromSegd::Committed { end: Some(end), .. } => {
            let known = context.picture.read().sealed(segment);
            if let Some((end, next)) = known {
                return Ok(Answer::Sealed { end, next });
            }
            // The node knows what follows; a tail at the end is told at once.
            let at_end = ToSegd::TailOpen { from: Some(end), until: None };
            match exchange(context, range, segment, node, at_end, 2).await? {
                FromSegd::End { end, next } => Ok(Answer::Sealed { end, next }),
                other => Err(unexpected(node, &other)),
            }
        }
        other => Err(unexpected(node, &other)),
    }
}

/// What one node says is committed of a segment, and where it ends if that is decided. Waits up to `limits.query_ms`.
pub async fn committed(
    context: &Context,
    range: RangeId,
    segment: SegmentId,
    node: NodeId,
) -> Result<(Offset, Option<Offset>), WireError> {
    let deadline = Instant::now() + context.limits.query();
    match timeout_at(deadline, exchange(context, range, segment, node, ToSegd::Committed, 1)).await {
        Ok(Ok(FromSegd::Committed { committed, end, .. })) => Ok((committed, end)),
        Ok(Ok(other)) => Err(unexpected(node, &other)),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(WireError::retry(ErrorCode::DeadlineExceeded, format!("{node} did not answer"))),
    }
}

/// Asks on a stream of its own; the answer is the message `nth` from 1 on.
async fn exchange(
    context: &Context,
    range: RangeId,
    segment: SegmentId,
    node: NodeId,
    question: ToSegd,
    nth: u32,
) -> Result<FromSegd, WireError> {
    let lost = |why: &dyn std::fmt::Display| WireError::retry(ErrorCode::Unavailable, format!("{node}: {why}"));
    let connection = context.nodes.connection(node, context.limits.node_wait()).await?;
    let (send, recv) = open_bi(&connection, context.quic.open_timeout()).await.map_err(|error| lost(&error))?;
    let mut writer = FrameWriter::new(send);
    let question = Frame::new(question).range(range).segment(segment);
    writer.write(&question).await.map_err(|error| lost(&error))?;
    writer.finish().map_err(|error| lost(&error))?;
    let mut reader = FrameReader::new(recv);
    for at in 1.. {
        match reader.read::<FromSegd>().await.map_err(|error| lost(&error))?.map(|frame| frame.msg) {
            Some(FromSegd::Error { error }) => return Err(error),
            Some(answer) if at == nth => return Ok(answer),
            Some(_) => {}
            None => break,
        }
    }
    Err(lost(&"it ended the stream without an answer"))
}

fn unexpected(node: NodeId, msg: &FromSegd) -> WireError {
    WireError::retry(ErrorCode::Internal, format!("{node} answered with {msg:?}, which is no answer to that"))
}
