//! A replica of N on its node: the real `Replica`, its records by name, the journal queue before the disk, and the disk.
//!
//! Writes reach the disk in the order they were handed over; a crash keeps any first part of what was not known to be
//! there. With `unordered`, a promise may overtake data: the protocol must not need more order than it says.

use super::layout::{N, START};
use super::message::Records;
use seam_wire::msg::{Decision, ReplicaTail, SealEntry};
use seam_wire::{Epoch, NodeId, Offset};
use segd_core::fence::Raise;
use segd_core::replica::{Accept, Replica, RestoredState, Stored, WriteRequest};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Entry {
    Records { epoch: Epoch, binds_start: bool, to: Offset, seal: Option<SealEntry> },
    Promise { epoch: Epoch },
    Decided { decision: Decision },
}

/// What a journal entry's completion leads to.
pub enum Done {
    Stored {
        epoch: Epoch,
        stored: Option<Stored>,
        /// A seal entry of the primary became durable before any fence.
        lawful_vote: Option<SealEntry>,
        /// The replica says it holds the seal entry.
        vote: Option<SealEntry>,
    },
    Promised(Option<(Epoch, ReplicaTail)>),
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    pub machine: Replica,
    /// Everything handed to the journal, `START` on.
    log: Records,
    pub journal: Vec<Entry>,
    disk: RestoredState,
    pub lost: bool,
    watchers: Vec<(NodeId, seam_wire::SegmentId)>,
}

fn empty_disk() -> RestoredState {
    RestoredState {
        start: None,
        durable_end: Offset(0),
        seal: None,
        promised: Epoch::PRIMARY,
        decision: None,
        tail_known: true,
    }
}

impl Site {
    pub fn new(watchers: Vec<(NodeId, seam_wire::SegmentId)>) -> Self {
        let mut machine = Replica::new(N);
        for (node, segment) in &watchers {
            machine.subscribe(*node, *segment);
        }
        Site { machine, log: Records::default(), journal: Vec::new(), disk: empty_disk(), lost: false, watchers }
    }

    /// A write arrives. `Some`: answer at once.
    pub fn write(&mut self, request: WriteRequest, records: Records) -> Option<Stored> {
        match self.machine.accept(request) {
            Accept::Write { binds_start, from, to, seal } => {
                let first = request.base.until(from);
                records.slice(first, records.len()).names().iter().for_each(|name| self.log.push(*name));
                assert_eq!(START.plus(self.log.len()), to, "R2: the records of a write make up its offsets");
                self.journal.push(Entry::Records { epoch: request.epoch, binds_start, to, seal });
                None
            }
            Accept::Known => Some(self.machine.stored()),
            // What is missing is in the network already; the writer of a lower epoch is told nothing it needs here.
            Accept::Resend { .. } | Accept::Fenced { .. } | Accept::Ignore => None,
        }
    }

    /// An agent asks for a promise. `Some`: answer at once.
    pub fn fence(&mut self, epoch: Epoch, agent: NodeId) -> Option<ReplicaTail> {
        match self.machine.fence(epoch, agent)? {
            Raise::Persist => {
                self.journal.push(Entry::Promise { epoch });
                None
            }
            Raise::Answer => Some(self.machine.tail()),
            Raise::Wait | Raise::Refused(_) => None,
        }
    }

    pub fn decide(&mut self, decision: Decision) {
        if self.machine.decide(decision) {
            self.journal.push(Entry::Decided { decision });
        }
    }

    /// The `nth` entry of the queue is on disk, and this process hears of it.
    pub fn synced(&mut self, nth: usize) -> Done {
        let entry = self.journal.remove(nth);
        self.write_out(entry);
        match entry {
            Entry::Records { epoch, to, seal, .. } => {
                let stored = self.machine.persisted(epoch, to, seal.is_some());
                let own = epoch == Epoch::PRIMARY && self.machine.epoch() == Epoch::PRIMARY;
                let vote = seal.and_then(|_| self.machine.vote());
                Done::Stored { epoch, stored, lawful_vote: seal.filter(|_| own), vote }
            }
            Entry::Promise { epoch } => Done::Promised(self.machine.promised(epoch).map(|(_, tail)| (epoch, tail))),
            Entry::Decided { .. } => Done::Nothing,
        }
    }

    fn write_out(&mut self, entry: Entry) {
        match entry {
            Entry::Records { binds_start, to, seal, .. } => {
                if binds_start {
                    self.disk.start = Some(START);
                }
                self.disk.durable_end = self.disk.durable_end.max(to);
                self.disk.seal = self.disk.seal.or(seal);
            }
            Entry::Promise { epoch } => self.disk.promised = self.disk.promised.max(epoch),
            Entry::Decided { decision } => self.disk.decision = Some(decision),
        }
    }

    /// The process ends and another begins; the first `kept` entries of the queue had reached the disk.
    /// What this replica says at once to those who ask it again for the seal entry.
    pub fn restart(&mut self, kept: usize) -> Option<SealEntry> {
        let queue = std::mem::take(&mut self.journal);
        queue.into_iter().take(kept).for_each(|entry| self.write_out(entry));
        self.log = self.log.slice(0, START.until(self.disk.durable_end));
        self.restore()
    }

    /// The disk is lost: the replica starts with an unknown tail.
    pub fn lose_disk(&mut self) -> Option<SealEntry> {
        self.journal.clear();
        self.log = Records::default();
        self.disk = RestoredState { tail_known: false, ..empty_disk() };
        self.lost = true;
        self.restore()
    }

    fn restore(&mut self) -> Option<SealEntry> {
        self.machine = Replica::restored(N, self.disk);
        let mut vote = None;
        for (node, segment) in &self.watchers {
            vote = self.machine.subscribe(*node, *segment).or(vote);
        }
        vote
    }

    /// P's own seal entry, on disk before any promise.
    pub fn lawful_vote_on_disk(&self) -> Option<SealEntry> {
        self.disk.seal.filter(|_| self.disk.promised == Epoch::PRIMARY)
    }

    /// The record at `offset` on disk.
    pub fn record(&self, offset: Offset) -> Option<u8> {
        if offset < START || offset >= self.disk.durable_end {
            return None;
        }
        self.log.names().get(START.until(offset) as usize).copied()
    }

    /// Records on disk in `[from, to)`.
    pub fn durable(&self, from: Offset, to: Offset) -> Records {
        self.log.slice(START.until(from), START.until(to.min(self.disk.durable_end)))
    }

    pub fn durable_end(&self) -> Offset {
        self.disk.durable_end.max(START)
    }

    /// The seal entry on disk.
    pub fn seal_on_disk(&self) -> Option<SealEntry> {
        self.disk.seal
    }
}
