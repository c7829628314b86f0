//! The batches that are not answered yet, in the order they came, and where each is. Decides nothing.

use super::{ClientStream, ProducerSeq, UpstreamId};
use crate::Tick;
use bytes::Bytes;
use seam_wire::TraceContext;
use std::collections::{BTreeMap, BTreeSet};

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// To be sent to the head.
    Waiting,
    /// On a stream, not answered.
    Sent { up: UpstreamId, seq: u64 },
}

#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub client: ClientStream,
    pub seq: u64,
    pub producer: Option<ProducerSeq>,
    pub payload: Bytes,
    pub deadline: Tick,
    pub place: Place,
    /// It was on a stream that broke: a copy of it may be in the log.
    pub may_exist: bool,
    pub trace: Option<TraceContext>,
}

impl Batch {
    pub fn new(client: ClientStream, seq: u64, producer: Option<ProducerSeq>, payload: Bytes, deadline: Tick) -> Self {
        Batch { client, seq, producer, payload, deadline, place: Place::Waiting, may_exist: false, trace: None }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Inflight {
    /// By order of arrival.
    batches: BTreeMap<u64, Batch>,
    next_order: u64,
    bytes: usize,
    waiting: BTreeSet<u64>,
    deadlines: BTreeSet<(Tick, u64)>,
    dropped: u64,
}

impl Inflight {
    pub fn len(&self) -> usize {
        self.batches.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn sent(&self) -> usize {
        self.batches.len() - self.waiting.len()
    }

    /// Unsent batches of clients that went away.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub fn get(&self, order: u64) -> Option<&Batch> {
        self.batches.get(&order)
    }

    pub fn push(&mut self, batch: Batch) {
        let order = self.next_order;
        self.next_order += 1;
        self.bytes += batch.payload.len();
        self.waiting.insert(order);
        self.deadlines.insert((batch.deadline, order));
        self.batches.insert(order, batch);
    }

    /// Takes a batch out, whatever its place.
    pub fn remove(&mut self, order: u64) -> Option<Batch> {
        let batch = self.batches.remove(&order)?;
        self.bytes -= batch.payload.len();
        self.deadlines.remove(&(batch.deadline, order));
        match batch.place {
            Place::Waiting => self.waiting.remove(&order),
            Place::Sent { .. } => true,
        };
        Some(batch)
    }

    /// Moves a batch to `place`.
    pub fn place(&mut self, order: u64, place: Place) -> &mut Batch {
        let batch = self.batches.get_mut(&order).expect("the caller holds an order that is in flight");
        match batch.place {
            Place::Waiting => self.waiting.remove(&order),
            Place::Sent { .. } => true,
        };
        batch.place = place;
        match place {
            Place::Waiting => self.waiting.insert(order),
            Place::Sent { .. } => true,
        };
        batch
    }

    /// The oldest batch that is to be sent.
    pub fn first_waiting(&self) -> Option<u64> {
        self.waiting.first().copied()
    }

    pub fn waiting(&self) -> impl Iterator<Item = u64> + use<> {
        self.waiting.clone().into_iter()
    }

    pub fn next_deadline(&self) -> Option<Tick> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// A batch whose deadline is not after `now`.
    pub fn expired(&self, now: Tick) -> Option<u64> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, order)| *order)
    }

    /// Forgets the batches of `client` that no segment can have seen.
    pub fn drop_unsent(&mut self, client: ClientStream) {
        for order in self.waiting() {
            let batch = &self.batches[&order];
            if batch.client == client && !batch.may_exist {
                self.remove(order);
                self.dropped += 1;
            }
        }
    }

    pub fn assert_invariants(&self) {
        let bytes: usize = self.batches.values().map(|batch| batch.payload.len()).sum();
        assert_eq!(bytes, self.bytes, "bytes in flight are miscounted");
        assert_eq!(self.deadlines.len(), self.batches.len(), "a deadline is lost");
        for (order, batch) in &self.batches {
            assert_eq!(self.waiting.contains(order), batch.place == Place::Waiting, "batch {order}: {batch:?}");
        }
    }
}
