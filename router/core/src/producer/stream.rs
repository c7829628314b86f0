//! One append stream to one segment's primary, and what becomes of its batches when it ends.

use super::{Effect, RangeProducer, UpstreamId};
use crate::Tick;
use crate::producer::inflight::Place;
use seam_wire::SegmentId;
use seam_wire::error::{ErrorCode, WireError};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Asked for; nothing was heard on it yet.
    Opening,
    Open,
    /// It takes no more: its segment went on to `next`. What is on it was accepted and will be acked here.
    Moved {
        next: SegmentId,
    },
    /// Its node says that it may not write the segment; the answers to the rest are awaited.
    Refusing,
}

#[derive(Clone, Debug)]
pub(super) struct Stream {
    pub segment: SegmentId,
    pub state: State,
    pub next_seq: u64,
    /// Sequence on this stream, and the batch: in order, not answered.
    pub sent: VecDeque<(u64, u64)>,
    /// When it counts as broken if it has not settled by then.
    pub patience: Option<Tick>,
}

impl Stream {
    pub fn new(segment: SegmentId) -> Self {
        Stream { segment, state: State::Opening, next_seq: 0, sent: VecDeque::new(), patience: None }
    }

    /// Takes appends.
    pub fn usable(&self) -> bool {
        match self.state {
            State::Opening | State::Open => true,
            State::Moved { .. } | State::Refusing => false,
        }
    }

    /// Takes the batch at `seq` off the stream.
    pub fn take(&mut self, seq: u64) -> Option<u64> {
        let at = self.sent.partition_point(|(sent, _)| *sent < seq);
        match self.sent.get(at) {
            Some((sent, _)) if *sent == seq => self.sent.remove(at).map(|(_, order)| order),
            Some(_) | None => None,
        }
    }
}

/// What is known of the unanswered batches of a stream that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// They may be in the log.
    Unknown,
    /// None of them was, or ever will be, taken there.
    NotTaken,
}

/// When a segment may be dialed again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    pub at: Tick,
    pub attempts: u32,
}

impl RangeProducer {
    /// The stream is over. Its batches wait for the head again, or are answered where a second copy could be a second record.
    pub(super) fn break_stream(&mut self, now: Tick, up: UpstreamId, fate: Fate, out: &mut Vec<Effect>) {
        let Some(stream) = self.streams.remove(&up) else {
            return;
        };
        self.counters.upstream_breaks += 1;
        self.delay_reopen(now, stream.segment);
        for (_, order) in stream.sent {
            self.requeue(order, fate, stream.segment, out);
        }
    }

    fn requeue(&mut self, order: u64, fate: Fate, segment: SegmentId, out: &mut Vec<Effect>) {
        let idempotent = self.inflight.get(order).is_some_and(|batch| batch.producer.is_some());
        match fate {
            Fate::NotTaken => {
                self.inflight.place(order, Place::Waiting);
            }
            Fate::Unknown if idempotent => {
                self.inflight.place(order, Place::Waiting).may_exist = true;
            }
            Fate::Unknown => {
                let batch = self.inflight.remove(order).expect("a batch on a stream is in flight");
                let detail = format!(
                    "the stream to {segment} broke before the answer; read the end of the range to see, or use an \
                     idempotent producer"
                );
                self.fail(batch.client, batch.seq, WireError::unknown(ErrorCode::Unavailable, detail), out);
            }
        }
    }

    /// A stream that settled: nothing on it, and no use for it.
    pub(super) fn close_stream(&mut self, up: UpstreamId, out: &mut Vec<Effect>) {
        if let Some(stream) = self.streams.remove(&up) {
            debug_assert!(stream.sent.is_empty(), "closing a stream with batches on it: {stream:?}");
            out.push(Effect::CloseUpstream { up, segment: stream.segment });
        }
    }

    pub(super) fn delay_reopen(&mut self, now: Tick, segment: SegmentId) {
        let attempts = self.retries.get(&segment).map_or(0, |retry| retry.attempts);
        let wait = self.settings.reopen_min_us.saturating_mul(1 << attempts.min(20)).min(self.settings.reopen_max_us);
        let retry = Retry { at: now.after_us(wait), attempts: attempts.saturating_add(1) };
        self.retries.insert(segment, retry);
    }
}
