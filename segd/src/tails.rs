//! Tail and fetch streams: committed batches of one segment, from an offset to its end, and on while it is open.

use crate::listen::Shared;
use crate::store::{Published, ReadError, SegmentLog};
use bytes::Bytes;
use quinn::SendStream;
use seam_transport::stream::{FrameReader, FrameWriter, WriterLimits, spawn_writer_with};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromSegd, ToSegd};
use seam_wire::{Offset, RangeId, SegmentId};
use segd_core::io::Input;
use std::sync::Arc;
use tokio::sync::watch;

/// Records under way to one tail.
const REPLIES: WriterLimits = WriterLimits { frames: 256, bytes: 4 << 20 };

/// The segment a tail is of, and its range.
#[derive(Clone, Copy)]
pub struct Of {
    pub segment: SegmentId,
    pub range: RangeId,
}

pub async fn serve(
    of: Of,
    from: Option<Offset>,
    until: Option<Offset>,
    send: SendStream,
    mut reader: FrameReader,
    shared: Shared,
) {
    let sender = spawn_writer_with::<FromSegd>(send, REPLIES);
    shared.counters.tails.inc();
    let outcome = tokio::select! {
        outcome = follow(of, from, until, &sender, &shared) => outcome,
        // The router stopped the stream, or its connection is gone: no more is wanted.
        _ = sender.closed() => Ok(()),
        _ = until_reset(&mut reader) => Ok(()),
    };
    if let Err(mut error) = outcome {
        if let ErrorCode::Trimmed { start } = error.code {
            shared.counters.tails_trimmed.inc();
            // A slow reader's segment may be long gone, and the log have moved on since.
            let now = shared.store.log_start(of.range).unwrap_or(start).max(start);
            error.code = ErrorCode::Trimmed { start: now };
        } else {
            shared.counters.tail_errors.inc();
        }
        // If this cannot be said either, the stream ends without a last word and the router looks again.
        let _ = sender.send(Frame::new(FromSegd::Error { error }).segment(of.segment)).await;
    }
    shared.counters.tails.dec();
    let _ = sender.finish().await;
}

/// A router has nothing to say after the first frame; it may finish its side. Returns only when the stream broke.
async fn until_reset(reader: &mut FrameReader) {
    if let Ok(None | Some(_)) = reader.read::<ToSegd>().await {
        std::future::pending::<()>().await;
    }
}

async fn follow(
    of: Of,
    from: Option<Offset>,
    until: Option<Offset>,
    sender: &seam_transport::stream::FrameSender<FromSegd>,
    shared: &Shared,
) -> Result<(), WireError> {
    let segment = of.segment;
    let log = shared.store.log(segment).ok_or_else(|| not_here(of, from, shared))?;
    let mut published = log.subscribe();
    serving(segment, from, &published.borrow_and_update())?;
    let start = published.borrow().start;
    let opened = Frame::new(FromSegd::TailOpened { start }).segment(segment);
    if sender.send(opened).await.is_err() {
        return Ok(());
    }
    let begun = wait(&mut published, |p| p.start.is_some() || p.gone.is_some() || !p.serves).await?;
    serving(segment, from, &begun)?;
    let start = begun.start.unwrap_or_default();
    let mut next = from.unwrap_or(start);
    // Opened ahead, by one that came over the boundary.
    let mut fresh = begun.fresh.filter(|_| from.is_none());
    // Past the decided end it goes on in the next segment, which metad may not have recorded yet: `End` says where.
    if next < start {
        let detail = format!("{segment} holds offsets from {start}; {next} is not among them");
        return Err(WireError::refused(ErrorCode::OffsetOutOfRange, detail));
    }
    loop {
        let bounds = *published.borrow_and_update();
        // What is deleted is not read on, though the open file would still give it: its bytes are to be free.
        still_there(segment, Some(next), &bounds)?;
        let end = until.unwrap_or(bounds.committed).min(bounds.committed);
        if next < end {
            let (through, payload) =
                read(&log, next, end, shared).await.map_err(|error| cannot_read(segment, &error))?;
            next = through;
            let records = Frame::new(FromSegd::Records { next }).segment(segment).payload(payload);
            if sender.send(records.trace(fresh.take())).await.is_err() {
                return Ok(());
            }
            if log.first_delivery() {
                shared.inbox.complete(Input::Delivered { segment });
            }
            continue;
        }
        if until.is_some_and(|until| next >= until) {
            return Ok(());
        }
        if let Some(decision) = bounds.decision
            && next >= decision.end
        {
            let end = FromSegd::End { end: decision.end, next: decision.next };
            let _ = sender.send(Frame::new(end).segment(segment)).await;
            return Ok(());
        }
        let seen = bounds;
        let now = wait(&mut published, |p| *p != seen).await?;
        serving(segment, Some(next), &now)?;
    }
}

