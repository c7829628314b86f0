//! What segd answers on an append stream, and what it means for the batches there.

use super::inflight::Place;
use super::stream::{Fate, State};
use super::{Effect, RangeProducer, UpstreamId};
use crate::Tick;
use crate::chain::Chains;
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::msg::FromSegd;
use seam_wire::traps::{self, Trap};
use seam_wire::{Offset, SegmentId};

impl RangeProducer {
    pub(super) fn on_message(
        &mut self,
        now: Tick,
        up: UpstreamId,
        msg: FromSegd,
        chains: &Chains,
        out: &mut Vec<Effect>,
    ) {
        if !self.streams.contains_key(&up) {
            return; // Late word of a stream that is over; its batches were settled then.
        }
        match msg {
            FromSegd::AppendOpened => self.on_opened(up),
            FromSegd::AppendAck { seq, base_offset } => self.on_ack(up, seq, base_offset, out),
            FromSegd::AppendError { seq, error } => self.on_append_error(now, up, seq, error, chains, out),
            FromSegd::Moved { next, accepted_through, start: _ } => {
                self.on_moved(now, up, next, accepted_through);
                self.settle(now, chains, out);
            }
            FromSegd::Error { error } => {
                let opening = self.streams.get(&up).is_some_and(|stream| stream.state == State::Opening);
                // A stream that was refused at its opening took none of what was written behind it.
                let definite = error.certainty == Certainty::Definite;
                let fate = if opening && definite { Fate::NotTaken } else { Fate::Unknown };
                self.break_stream(now, up, fate, out);
                self.settle(now, chains, out);
            }
            FromSegd::TailOpened { .. }
            | FromSegd::Records { .. }
            | FromSegd::End { .. }
            | FromSegd::Committed { .. } => self.counters.anomalies += 1,
        }
    }

    fn on_opened(&mut self, up: UpstreamId) {
        let stream = self.streams.get_mut(&up).expect("checked by the caller");
        match stream.state {
            State::Opening => stream.state = State::Open,
            State::Open | State::Moved { .. } | State::Refusing => self.counters.anomalies += 1,
        }
    }

    fn on_ack(&mut self, up: UpstreamId, seq: u64, base_offset: Offset, out: &mut Vec<Effect>) {
        let stream = self.streams.get_mut(&up).expect("checked by the caller");
        let segment = stream.segment;
        // `None`: it expired meanwhile and was answered then.
        if let Some(order) = stream.take(seq) {
            let batch = self.inflight.remove(order).expect("a batch on a stream is in flight");
            self.counters.acks += 1;
            out.push(Effect::AckClient { client: batch.client, seq: batch.seq, base_offset });
        }
        self.retries.remove(&segment);
        self.after_answer(up, out);
    }

    fn on_append_error(
        &mut self,
        now: Tick,
        up: UpstreamId,
        seq: u64,
        error: WireError,
        chains: &Chains,
        out: &mut Vec<Effect>,
    ) {
        let stream = self.streams.get_mut(&up).expect("checked by the caller");
        let Some(order) = stream.take(seq) else {
            return self.after_answer(up, out);
        };
        match error.code {
            ErrorCode::NotPrimary | ErrorCode::UnknownSegment | ErrorCode::Fenced => {
                if stream.usable() {
                    stream.state = State::Refusing;
                    stream.patience = Some(now.after_us(self.settings.moved_patience_us));
                }
                let (empty, segment) = (stream.sent.is_empty(), stream.segment);
                self.refused_by_segment(order, error, out);
                if empty {
                    self.delay_reopen(now, segment);
                    self.close_stream(up, out);
                    self.settle(now, chains, out);
                }
            }
            ErrorCode::OutOfSequence
            | ErrorCode::UnknownTopic
            | ErrorCode::UnknownRange
            | ErrorCode::OffsetOutOfRange
            | ErrorCode::Trimmed { .. }
            | ErrorCode::BadFrame
            | ErrorCode::BadBatch
            | ErrorCode::BatchTooLarge
            | ErrorCode::ProducerFenced
            | ErrorCode::TooManyProducers
            | ErrorCode::Overloaded
            | ErrorCode::Unavailable
            | ErrorCode::DeadlineExceeded
            | ErrorCode::NotAuthorized
            | ErrorCode::InvalidArgument
            | ErrorCode::AlreadyExists
            | ErrorCode::Internal => self.fail_order(order, error, out),
        }
        self.after_answer(up, out);
    }

    /// The segment does not take it, but another may.
    fn refused_by_segment(&mut self, order: u64, error: WireError, out: &mut Vec<Effect>) {
        let idempotent = self.inflight.get(order).is_some_and(|batch| batch.producer.is_some());
        match error.certainty {
            Certainty::Definite => {
                self.inflight.place(order, Place::Waiting);
            }
            Certainty::Indeterminate if idempotent => {
                self.inflight.place(order, Place::Waiting).may_exist = true;
            }
            Certainty::Indeterminate => self.fail_order(order, error, out),
        }
    }

    /// Answers a batch with an error. An earlier copy whose fate is unknown makes any error indeterminate.
    pub(super) fn fail_order(&mut self, order: u64, mut error: WireError, out: &mut Vec<Effect>) {
        let batch = self.inflight.remove(order).expect("the caller holds an order that is in flight");
        if batch.may_exist {
            error.certainty = Certainty::Indeterminate;
        }
        if traps::active(Trap::DoubtSaidDefinite) {
            error.certainty = Certainty::Definite;
        }
        self.fail(batch.client, batch.seq, error, out);
    }

    fn on_moved(&mut self, now: Tick, up: UpstreamId, next: SegmentId, accepted_through: Option<u64>) {
        let stream = self.streams.get_mut(&up).expect("checked by the caller");
        if let State::Moved { next: told } = stream.state {
            self.counters.anomalies += u64::from(told != next);
            return;
        }
        let segment = stream.segment;
        let kept = stream.sent.partition_point(|(seq, _)| accepted_through.is_some_and(|through| *seq <= through));
        let rest = stream.sent.split_off(kept);
        stream.state = State::Moved { next };
        stream.patience = None;
        self.counters.moved += 1;
        self.counters.moved_batches += rest.len() as u64;
        for (_, order) in rest {
            self.inflight.place(order, Place::Waiting);
        }
        self.moved_to.insert(segment, next);
        // Should the head ever seem to be this segment again, it is not dialed in a tight loop.
        self.delay_reopen(now, segment);
        let warm = self.streams.values().any(|stream| stream.segment == next && stream.usable());
        self.counters.warm_moves += u64::from(warm);
    }

    /// After an answer on `up`: closes it if that was its last.
    fn after_answer(&mut self, up: UpstreamId, out: &mut Vec<Effect>) {
        let done = self.streams.get(&up).is_some_and(|stream| !stream.usable() && stream.sent.is_empty());
        if done {
            self.close_stream(up, out);
        }
    }
}
