//! Appends of one range at one router: what is in flight, on which upstream stream, and where it goes when the head moves.
//! Not a place for offsets (segd decides them) nor for connections (the shell has them).
//!
//! Rules, after the roll protocol (steps 4c and 5, *Retries*):
//!
//! - Appends go to the head only, in the order they came. The head is metad's, led on by what `Moved` told.
//! - At `Moved`, batches above `accepted_through` go to the head at once, before newer ones; those at or below it wait for
//!   their acks on the old stream.
//! - When a stream breaks, its unacked batches of idempotent producers go to the head again in their first order; one
//!   without a producer id is answered "it may have happened", since a second copy could be a second record.
//! - When the chain moves on before the old stream said `Moved`, appends wait for that word, within a bound: sending newer
//!   ones first would break their order.
//! - Every append is answered exactly once.

mod answer;
mod inflight;
mod settle;
mod stream;

use crate::Tick;
use crate::chain::Chains;
use bytes::Bytes;
use inflight::{Batch, Inflight, Place};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::FromSegd;
use seam_wire::{NodeId, Offset, ProducerId, RangeId, SegmentId, TraceContext};
use std::collections::BTreeMap;
use stream::{Retry, Stream};

/// A client's produce stream, as the shell numbers it. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientStream(pub u64);

/// One append stream to one segment's primary, as the core numbers it. Never reused, so a late word is known as late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UpstreamId(pub u64);

/// Who an idempotent batch is from, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProducerSeq {
    pub id: ProducerId,
    pub epoch: i16,
    pub base_sequence: i32,
}

/// Limits and waits. Durations in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerSettings {
    /// Batches taken and not answered yet, all clients together. 1 or more.
    pub max_inflight_batches: usize,
    /// Their bytes. One batch is always let in.
    pub max_inflight_bytes: usize,
    /// First wait before a segment whose stream broke is tried again; doubles to `reopen_max_us`.
    pub reopen_min_us: u64,
    pub reopen_max_us: u64,
    /// How long a stream whose segment metad says is sealed may owe its `Moved` or its acks before it counts as broken.
    pub moved_patience_us: u64,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        ProducerSettings {
            max_inflight_batches: 16_384,
            max_inflight_bytes: 64 << 20,
            reopen_min_us: 10_000,
            reopen_max_us: 1_000_000,
            moved_patience_us: 2_000_000,
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A client's append, verified. Appends of one client stream come in the order of `seq`.
    Append {
        client: ClientStream,
        seq: u64,
        /// `None`: a producer without idempotence.
        producer: Option<ProducerSeq>,
        payload: Bytes,
        /// When it is given up if it was not answered by then.
        deadline: Tick,
        /// Of a sampled append; goes on with it.
        trace: Option<TraceContext>,
    },
    /// The client's stream is over: what was never sent is dropped, what was goes on, answers lead nowhere.
    ClientGone { client: ClientStream },
    /// The stream could not be opened, or broke, or ended.
    UpstreamBroken { up: UpstreamId },
    /// A message on an upstream stream.
    FromSegd { up: UpstreamId, msg: FromSegd },
    /// Something about this range (or about nodes) changed in `Chains`.
    ChainChanged,
    /// Time passed; due at [`RangeProducer::next_deadline`].
    Tick,
}

/// What the shell does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open an append stream to the head's primary. `Send`s may follow at once: they queue behind the opening.
    OpenUpstream {
        up: UpstreamId,
        segment: SegmentId,
        node: NodeId,
    },
    /// The same to a ready candidate, ahead of the switch.
    WarmUpstream {
        up: UpstreamId,
        segment: SegmentId,
        node: NodeId,
    },
    /// `seq` counts from 0 on each stream.
    Send {
        up: UpstreamId,
        segment: SegmentId,
        seq: u64,
        payload: Bytes,
        trace: Option<TraceContext>,
    },
    AckClient {
        client: ClientStream,
        seq: u64,
        base_offset: Offset,
    },
    FailClient {
        client: ClientStream,
        seq: u64,
        error: WireError,
    },
    /// The stream has no more use: everything on it is answered or goes elsewhere.
    CloseUpstream {
        up: UpstreamId,
        segment: SegmentId,
    },
}

