//! What a router answers to an append, and what it means for the batch and those behind it.

use super::batch::Place;
use super::link::Link;
use super::{Effect, RangeProducer, StreamId};
use crate::error::SendError;
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::{Offset, Tick};

impl<T> RangeProducer<T> {
    pub(super) fn on_ack(
        &mut self,
        now: Tick,
        stream: StreamId,
        seq: u64,
        base_offset: Offset,
        out: &mut Vec<Effect<T>>,
    ) {
        // `None`: its deadline passed, or the stream is not the one it is on now.
        if let Some(index) = self.answered(now, stream, seq) {
            self.tries = 0;
            self.stalls = 0;
            self.last_failure = None;
            self.end(index, Ok(base_offset), out);
        }
    }

    pub(super) fn on_failed(
        &mut self,
        now: Tick,
        stream: StreamId,
        seq: u64,
        error: WireError,
        out: &mut Vec<Effect<T>>,
    ) {
        let Some(index) = self.answered(now, stream, seq) else {
            return;
        };
        let batch = &mut self.queue[index];
        batch.place = Place::Waiting;
        batch.may_exist |= error.certainty == Certainty::Indeterminate;
        self.last_failure = Some(error.to_string());
        match error.code {
            ErrorCode::OutOfSequence => self.out_of_sequence(now, index, error, out),
            ErrorCode::ProducerFenced => self.fenced(index, error, out),
            ErrorCode::UnknownTopic
            | ErrorCode::UnknownRange
            | ErrorCode::UnknownSegment
            | ErrorCode::NotPrimary
            | ErrorCode::OffsetOutOfRange
            | ErrorCode::Trimmed { .. }
            | ErrorCode::BadFrame
            | ErrorCode::BadBatch
            | ErrorCode::BatchTooLarge
            | ErrorCode::TooManyProducers
            | ErrorCode::Overloaded
            | ErrorCode::Fenced
            | ErrorCode::Unavailable
            | ErrorCode::DeadlineExceeded
            | ErrorCode::NotAuthorized
            | ErrorCode::InvalidArgument
            | ErrorCode::AlreadyExists
            | ErrorCode::Internal => {
                if error.retryable {
                    self.hold_back(now);
                } else {
                    self.fail(index, error, out);
                }
            }
        }
    }

    /// The batch that was sent as `seq` on `stream`, if it still waits for that answer.
    fn answered(&mut self, now: Tick, stream: StreamId, seq: u64) -> Option<usize> {
        let Link::Open(open) = &mut self.link else {
            return None;
        };
        if open.stream != stream {
            return None;
        }
        open.heard_at = now;
        self.queue.iter().position(|batch| batch.place == Place::Sent { seq })
    }

    /// Nothing is sent until all that was sent is answered and a pause is over; then in order from the oldest on.
    fn hold_back(&mut self, now: Tick) {
        // One refusal brings others behind it: they count as one.
        if let Link::Open(open) = &self.link
            && open.resume_at.is_none()
        {
            self.tries = self.tries.saturating_add(1);
            let resume_at = now.after_us(self.retry_us());
            if let Link::Open(open) = &mut self.link {
                open.resume_at = Some(resume_at);
            }
        }
    }

    fn out_of_sequence(&mut self, now: Tick, index: usize, error: WireError, out: &mut Vec<Effect<T>>) {
        let waits_for_older = self.queue.iter().take(index).any(|older| older.base_sequence.is_some());
        if waits_for_older {
            // One before it failed and goes again, then this one.
            return self.hold_back(now);
        }
        // Nothing can fill the gap before it any more, or segd has forgotten this producer.
        self.hole = true;
        self.restart_or_fail(index, error, out);
    }

    /// No other process has this id: somebody else drew it, or segd is wrong. Either way it is of no more use.
    fn fenced(&mut self, index: usize, error: WireError, out: &mut Vec<Effect<T>>) {
        self.hole = true;
        self.id_is_spent = true;
        self.restart_or_fail(index, error, out);
    }

    /// Under the next epoch if no copy of it can be under way (P4), else it ends.
    fn restart_or_fail(&mut self, index: usize, error: WireError, out: &mut Vec<Effect<T>>) {
        let batch = &mut self.queue[index];
        if batch.may_exist {
            return self.fail(index, error, out);
        }
        batch.base_sequence = None;
    }

    fn fail(&mut self, index: usize, error: WireError, out: &mut Vec<Effect<T>>) {
        let mut error = SendError::from(error);
        if self.queue[index].may_exist {
            // P5
            error.certainty = Certainty::Indeterminate;
        }
        self.end(index, Err(error), out);
    }
}
