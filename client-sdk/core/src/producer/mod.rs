//! Batches of one range on their way: sequences, what is in flight, what is sent again, and what a failure means.
//! Not which records share a batch ([`crate::accumulate`]), not connections (the shell has them).
//!
//! segd writes each (producer id, epoch, sequence) once, and a sequence only after the one before it. On that stands:
//!
//! P1. Every batch has exactly one outcome, within its deadline.
//! P2. Within an epoch batches have sequences without a gap, in their order, and are first sent in that order.
//! P3. At most `max_in_flight` batches lie between the oldest without an outcome and the newest sent: no more than segd
//!     remembers, so a retry always finds its original.
//! P4. A batch of which a copy may be under way is never sent under another epoch: it could be written twice.
//! P5. "It did not happen" is said only when every copy sent was answered so.
//!
//! A batch that ends without being written leaves a hole in the sequences of its epoch (`hole`). Then nothing new is sent
//! until each batch of that epoch is settled: acked, ended, or answered by all its copies that it does not fit. The latter
//! and all newer ones start again at sequence 0 of the next epoch, which fences the one before it.

mod answer;
mod batch;
mod invariants;
mod io;
mod link;

pub use io::{Counters, Effect, Input, ProducerSettings, StreamId};

use crate::accumulate::ClosedBatch;
use crate::error::SendError;
use batch::{Batch, Place};
use link::Link;
use seam_wire::batch::sequence_after;
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::{Offset, ProducerId, Tick};
use std::collections::VecDeque;

/// The batches of one producer and one range.
#[derive(Debug)]
pub struct RangeProducer<T> {
    settings: ProducerSettings,
    id: ProducerId,
    epoch: i16,
    next_sequence: i32,
    /// A sequence of this epoch will never be written.
    hole: bool,
    /// The next epoch is of another id.
    id_is_spent: bool,
    /// Without an outcome, by order.
    queue: VecDeque<Batch<T>>,
    link: Link,
    next_stream: u64,
    /// Failures since an append was last acked: the next wait doubles with it.
    tries: u32,
    stalls: u32,
    unknown_since: Option<Tick>,
    /// The last thing that went wrong, for the error of a batch whose deadline passes.
    last_failure: Option<String>,
    /// Whom the shell dials, for the same.
    peers: String,
    counters: Counters,
}

impl<T> RangeProducer<T> {
    /// `id` must be random: nobody else may ever have used it. The high bit is ignored.
    pub fn new(id: ProducerId, settings: ProducerSettings) -> Self {
        RangeProducer {
            settings,
            id: ProducerId(id.0 & i64::MAX as u64),
            epoch: 0,
            next_sequence: 0,
            hole: false,
            id_is_spent: false,
            queue: VecDeque::new(),
            link: Link::Idle,
            next_stream: 0,
            tries: 0,
            stalls: 0,
            unknown_since: None,
            last_failure: None,
            peers: "a router".to_owned(),
            counters: Counters::default(),
        }
    }

    /// Names whom the shell dials, for errors.
    #[must_use]
    pub fn peers(mut self, peers: String) -> Self {
        self.peers = peers;
        self
    }

    /// Takes one input; effects are appended to `out`, to be carried out in order.
    pub fn handle(&mut self, now: Tick, input: Input<T>, out: &mut Vec<Effect<T>>) {
        match input {
            Input::Batch(batch) => self.admit(batch),
            Input::Opened { stream } => self.on_opened(now, stream),
            Input::Refused { stream, error } => self.on_refused(now, stream, error, out),
            Input::Broken { stream, detail } => {
                if self.link.stream() == Some(stream) {
                    self.break_link(now, detail);
                }
            }
            Input::Ack { stream, seq, base_offset } => self.on_ack(now, stream, seq, base_offset, out),
            Input::Failed { stream, seq, error } => self.on_failed(now, stream, seq, error, out),
            Input::Tick => {
                self.expire(now, out);
                self.on_time(now, out);
            }
        }
        self.advance(now, out);
        #[cfg(debug_assertions)]
        self.assert_invariants();
    }

    /// When `Input::Tick` is due.
    pub fn next_deadline(&self) -> Option<Tick> {
        let outcome = self.queue.iter().map(|batch| batch.deadline).min();
        outcome.into_iter().chain(self.link_deadline()).min()
    }

    /// Batches that may be put in now (P3).
    pub fn room(&self) -> usize {
        let span = match (self.queue.front(), self.queue.back()) {
            (Some(oldest), Some(newest)) => (newest.order - oldest.order + 1) as usize,
            (None, _) | (_, None) => 0,
        };
        self.settings.max_in_flight.saturating_sub(span)
    }

    /// The order of the oldest batch without an outcome.
    pub fn first_order(&self) -> Option<u64> {
        self.queue.front().map(|batch| batch.order)
    }

    pub fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Opens a stream before there is anything to send.
    pub fn warm(&mut self, now: Tick, out: &mut Vec<Effect<T>>) {
        if matches!(self.link, Link::Idle) {
            self.open_link(now, false, out);
        }
    }

