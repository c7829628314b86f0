//! A node's disk, at the level of journal entries: group commit, completion in order, and at a crash a prefix of what was not
//! synced. What was said to be durable is never lost. In some seeds the entries lie in a real journal (`sectors`), and what
//! survives is what that finds on torn sectors.

use super::sectors::{Failed, Found as Reopened, Sectors, Stop};
use bytes::{Bytes, BytesMut};
use seam_wire::batch::{self, BatchHeader};
use seam_wire::meta::SegmentSpec;
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::table::TableSnapshot;
use seam_wire::topic::AckMode;
use seam_wire::{Epoch, Offset, SegmentId};
use segd_core::io::{Durability, Token, Write};
use segd_core::node::{RestoredReplica, claim};
use segd_core::replica::RestoredState;
use segd_core::table::ProducerTable;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Piece {
    Header(Box<SegmentSpec>),
    Start { start: Offset, table: TableSnapshot },
    Batch { base: Offset, next: Offset, bytes: Bytes },
    Seal(SealEntry),
    Promise(Epoch),
    Decided(Decision),
    Reclaimed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    segment: SegmentId,
    piece: Piece,
    /// The last piece of a `Persist` completes it.
    #[serde(skip)]
    token: Option<u64>,
    #[serde(skip)]
    needs_sync: bool,
}

impl Entry {
    #[cfg(test)]
    pub fn promise(epoch: u64) -> Entry {
        let piece = Piece::Promise(Epoch(epoch));
        Entry { segment: SegmentId(1), piece, token: None, needs_sync: true }
    }

    /// Says the same. Tokens are of one life.
    pub fn is_same(&self, other: &Entry) -> bool {
        self.segment == other.segment && self.piece == other.piece
    }
}

/// What of a segment's records is here.
#[derive(Clone, Debug, Default)]
pub struct Held {
    batches: Vec<(Offset, Offset, Bytes)>,
    synced_end: Offset,
}

#[derive(Default)]
pub struct Disk {
    entries: Vec<Entry>,
    synced: usize,
    syncing: bool,
    /// Entries whose completion was told.
    told: usize,
    held: BTreeMap<SegmentId, Held>,
    /// The disk's mark: the first segment that an earlier disk cannot have held.
    pub founded: Option<SegmentId>,
    pub sectors: Option<Box<Sectors>>,
}

impl Disk {
    pub fn new(sectors: Option<Box<Sectors>>) -> Self {
        Disk { sectors, ..Disk::default() }
    }

    /// Takes the writes of one `Persist`. True if a sync is to be started now.
    pub fn write(&mut self, token: Token, segment: SegmentId, writes: Vec<Write>, durability: Durability) -> bool {
        let needs_sync = durability == Durability::Synced;
        for write in writes {
            let piece = match write {
                Write::Header { spec } => Piece::Header(Box::new(spec)),
                Write::Start { start, table } => Piece::Start { start, table },
                Write::Records { payload, .. } => {
                    for batch in batch::split(payload) {
                        let bytes = batch.expect("R2: the node checked these batches");
                        let header = BatchHeader::parse(&bytes).expect("R2: split parsed this header");
                        let (base, next) = (header.base_offset, header.next_offset());
                        self.held.entry(segment).or_default().batches.push((base, next, bytes.clone()));
                        let piece = Piece::Batch { base, next, bytes };
                        self.entries.push(Entry { segment, piece, token: None, needs_sync });
                    }
                    continue;
                }
                Write::Seal(seal) => Piece::Seal(seal),
                Write::Promise(epoch) => Piece::Promise(epoch),
                Write::Decided(decision) => Piece::Decided(decision),
            };
            self.entries.push(Entry { segment, piece, token: None, needs_sync });
        }
        self.entries.last_mut().expect("a persist writes something").token = Some(token.0);
        self.start_sync()
    }

    pub fn forget(&mut self, segment: SegmentId) -> bool {
        self.held.remove(&segment);
        self.entries.push(Entry { segment, piece: Piece::Reclaimed, token: None, needs_sync: false });
        self.start_sync()
    }

    fn start_sync(&mut self) -> bool {
        let starts = !self.syncing && self.synced < self.entries.len();
        self.syncing |= starts;
        starts
    }

