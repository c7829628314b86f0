//! Tail and query streams at a segd process, as the real shell serves them: committed batches, then the decided end.

use super::World;
use super::event::{Proc, What};
use super::net::{Frame, PipeId};
use super::segd::Shown;
use super::trace::trace;
use bytes::Bytes;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::FromSegd;
use seam_wire::{Offset, SegmentId};

/// One read of a tail. Small, so that one tail takes several.
const CHUNK_BYTES: usize = 1_500;

#[derive(Clone, Copy, Debug)]
pub struct TailServe {
    pub segment: SegmentId,
    pub next: Option<Offset>,
    pub until: Option<Offset>,
    /// `next` was checked against the segment's bounds.
    pub placed: bool,
    /// A step of it is on its way.
    pub waits: bool,
}

impl World {
    pub(super) fn serve_tail(
        &mut self,
        n: u8,
        pipe: PipeId,
        segment: SegmentId,
        from: Option<Offset>,
        until: Option<Offset>,
    ) {
        match self.serving(n, segment, from) {
            Ok(shown) => {
                self.tell_tail(n, pipe, FromSegd::TailOpened { start: shown.start }, Bytes::new());
                let tail = TailServe { segment, next: from, until, placed: false, waits: false };
                self.segd(n).tails.insert(pipe, tail);
                self.pump_tail(n, pipe);
            }
            Err(error) => self.end_tail(n, pipe, FromSegd::Error { error }),
        }
    }

    pub(super) fn answer_committed(&mut self, n: u8, pipe: PipeId, segment: SegmentId) {
        let answer = match self.serving(n, segment, None) {
            Ok(shown) => FromSegd::Committed {
                start: shown.start,
                committed: shown.committed.max(shown.start.unwrap_or_default()),
                end: shown.decision.map(|decision| decision.end),
            },
            Err(error) => FromSegd::Error { error },
        };
        self.end_tail(n, pipe, answer);
    }

    fn serving(&mut self, n: u8, segment: SegmentId, next: Option<Offset>) -> Result<Shown, WireError> {
        let segd = self.segd(n);
        let log_start = segd.trimmed.get(&segment).copied();
        match segd.shown.get(&segment) {
            None if next.zip(log_start).is_some_and(|(next, start)| next < start) => {
                Err(WireError::trimmed(next.unwrap_or_default(), log_start.unwrap_or_default()))
            }
            None => Err(WireError::retry(ErrorCode::UnknownSegment, format!("{segment} is not here"))),
            Some(shown) if !shown.serves => {
                Err(WireError::retry(ErrorCode::NotPrimary, format!("may not serve {segment}")))
            }
            Some(shown) => Ok(*shown),
        }
    }

    fn tell_tail(&mut self, n: u8, pipe: PipeId, msg: FromSegd, payload: Bytes) {
        trace!(self, "segd-{} tail {pipe:?} {msg:?}", n + 1);
        self.send(pipe, Proc::Segd(n), Frame::FromSegd(msg, payload));
    }

    fn end_tail(&mut self, n: u8, pipe: PipeId, last: FromSegd) {
        self.tell_tail(n, pipe, last, Bytes::new());
        self.segd(n).tails.remove(&pipe);
        self.close(pipe, Proc::Segd(n));
    }

    /// What may be seen of `segment` changed.
    pub(super) fn pump_tails(&mut self, n: u8, segment: SegmentId) {
        let of = |tail: &TailServe| tail.segment == segment;
        let pipes: Vec<PipeId> =
            self.segd(n).tails.iter().filter(|(_, tail)| of(tail)).map(|(pipe, _)| *pipe).collect();
        for pipe in pipes {
            self.pump_tail(n, pipe);
        }
    }

    /// The next step of a slow reader is due.
    pub(super) fn step_tail(&mut self, n: u8, pipe: PipeId) {
        if let Some(tail) = self.segd(n).tails.get_mut(&pipe) {
            tail.waits = false;
            self.pump_tail(n, pipe);
        }
    }

    fn pump_tail(&mut self, n: u8, pipe: PipeId) {
        while let Some(mut tail) = self.segd(n).tails.get(&pipe).copied() {
            if tail.waits && self.serving(n, tail.segment, tail.next).is_ok() {
                return;
            }
            let shown = match self.serving(n, tail.segment, tail.next) {
                Ok(shown) => shown,
                Err(error) => return self.end_tail(n, pipe, FromSegd::Error { error }),
            };
            let Some(start) = shown.start else { return };
            let next = tail.next.unwrap_or(start);
            if !tail.placed {
                if next < start {
                    let detail = format!("{} holds offsets from {start}, not {next}", tail.segment);
                    let error = WireError::refused(ErrorCode::OffsetOutOfRange, detail);
                    return self.end_tail(n, pipe, FromSegd::Error { error });
                }
                tail.placed = true;
                tail.next = Some(next);
                self.segd(n).tails.insert(pipe, tail);
            }
            let end = tail.until.unwrap_or(shown.committed).min(shown.committed);
            if next < end {
                let (base, through, payload) = self.segd(n).disk.read(tail.segment, next, Some(end), CHUNK_BYTES);
                assert!(base <= next && through > next, "R6: committed {next}..{end} of {} is not here", tail.segment);
                tail.next = Some(through);
                self.segd(n).tails.insert(pipe, tail);
                self.tell_tail(n, pipe, FromSegd::Records { next: through }, payload);
                if self.plan.load.tail_step_us > 0 {
                    tail.waits = true;
                    self.segd(n).tails.insert(pipe, tail);
                    return self.at(self.now + self.plan.load.tail_step_us, Proc::Segd(n), What::TailStep { pipe });
                }
                continue;
            }
            if tail.until.is_some_and(|until| next >= until) {
                self.segd(n).tails.remove(&pipe);
                return self.close(pipe, Proc::Segd(n));
            }
            if let Some(decision) = shown.decision.filter(|decision| next >= decision.end) {
                self.oracle.ended(tail.segment, decision);
                return self.end_tail(n, pipe, FromSegd::End { end: decision.end, next: decision.next });
            }
            return;
        }
    }
}