    fn admit(&mut self, batch: ClosedBatch<T>) {
        let newest = self.queue.back().map(|newest| newest.order);
        assert!(newest < Some(batch.order), "batch {} after {newest:?}: orders must rise", batch.order);
        assert!(self.room() > 0, "a batch put in without room");
        self.counters.batches += 1;
        self.queue.push_back(Batch::new(batch));
    }

    /// Sends what can be sent, opens what must be opened.
    fn advance(&mut self, now: Tick, out: &mut Vec<Effect<T>>) {
        if self.queue.is_empty() {
            self.settle_epoch();
            return;
        }
        if matches!(self.link, Link::Idle) {
            self.open_link(now, false, out);
        }
        let Link::Open(open) = &mut self.link else {
            return;
        };
        let sent = self.queue.iter().any(|batch| batch.is_sent());
        if let Some(resume_at) = open.resume_at {
            // All answers are awaited first: what comes after is sent in order, from the failed one on.
            if sent || now < resume_at {
                return;
            }
            open.resume_at = None;
        }
        if !sent {
            open.heard_at = now;
        }
        self.settle_epoch();
        self.send_waiting(out);
    }

    /// Closes an epoch with a hole once nothing of it is unsettled (P4).
    fn settle_epoch(&mut self) {
        if !self.hole || self.queue.iter().any(|batch| batch.base_sequence.is_some()) {
            return;
        }
        self.hole = false;
        self.next_sequence = 0;
        self.counters.epochs += 1;
        match self.epoch.checked_add(1) {
            Some(epoch) if !self.id_is_spent => self.epoch = epoch,
            Some(_) | None => {
                self.id = ProducerId(scatter(self.id.0) & i64::MAX as u64);
                self.epoch = 0;
                self.id_is_spent = false;
            }
        }
    }

    fn send_waiting(&mut self, out: &mut Vec<Effect<T>>) {
        let mut index = 0;
        while index < self.queue.len() {
            let batch = &self.queue[index];
            let may_go = batch.place == Place::Waiting && (batch.base_sequence.is_some() || !self.hole);
            if may_go && !self.send(index, out) {
                continue; // It ended instead; the next one is at its index now.
            }
            index += 1;
        }
    }

    /// Sends the batch at `index`. False: it cannot be built and has ended.
    fn send(&mut self, index: usize, out: &mut Vec<Effect<T>>) -> bool {
        let batch = &mut self.queue[index];
        let first_time = batch.base_sequence.is_none();
        let base_sequence = batch.base_sequence.unwrap_or(self.next_sequence);
        let payload = match batch.stamped((self.id, self.epoch, base_sequence)) {
            Ok(payload) => payload,
            Err(error) => {
                let error = WireError::from(error);
                self.end(index, Err(error.into()), out);
                return false;
            }
        };
        if first_time {
            // P2
            batch.base_sequence = Some(base_sequence);
            self.next_sequence = sequence_after(base_sequence, batch.records());
        }
        let Link::Open(open) = &mut self.link else {
            unreachable!("only called on an open link");
        };
        let seq = open.next_seq;
        open.next_seq += 1;
        self.counters.resends += u64::from(batch.was_sent);
        batch.was_sent = true;
        batch.place = Place::Sent { seq };
        out.push(Effect::Send { stream: open.stream, seq, payload });
        true
    }

    /// Gives up batches whose time is over (P1).
    fn expire(&mut self, now: Tick, out: &mut Vec<Effect<T>>) {
        while let Some(index) = self.queue.iter().position(|batch| batch.deadline <= now) {
            let batch = &self.queue[index];
            let cause = match (&self.last_failure, &self.link) {
                (Some(failure), _) => failure.clone(),
                (None, Link::Opening { .. }) => format!("still dialing {}", self.peers),
                (None, Link::Idle | Link::Open(_) | Link::Waiting { .. }) => "no answer came".to_owned(),
            };
            let error = if batch.may_exist || batch.is_sent() {
                let detail = format!("sent, but not acknowledged within the deadline; last: {cause}");
                SendError::unknown(ErrorCode::DeadlineExceeded, detail)
            } else {
                let detail = format!("it could not be sent within the deadline; last: {cause}");
                SendError::retry(ErrorCode::DeadlineExceeded, detail)
            };
            self.end(index, Err(error), out);
        }
    }

    /// The outcome of the batch at `index`.
    fn end(&mut self, index: usize, result: Result<Offset, SendError>, out: &mut Vec<Effect<T>>) {
        let batch = self.queue.remove(index).expect("the caller found it");
        match &result {
            Ok(_) => self.counters.acks += 1,
            Err(error) => {
                self.counters.failed += 1;
                self.counters.indeterminate += u64::from(error.certainty == Certainty::Indeterminate);
                self.hole |= batch.base_sequence.is_some();
            }
        }
        out.push(Effect::Done { waiters: batch.waiters, cost: batch.cost, result });
    }
}

/// Another number, as good as random, from a random one (the finalizer of SplitMix64).
fn scatter(seed: u64) -> u64 {
    let mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