    /// What waits is written. How many entries a sync that starts now covers.
    pub fn begin_sync(&mut self) -> Result<usize, Failed> {
        if let Some(sectors) = &mut self.sectors {
            sectors.write(&self.entries)?;
        }
        Ok(self.entries.len())
    }

    /// The sync that covered `entries` is done. True if the next one is to be started now.
    pub fn sync_done(&mut self, entries: usize) -> Result<bool, Failed> {
        if let Some(sectors) = &mut self.sectors {
            sectors.sync(entries)?;
        }
        for entry in &self.entries[self.synced..entries] {
            if let (Piece::Batch { next, .. }, Some(held)) = (&entry.piece, self.held.get_mut(&entry.segment)) {
                held.synced_end = held.synced_end.max(*next);
            }
        }
        self.synced = entries;
        self.syncing = false;
        Ok(self.start_sync())
    }

    /// The newest token all of whose writes, and all before them, are as durable as was asked; told once.
    pub fn completed(&mut self) -> Option<Token> {
        let mut newest = None;
        while let Some(entry) = self.entries.get(self.told) {
            if self.told >= self.synced && entry.needs_sync {
                break;
            }
            newest = entry.token.map(Token).or(newest);
            self.told += 1;
        }
        newest
    }

    /// Whole batches from the one that holds `from`, below `end`, up to `max_bytes` (at least one).
    pub fn read(
        &self,
        segment: SegmentId,
        from: Offset,
        end: Option<Offset>,
        max_bytes: usize,
    ) -> (Offset, Offset, Bytes) {
        let Some(held) = self.held.get(&segment) else { return (from, from, Bytes::new()) };
        let first = held.batches.partition_point(|(_, next, _)| *next <= from);
        let mut payload = BytesMut::new();
        let mut bounds = None;
        for (base, next, bytes) in &held.batches[first..] {
            let fits = payload.is_empty() || payload.len() + bytes.len() <= max_bytes;
            if !fits || end.is_some_and(|end| *next > end) || (bounds.is_none() && *base > from) {
                break;
            }
            payload.extend_from_slice(bytes);
            bounds = Some((bounds.map_or(*base, |(first, _)| first), *next));
        }
        let (base, next) = bounds.unwrap_or((from, from));
        (base, next, payload.freeze())
    }

    /// Everything of `segment` below this is synced here.
    pub fn synced_end(&self, segment: SegmentId) -> Offset {
        self.held.get(&segment).map_or(Offset(0), |held| held.synced_end)
    }

    /// Everything of `segment` below this was handed to the journal here.
    pub fn written_end(&self, segment: SegmentId) -> Offset {
        let last = self.held.get(&segment).and_then(|held| held.batches.last());
        last.map_or(Offset(0), |(_, next, _)| *next)
    }

    /// The highest epoch promised of `segment` that a power cut leaves here.
    pub fn promised(&self, segment: SegmentId) -> Epoch {
        let of_segment = self.entries[..self.synced].iter().filter(|entry| entry.segment == segment);
        of_segment.fold(Epoch::PRIMARY, |known, entry| match &entry.piece {
            Piece::Promise(epoch) => known.max(*epoch),
            Piece::Reclaimed => Epoch::PRIMARY,
            Piece::Header(_) | Piece::Start { .. } | Piece::Batch { .. } | Piece::Seal(_) | Piece::Decided(_) => known,
        })
    }

    /// Whether a batch that holds `offset` was written here.
    pub fn holds(&self, segment: SegmentId, offset: Offset) -> bool {
        let Some(held) = self.held.get(&segment) else { return false };
        let first = held.batches.partition_point(|(_, next, _)| *next <= offset);
        held.batches.get(first).is_some_and(|(base, _, _)| *base <= offset)
    }

    /// (base, batch) of every batch of `segment`.
    pub fn batches(&self, segment: SegmentId) -> impl Iterator<Item = (Offset, &Bytes)> {
        let held = self.held.get(&segment).map(|held| held.batches.as_slice()).unwrap_or_default();
        held.iter().map(|(base, _, bytes)| (*base, bytes))
    }