/// What was counted since the producer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProducerCounters {
    pub appends: u64,
    pub acks: u64,
    pub failed: u64,
    pub overloaded: u64,
    pub expired: u64,
    /// `Moved` messages taken: boundaries met.
    pub moved: u64,
    /// Batches that were on the old stream above `accepted_through` and went to the next.
    pub moved_batches: u64,
    /// Batches sent again after a break.
    pub resends: u64,
    pub upstream_breaks: u64,
    pub warmed: u64,
    /// Moves whose successor's stream was open already.
    pub warm_moves: u64,
    /// Messages that make no sense on their stream.
    pub anomalies: u64,
}

/// The producer side of one range at one router.
#[derive(Clone, Debug)]
pub struct RangeProducer {
    range: RangeId,
    settings: ProducerSettings,
    inflight: Inflight,
    streams: BTreeMap<UpstreamId, Stream>,
    next_up: u64,
    /// What `Moved` told of segments that metad does not yet show as sealed.
    moved_to: BTreeMap<SegmentId, SegmentId>,
    retries: BTreeMap<SegmentId, Retry>,
    /// When a wanted segment without a stream is due to be dialed again.
    reopen_at: Option<Tick>,
    /// The first sequence refused as `Overloaded` on a client stream: later ones of that producer are refused too, until it
    /// comes again, or they would be out of sequence.
    refused: BTreeMap<ClientStream, ProducerSeq>,
    head: Option<SegmentId>,
    counters: ProducerCounters,
}

impl RangeProducer {
    pub fn new(range: RangeId, settings: ProducerSettings) -> Self {
        RangeProducer {
            range,
            settings,
            inflight: Inflight::default(),
            streams: BTreeMap::new(),
            next_up: 0,
            moved_to: BTreeMap::new(),
            retries: BTreeMap::new(),
            reopen_at: None,
            refused: BTreeMap::new(),
            head: None,
            counters: ProducerCounters::default(),
        }
    }

    /// Takes one input; effects are appended to `out`, to be carried out in order.
    pub fn handle(&mut self, now: Tick, input: Input, chains: &Chains, out: &mut Vec<Effect>) {
        match input {
            Input::Append { client, seq, producer, payload, deadline, trace } => {
                self.counters.appends += 1;
                self.admit(Batch { trace, ..Batch::new(client, seq, producer, payload, deadline) }, chains, out);
                if self.head.is_none() {
                    self.settle(now, chains, out);
                }
            }
            Input::ClientGone { client } => {
                self.refused.remove(&client);
                self.inflight.drop_unsent(client);
            }
            Input::UpstreamBroken { up } => {
                if self.streams.contains_key(&up) {
                    self.break_stream(now, up, stream::Fate::Unknown, out);
                    self.settle(now, chains, out);
                }
            }
            Input::FromSegd { up, msg } => self.on_message(now, up, msg, chains, out),
            Input::ChainChanged => self.settle(now, chains, out),
            Input::Tick => {
                self.expire(now, out);
                self.settle(now, chains, out);
            }
        }
        self.flush(out);
        #[cfg(debug_assertions)]
        self.assert_invariants();
    }

    /// When `Input::Tick` is due next, if ever.
    pub fn next_deadline(&self) -> Option<Tick> {
        let waits = self.streams.values().filter_map(|stream| stream.patience);
        self.inflight.next_deadline().into_iter().chain(waits).chain(self.reopen_at).min()
    }

    /// The segment appends go to now, if it is known.
    pub fn head(&self) -> Option<SegmentId> {
        self.head
    }