async fn wait(
    published: &mut watch::Receiver<Published>,
    ready: impl FnMut(&Published) -> bool,
) -> Result<Published, WireError> {
    let seen = published.wait_for(ready).await;
    seen.map(|published| *published).map_err(|_| WireError::retry(ErrorCode::Unavailable, "this node is stopping"))
}

/// Whether a reader that wants `next` may be served.
fn serving(segment: SegmentId, next: Option<Offset>, published: &Published) -> Result<(), WireError> {
    still_there(segment, next, published)?;
    if !published.serves {
        let detail = format!("this node may not serve {segment}; ask its primary, or a replica once it is sealed");
        return Err(WireError::retry(ErrorCode::NotPrimary, detail));
    }
    Ok(())
}

/// Not deleted. At its end a reader is served all the same: to be told what follows is all it lacks.
fn still_there(segment: SegmentId, next: Option<Offset>, published: &Published) -> Result<(), WireError> {
    let at_end = next.zip(published.decision).is_some_and(|(next, decision)| next >= decision.end);
    match published.gone {
        None => Ok(()),
        Some(_) if at_end => Ok(()),
        Some(Some(log_start)) => Err(WireError::trimmed(next.unwrap_or_default(), log_start)),
        Some(None) => Err(unknown(segment)),
    }
}

/// A segment this node does not hold: below the log's start, if the reader wants what lies there.
fn not_here(of: Of, from: Option<Offset>, shared: &Shared) -> WireError {
    match from.zip(shared.store.log_start(of.range)) {
        Some((from, log_start)) if from < log_start => WireError::trimmed(from, log_start),
        Some(_) | None => unknown(of.segment),
    }
}

fn unknown(segment: SegmentId) -> WireError {
    WireError::retry(
        ErrorCode::UnknownSegment,
        format!("{segment} is not here, or was reclaimed; look the range up again"),
    )
}

fn cannot_read(segment: SegmentId, error: &ReadError) -> WireError {
    tracing::error!(%segment, %error, "a committed record cannot be read here; another replica must serve it");
    WireError::retry(ErrorCode::Unavailable, error.to_string())
}

/// Memory answers at once; a cold segment is read on a thread that may block.
async fn read(log: &Arc<SegmentLog>, from: Offset, end: Offset, shared: &Shared) -> Result<(Offset, Bytes), ReadError> {
    let max_bytes = shared.limits.tail_chunk_bytes as usize;
    let (_, next, payload) = if log.is_hot(from) {
        log.read(from, Some(end), max_bytes)?
    } else {
        let log = Arc::clone(log);
        let cold = tokio::task::spawn_blocking(move || log.read(from, Some(end), max_bytes));
        match cold.await {
            Ok(outcome) => outcome?,
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        }
    };
    shared.counters.tail_bytes.inc_by(payload.len() as u64);
    Ok((next, payload))
}

/// Answers a query: what is committed of this segment, as this node knows it?
pub async fn committed(segment: SegmentId, send: SendStream, shared: Shared) {
    let answer = match shared.store.log(segment) {
        Some(log) => {
            let published = *log.subscribe().borrow();
            match serving(segment, None, &published) {
                Ok(()) => FromSegd::Committed {
                    start: published.start,
                    committed: published.committed.max(published.start.unwrap_or_default()),
                    end: published.decision.map(|decision| decision.end),
                },
                Err(error) => FromSegd::Error { error },
            }
        }
        None => FromSegd::Error { error: unknown(segment) },
    };
    let mut writer = FrameWriter::new(send);
    if writer.write(&Frame::new(answer).segment(segment)).await.is_ok() {
        let _ = writer.finish(); // The router is gone: nobody waits for the answer.
    }
}
