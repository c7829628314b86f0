//! The producer table: which sequences of which producers the log holds, and where. Keeps R9 and R14.
//!
//! A pure function of the log: a segment's header holds the table at its start, each batch adds to it, and what is forgotten
//! depends on log content alone, never on a clock. Every replica keeps its own and they agree.

use crate::traps::{self, Trap};
use seam_wire::table::{ProducerEntry, RememberedBatch, TableSnapshot};
use seam_wire::{Offset, ProducerId};
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

/// Batches remembered per producer: at least as many as it may have in flight, over N and M together.
pub const REMEMBERED_BATCHES: usize = 16;
/// Producers remembered per range; the one whose last batch is oldest in the log goes first. Bounds `Begin` too.
pub const MAX_PRODUCERS: usize = 1024;

/// A batch's claim: who sent it, and its place among what they sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Claim {
    pub id: ProducerId,
    pub epoch: i16,
    pub base_sequence: i32,
    pub records: u32,
}

impl Claim {
    /// Sequences wrap from `i32::MAX` to 0.
    fn last_sequence(&self) -> i32 {
        advance(self.base_sequence, self.records.saturating_sub(1))
    }
}

fn advance(sequence: i32, by: u32) -> i32 {
    let period = i64::from(i32::MAX) + 1;
    let next = (i64::from(sequence) + i64::from(by)) % period;
    i32::try_from(next).expect("a remainder by 2^31 fits")
}

