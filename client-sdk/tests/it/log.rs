//! The log behind the router doubles: batches in order, and the producer table's rules.

use bytes::Bytes;
use parking_lot::Mutex;
use seam_wire::batch::{self, BatchHeader, sequence_after, stamped};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::{Offset, ProducerId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::sync::watch;

const REMEMBERED: usize = 16;

#[derive(Default)]
struct Session {
    epoch: i16,
    batches: VecDeque<(i32, u32, u64)>,
}

#[derive(Default)]
struct State {
    batches: Vec<Bytes>,
    end: u64,
    sessions: BTreeMap<ProducerId, Session>,
}

/// One range.
pub struct RangeLog {
    state: Arc<Mutex<State>>,
    end: watch::Sender<u64>,
}

impl Default for RangeLog {
    fn default() -> Self {
        RangeLog { state: Arc::default(), end: watch::Sender::new(0) }
    }
}

impl RangeLog {
    /// The same range.
    pub fn shared(&self) -> RangeLog {
        RangeLog { state: Arc::clone(&self.state), end: self.end.clone() }
    }

    /// Writes a batch once, whatever the number of its copies.
    pub fn append(&self, batch: &Bytes) -> Result<Offset, WireError> {
        let header = batch::verify(batch, 64 << 20)?;
        let (id, epoch, base) = header.producer.expect("the SDK's producers are idempotent");
        let mut state = self.state.lock();
        let end = state.end;
        let session = state.sessions.entry(id).or_default();
        if epoch < session.epoch {
            return Err(WireError::refused(ErrorCode::ProducerFenced, "an older epoch"));
        }
        let same_epoch = epoch == session.epoch;
        let known = |(first, count, _): &&(i32, u32, u64)| (*first, *count) == (base, header.record_count);
        if let Some((_, _, offset)) = session.batches.iter().find(known).filter(|_| same_epoch) {
            return Ok(Offset(*offset));
        }
        let last = session.batches.back().filter(|_| same_epoch);
        let expected = last.map_or(0, |(first, count, _)| sequence_after(*first, *count));
        if base != expected {
            return Err(WireError::refused(ErrorCode::OutOfSequence, format!("{expected} was due, {base} came")));
        }
        if !same_epoch {
            session.epoch = epoch;
            session.batches.clear();
        }
        session.batches.push_back((base, header.record_count, end));
        if session.batches.len() > REMEMBERED {
            session.batches.pop_front();
        }
        state.batches.push(stamped(batch.clone(), Offset(end)).unwrap());
        state.end += u64::from(header.record_count);
        self.end.send_replace(state.end);
        Ok(Offset(end))
    }

    /// The batch that holds `offset`.
    pub fn batch_at(&self, offset: u64) -> Option<Bytes> {
        let state = self.state.lock();
        let at = state.batches.partition_point(|batch| BatchHeader::parse(batch).unwrap().next_offset().0 <= offset);
        state.batches.get(at).cloned()
    }

    pub fn end(&self) -> watch::Receiver<u64> {
        self.end.subscribe()
    }

    pub fn batches(&self) -> usize {
        self.state.lock().batches.len()
    }

    pub fn epochs(&self) -> Vec<i16> {
        self.state.lock().sessions.values().map(|session| session.epoch).collect()
    }

    /// All values, in order.
    pub fn values(&self) -> Vec<Bytes> {
        let batches = self.state.lock().batches.clone();
        let records = batches.iter().flat_map(|batch| batch::records(batch).unwrap());
        records.map(|record| record.value.unwrap_or_default()).collect()
    }
}