    pub fn counters(&self) -> ProducerCounters {
        self.counters
    }

    /// Batches taken and not answered yet, and their bytes.
    pub fn inflight(&self) -> (usize, usize) {
        (self.inflight.len(), self.inflight.bytes())
    }

    /// Whether an append of so many bytes would be taken now.
    pub fn has_room(&self, bytes: usize) -> bool {
        let (batches, held) = self.inflight();
        batches == 0
            || (batches < self.settings.max_inflight_batches && held + bytes <= self.settings.max_inflight_bytes)
    }

    /// Open or opening streams to candidates that are not the head.
    pub fn warm_streams(&self) -> usize {
        self.streams.values().filter(|stream| Some(stream.segment) != self.head && stream.usable()).count()
    }

    /// Nothing in flight: the producer can be dropped when no client has a stream to it.
    pub fn is_idle(&self) -> bool {
        self.inflight.len() == 0
    }

    /// Every batch is in exactly one place, and the counts agree.
    ///
    /// # Panics
    /// If not: a defect of this module.
    pub fn assert_invariants(&self) {
        self.inflight.assert_invariants();
        let mut sent = 0;
        for (up, stream) in &self.streams {
            let mut last = None;
            for (seq, order) in &stream.sent {
                assert!(last < Some(*seq), "{up:?}: sequences out of order: {:?}", stream.sent);
                last = Some(*seq);
                let batch = self.inflight.get(*order).expect("a sent batch is in flight");
                let place = Place::Sent { up: *up, seq: *seq };
                assert_eq!(batch.place, place, "batch {order} of {up:?}: {batch:?}");
            }
            sent += stream.sent.len();
        }
        assert_eq!(sent, self.inflight.sent(), "a batch is on no stream: {self:?}");
        let answered = self.counters.acks + self.counters.failed + self.inflight.dropped();
        let open = self.inflight.len() as u64;
        assert_eq!(
            self.counters.appends,
            answered + open,
            "an append was answered twice or never: {:?}",
            self.counters
        );
    }

    fn admit(&mut self, batch: Batch, chains: &Chains, out: &mut Vec<Effect>) {
        if chains.deleted(self.range) {
            let error = WireError::refused(ErrorCode::UnknownTopic, "the topic was deleted");
            return self.fail(batch.client, batch.seq, error, out);
        }
        if let (Some(first), Some(this)) = (self.refused.get(&batch.client), batch.producer)
            && first.id == this.id
            && first.epoch == this.epoch
            && is_after(this.base_sequence, first.base_sequence)
        {
            self.counters.overloaded += 1;
            let detail = format!("sequence {} was refused before this one; send that one first", first.base_sequence);
            let error = WireError::retry(ErrorCode::Overloaded, detail);
            return self.fail(batch.client, batch.seq, error, out);
        }
        if !self.has_room(batch.payload.len()) {
            let (batches, bytes) = (self.inflight.len(), self.inflight.bytes());
            self.counters.overloaded += 1;
            if let Some(producer) = batch.producer {
                self.refused.insert(batch.client, producer);
            }
            let detail = format!("{} has {batches} batches of {bytes} bytes in flight; try again later", self.range);
            let error = WireError::retry(ErrorCode::Overloaded, detail);
            return self.fail(batch.client, batch.seq, error, out);
        }
        self.refused.remove(&batch.client);
        self.inflight.push(batch);
    }

    fn fail(&mut self, client: ClientStream, seq: u64, error: WireError, out: &mut Vec<Effect>) {
        self.counters.failed += 1;
        out.push(Effect::FailClient { client, seq, error });
    }
}

/// Whether sequence `a` comes after `b`: sequences run to `i32::MAX` and then from 0 again.
fn is_after(a: i32, b: i32) -> bool {
    let ahead = a.wrapping_sub(b) & i32::MAX;
    ahead != 0 && ahead < 1 << 30
}