/// What the table says of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verdict {
    New,
    /// The log holds it already, at this offset.
    Duplicate {
        base_offset: Offset,
    },
    /// A newer epoch of this producer wrote.
    Fenced {
        current: i16,
    },
    /// Neither the next sequence nor a remembered one.
    OutOfSequence {
        expected: i32,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Producer {
    epoch: i16,
    batches: Vec<RememberedBatch>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProducerTable {
    producers: BTreeMap<ProducerId, Producer>,
}

impl ProducerTable {
    pub fn from_snapshot(snapshot: &TableSnapshot) -> Self {
        let mut table = ProducerTable::default();
        table.merge(snapshot);
        table
    }

    pub fn snapshot(&self) -> TableSnapshot {
        let entries = self.producers.iter().map(|(id, producer)| producer.entry(*id)).collect();
        TableSnapshot { entries }
    }

    /// Replaces the entries named in `delta`.
    pub fn merge(&mut self, delta: &TableSnapshot) {
        for entry in &delta.entries {
            let producer = Producer { epoch: entry.epoch, batches: entry.batches.clone() };
            self.producers.insert(entry.id, producer);
        }
    }

    pub fn remove(&mut self, id: ProducerId) {
        self.producers.remove(&id);
    }

    /// What `self` has that `older` lacks or has otherwise, and whom `older` has that `self` lost.
    pub fn delta_since(&self, older: &ProducerTable) -> (TableSnapshot, Vec<ProducerId>) {
        let changed = self.producers.iter().filter(|(id, producer)| older.producers.get(id) != Some(producer));
        let entries = changed.map(|(id, producer)| producer.entry(*id)).collect();
        let removed = older.producers.keys().filter(|id| !self.producers.contains_key(id)).copied().collect();
        (TableSnapshot { entries }, removed)
    }

    pub fn judge(&self, claim: &Claim) -> Verdict {
        let Some(producer) = self.producers.get(&claim.id) else {
            return Self::first(claim);
        };
        if claim.epoch < producer.epoch && traps::active(Trap::OldEpochWrites) {
            return Self::first(claim);
        }
        if claim.epoch < producer.epoch {
            return Verdict::Fenced { current: producer.epoch };
        }
        if claim.epoch > producer.epoch {
            return Self::first(claim);
        }
        let last = claim.last_sequence();
        let same = |batch: &&RememberedBatch| batch.base_sequence == claim.base_sequence && batch.last_sequence == last;
        if let Some(batch) = producer.batches.iter().find(same) {
            return Verdict::Duplicate { base_offset: batch.base_offset };
        }
        let expected = producer.batches.last().map_or(0, |batch| advance(batch.last_sequence, 1));
        if claim.base_sequence == expected { Verdict::New } else { Verdict::OutOfSequence { expected } }
    }

    /// A session, or a new epoch of one, begins at sequence 0.
    fn first(claim: &Claim) -> Verdict {
        if claim.base_sequence == 0 { Verdict::New } else { Verdict::OutOfSequence { expected: 0 } }
    }

    /// The log holds the batch at `base_offset`. Called for every batch in log order, on every replica.
    pub fn record(&mut self, claim: &Claim, base_offset: Offset) {
        let producer = self.producers.entry(claim.id).or_default();
        if producer.epoch != claim.epoch {
            *producer = Producer { epoch: claim.epoch, batches: Vec::new() };
        }
        if producer.batches.len() == REMEMBERED_BATCHES {
            producer.batches.remove(0);
        }
        producer.batches.push(RememberedBatch {
            base_sequence: claim.base_sequence,
            last_sequence: claim.last_sequence(),
            base_offset,
        });
        self.forget_oldest();
    }

    fn forget_oldest(&mut self) {
        while self.producers.len() > MAX_PRODUCERS {
            let age = |producer: &Producer| producer.batches.last().map(|batch| batch.base_offset);
            let oldest = self.producers.iter().min_by_key(|(id, producer)| (age(producer), **id)).map(|(id, _)| *id);
            let Some(oldest) = oldest else { return };
            self.producers.remove(&oldest);
        }
    }

    /// Same on every machine for the same table: FNV-1a over the entries in order.
    pub fn stable_hash(&self) -> u64 {
        let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
        for (id, producer) in &self.producers {
            id.0.hash(&mut hasher);
            producer.epoch.hash(&mut hasher);
            for batch in &producer.batches {
                batch.base_sequence.hash(&mut hasher);
                batch.last_sequence.hash(&mut hasher);
                batch.base_offset.0.hash(&mut hasher);
            }
        }
        hasher.finish()
    }

    pub fn len(&self) -> usize {
        self.producers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }
}

impl Producer {
    fn entry(&self, id: ProducerId) -> ProducerEntry {
        ProducerEntry { id, epoch: self.epoch, batches: self.batches.clone() }
    }
}

struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(epoch: i16, base_sequence: i32, records: u32) -> Claim {
        Claim { id: ProducerId(7), epoch, base_sequence, records }
    }

    #[test]
    fn a_retry_gets_its_first_offset() {
        let mut table = ProducerTable::default();
        assert_eq!(table.judge(&claim(0, 0, 3)), Verdict::New);
        table.record(&claim(0, 0, 3), Offset(40));
        assert_eq!(table.judge(&claim(0, 0, 3)), Verdict::Duplicate { base_offset: Offset(40) });
        assert_eq!(table.judge(&claim(0, 3, 1)), Verdict::New);
        assert_eq!(table.judge(&claim(0, 4, 1)), Verdict::OutOfSequence { expected: 3 });
    }

    #[test]
    fn a_new_epoch_fences_the_old_and_begins_at_0() {
        let mut table = ProducerTable::default();
        table.record(&claim(0, 0, 3), Offset(40));
        assert_eq!(table.judge(&claim(1, 3, 1)), Verdict::OutOfSequence { expected: 0 });
        table.record(&claim(1, 0, 1), Offset(43));
        assert_eq!(table.judge(&claim(0, 3, 1)), Verdict::Fenced { current: 1 });
    }

    #[test]
    fn sequences_wrap() {
        let mut table = ProducerTable::default();
        table.record(&claim(0, i32::MAX - 1, 2), Offset(1));
        assert_eq!(table.judge(&claim(0, 0, 1)), Verdict::New);
        assert_eq!(advance(i32::MAX, 1), 0);
    }

    #[test]
    fn forgets_by_log_content_and_stays_bounded() {
        let mut table = ProducerTable::default();
        for id in 0..=MAX_PRODUCERS as u64 {
            let claim = Claim { id: ProducerId(id), epoch: 0, base_sequence: 0, records: 1 };
            table.record(&claim, Offset(id));
        }
        assert_eq!(table.len(), MAX_PRODUCERS);
        let first = Claim { id: ProducerId(0), epoch: 0, base_sequence: 1, records: 1 };
        assert_eq!(table.judge(&first), Verdict::OutOfSequence { expected: 0 });
    }

    #[test]
    fn a_delta_brings_an_older_table_up_to_date() {
        let mut older = ProducerTable::default();
        older.record(&claim(0, 0, 1), Offset(1));
        let mut newer = older.clone();
        newer.record(&claim(0, 1, 1), Offset(2));
        let (delta, removed) = newer.delta_since(&older);
        older.merge(&delta);
        removed.into_iter().for_each(|id| older.remove(id));
        assert_eq!(older.stable_hash(), newer.stable_hash());
        assert_eq!(ProducerTable::from_snapshot(&newer.snapshot()), newer);
    }
}