    /// Segments that a new process would find here.
    pub fn segments(&self) -> BTreeSet<SegmentId> {
        let mut found = BTreeSet::new();
        for entry in &self.entries {
            match &entry.piece {
                Piece::Reclaimed => found.remove(&entry.segment),
                Piece::Header(_)
                | Piece::Start { .. }
                | Piece::Batch { .. }
                | Piece::Seal(_)
                | Piece::Promise(_)
                | Piece::Decided(_) => found.insert(entry.segment),
            };
        }
        found
    }

    pub fn unsynced(&self) -> usize {
        self.entries.len() - self.synced
    }

    /// The process ends: of what was not synced the first `kept` entries survive, or what the journal finds of them. `Some`:
    /// the disk is of no use any more; true: the journal said so.
    pub fn crash(&mut self, stop: Stop, kept: usize) -> Option<bool> {
        match &mut self.sectors {
            None => self.entries.truncate(self.synced + kept),
            Some(sectors) => match sectors.reopen(stop, std::mem::take(&mut self.entries), self.synced) {
                Reopened::Entries(entries) => self.entries = entries,
                Reopened::Unusable { refused } => return Some(refused),
            },
        }
        self.rebuild();
        None
    }

    fn rebuild(&mut self) {
        self.synced = self.entries.len();
        self.told = self.entries.len();
        self.syncing = false;
        self.held.clear();
        for entry in &self.entries {
            match &entry.piece {
                Piece::Reclaimed => {
                    self.held.remove(&entry.segment);
                }
                Piece::Batch { base, next, bytes } => {
                    let held = self.held.entry(entry.segment).or_default();
                    held.batches.push((*base, *next, bytes.clone()));
                    held.synced_end = *next;
                }
                Piece::Header(_) | Piece::Start { .. } | Piece::Seal(_) | Piece::Promise(_) | Piece::Decided(_) => {}
            }
        }
    }

    /// What a new process finds.
    pub fn restore(&self) -> Vec<RestoredReplica> {
        let mut found: BTreeMap<SegmentId, Found> = BTreeMap::new();
        for entry in &self.entries {
            match &entry.piece {
                Piece::Reclaimed => {
                    found.remove(&entry.segment);
                }
                piece => found.entry(entry.segment).or_default().take(piece),
            }
        }
        found.into_values().filter_map(Found::replica).collect()
    }
}

#[derive(Default)]
struct Found {
    spec: Option<SegmentSpec>,
    start: Option<(Offset, TableSnapshot)>,
    end: Offset,
    table: ProducerTable,
    seal: Option<SealEntry>,
    promised: Epoch,
    decision: Option<Decision>,
    bytes: u64,
}

impl Found {
    fn take(&mut self, piece: &Piece) {
        match piece {
            Piece::Header(spec) => self.spec = Some((**spec).clone()),
            Piece::Start { start, table } => {
                self.table = ProducerTable::from_snapshot(table);
                self.end = *start;
                self.start = Some((*start, table.clone()));
            }
            Piece::Batch { base, next, bytes } => {
                assert_eq!(*base, self.end, "R2: a hole on disk");
                let header = BatchHeader::parse(bytes).expect("R2: it was written from a parsed header");
                if let Some(claim) = claim(&header) {
                    self.table.record(&claim, *base);
                }
                self.end = *next;
                self.bytes += bytes.len() as u64;
            }
            Piece::Seal(seal) => self.seal = Some(*seal),
            Piece::Promise(epoch) => self.promised = self.promised.max(*epoch),
            Piece::Decided(decision) => self.decision = Some(*decision),
            Piece::Reclaimed => unreachable!("handled by the caller"),
        }
    }

    fn replica(self) -> Option<RestoredReplica> {
        let spec = self.spec?;
        // Without a sync before the ack, the end found after an unclean stop is not the end that was acked.
        let tail_known = spec.config.ack == AckMode::Durable || self.decision.is_some();
        let state = RestoredState {
            start: self.start.as_ref().map(|(start, _)| *start),
            durable_end: self.end,
            seal: self.seal,
            promised: self.promised,
            decision: self.decision,
            tail_known,
        };
        let start_table = self.start.map(|(_, table)| table).unwrap_or_default();
        Some(RestoredReplica { spec, state, start_table, table: self.table, bytes: self.bytes })
    }
}
