//! One replica of one segment: what it accepted, what is durable, whom it promised what.
//!
//! Not the bytes (they go through the journal), not the writer's view (`primary`). Knows nothing of time.
//! Keeps R3 (one start), R5 (a decision never changes), R8 (a fenced replica acks its old primary nothing).

use crate::fence::{Fence, Raise};
use crate::traps::{self, Trap};
use seam_wire::msg::{Decision, ReplicaTail, SealEntry};
use seam_wire::{Epoch, NodeId, Offset, SegmentId};
use std::collections::BTreeSet;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Replica {
    id: SegmentId,
    fence: Fence,
    /// The agent to be answered when the raised promise is durable.
    agent: Option<NodeId>,
    start: Option<Offset>,
    /// The start was handed to the journal.
    start_written: bool,
    /// The offset after the last record handed to the journal.
    written_end: Offset,
    /// The offset after the last record the journal has synced. Never above `written_end`.
    durable_end: Offset,
    /// The primary's own seal entry, handed to the journal.
    seal: Option<SealEntry>,
    seal_durable: bool,
    /// The seal entry was durable before any fence: this replica's word counts at the gate.
    seal_votes: bool,
    decision: Option<Decision>,
    /// Successors' primaries that want to hear of the seal entry.
    watchers: BTreeSet<(NodeId, SegmentId)>,
    /// False after a lost disk or an unclean stop without sync: it answers nobody, neither writer nor agent.
    tail_known: bool,
}

/// What a writer wants stored: records `[base, next)` of a segment that starts at `start`, and perhaps its seal entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct WriteRequest {
    pub epoch: Epoch,
    pub start: Offset,
    pub base: Offset,
    pub next: Offset,
    pub seal: Option<SealEntry>,
}

/// What to do with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// Hand records `[from, to)` and the seal entry to the journal, then call `persisted`. `binds_start`: write the start first.
    Write { binds_start: bool, from: Offset, to: Offset, seal: Option<SealEntry> },
    /// All of it is here. Answer what is durable.
    Known,
    /// Records are missing before it: ask for them.
    Resend { from: Offset },
    /// The writer's rights are over.
    Fenced { promised: Epoch },
    /// Not an answer to be had from this replica.
    Ignore,
}

/// A replica's word to its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored {
    pub durable_end: Offset,
    pub sealed: bool,
}

/// As found on disk at a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RestoredState {
    pub start: Option<Offset>,
    pub durable_end: Offset,
    pub seal: Option<SealEntry>,
    pub promised: Epoch,
    pub decision: Option<Decision>,
    pub tail_known: bool,
}

impl Replica {
    /// A new, empty replica; its header is durable.
    pub fn new(id: SegmentId) -> Self {
        Self::restored(
            id,
            RestoredState {
                start: None,
                durable_end: Offset(0),
                seal: None,
                promised: Epoch::PRIMARY,
                decision: None,
                tail_known: true,
            },
        )
    }

    pub fn restored(id: SegmentId, state: RestoredState) -> Self {
        let promised = if traps::active(Trap::PromiseForgotten) { Epoch::PRIMARY } else { state.promised };
        Replica {
            id,
            fence: Fence::restored(promised),
            agent: None,
            start: state.start,
            start_written: state.start.is_some(),
            written_end: state.durable_end,
            durable_end: state.durable_end,
            seal: state.seal,
            seal_durable: state.seal.is_some(),
            seal_votes: state.seal.is_some() && state.promised == Epoch::PRIMARY,
            decision: state.decision,
            watchers: BTreeSet::new(),
            tail_known: state.tail_known
                || traps::active(Trap::V7LostDiskVotes)
                || traps::active(Trap::CleanStopBelieved),
        }
    }

    pub fn accept(&mut self, write: WriteRequest) -> Accept {
        if !self.tail_known {
            return Accept::Ignore;
        }
        if write.epoch < self.fence.raised() {
            return Accept::Fenced { promised: self.fence.raised() };
        }
        if !self.fence.admits(write.epoch) {
            return Accept::Ignore; // An agent this replica has not promised yet: it asks first.
        }
        if self.decision.is_some_and(|decision| write.next > decision.end) {
            return Accept::Ignore;
        }
        let copies_count = traps::active(Trap::V2CopiesVote);
        let seal = write.seal.filter(|_| write.epoch == Epoch::PRIMARY || copies_count);
        self.bind_start(write.start);
        if write.base > self.written_end {
            return Accept::Resend { from: self.written_end };
        }
        let binds_start = !self.start_written;
        let seal = seal.filter(|seal| self.seal.is_none() && seal.end == write.next.max(self.written_end));
        let from = self.written_end;
        let to = write.next.max(from);
        if to == from && seal.is_none() && !binds_start {
            return Accept::Known;
        }
        assert!(self.seal.is_none() || to == from, "R5: {:?} takes records after its seal entry: {self:?}", self.id);
        self.start_written = true;
        self.written_end = to;
        self.seal = self.seal.or(seal);
        Accept::Write { binds_start, from, to, seal }
    }

    fn bind_start(&mut self, start: Offset) {
        if let Some(bound) = self.start {
            assert_eq!(bound, start, "R3: {:?} has one start, ever: {self:?}", self.id);
            return;
        }
        self.start = Some(start);
        self.written_end = start;
        self.durable_end = start;
    }

    /// The journal synced records below `to` (and the seal entry, if `seal`) written in `epoch`. `None`: tell the writer nothing.
    pub fn persisted(&mut self, epoch: Epoch, to: Offset, seal: bool) -> Option<Stored> {
        self.durable_end = self.durable_end.max(to);
        assert!(self.durable_end <= self.written_end, "R1: durable beyond written: {self:?}");
        if seal {
            self.seal_durable = true;
            self.seal_votes =
                self.fence.is_down() || traps::active(Trap::V2CopiesVote) || traps::active(Trap::V6FenceNotRechecked);
        }
        self.fence.admits_completion(epoch).then(|| self.stored())
    }

    /// What is durable here, for a writer this replica still admits.
    pub fn stored(&self) -> Stored {
        Stored { durable_end: self.durable_end, sealed: self.seal_durable }
    }

    /// An agent asks for a promise. On `Persist`, make it durable and call `promised`.
    pub fn fence(&mut self, epoch: Epoch, agent: NodeId) -> Option<Raise> {
        if !self.tail_known {
            return None; // "Cannot answer": never as if empty.
        }
        let raise = self.fence.raise(epoch);
        if !matches!(raise, Raise::Refused(_)) {
            self.agent = Some(agent);
        }
        Some(raise)
    }

    /// As [`Replica::fence`], where an operator accepted the loss of what nobody can tell of: what is here is all there is.
    pub fn fence_accepting_loss(&mut self, epoch: Epoch, agent: NodeId) -> Option<Raise> {
        self.tail_known = true;
        self.fence(epoch, agent)
    }

    /// The promise of `epoch` is durable, and so is every write handed to the journal before it. Whom to tell, and what.
    pub fn promised(&mut self, epoch: Epoch) -> Option<(NodeId, ReplicaTail)> {
        self.fence.persisted(epoch);
        let current = self.fence.promised() == epoch && self.fence.admits(epoch);
        let agent = self.agent.filter(|_| current)?;
        Some((agent, self.tail()))
    }

    /// What an agent learns from this replica. Only after a durable promise.
    pub fn tail(&self) -> ReplicaTail {
        let seal = self.seal.filter(|_| self.seal_durable);
        ReplicaTail { start: self.start, durable_end: self.durable_end, seal }
    }

    /// M's primary wants to hear of the seal entry. Answered now if it is held already.
    pub fn subscribe(&mut self, node: NodeId, watcher: SegmentId) -> Option<SealEntry> {
        self.watchers.insert((node, watcher));
        self.vote()
    }

    /// This replica's word at the gate, if it may give it.
    pub fn vote(&self) -> Option<SealEntry> {
        self.seal.filter(|_| self.seal_votes && self.seal_durable)
    }

    pub fn watchers(&self) -> impl Iterator<Item = (NodeId, SegmentId)> + '_ {
        self.watchers.iter().copied()
    }

    /// The segment's end and next are decided. True the first time.
    pub fn decide(&mut self, decision: Decision) -> bool {
        if let Some(known) = self.decision {
            assert_eq!(known, decision, "R5: a decided end, and its next, never change: {self:?}");
            return false;
        }
        self.decision = Some(decision);
        true
    }

    /// metad's word after an accepted loss stands above what this segment's own nodes had decided. True if it is news.
    pub fn overrule(&mut self, decision: Decision) -> bool {
        self.tail_known = true;
        self.decision.replace(decision) != Some(decision)
    }

    pub fn decision(&self) -> Option<Decision> {
        self.decision
    }

    /// `[start, end)` of the decided segment, if this replica holds all of it: then it may serve reads. One that never learnt
    /// its start holds nothing, whatever the end is.
    pub fn complete(&self) -> Option<(Offset, Offset)> {
        let decision = self.decision?;
        let start = self.start?;
        let holds_all = self.durable_end >= decision.end || traps::active(Trap::IncompleteServes);
        (holds_all && self.tail_known).then_some((start, decision.end))
    }

    /// metad's word on the bounds of the decided segment. One that is empty needs no record to be complete.
    pub fn decided_bounds(&mut self, start: Offset, end: Offset) {
        if self.start.is_none() && start == end {
            self.bind_start(start);
        }
    }

    /// The start, and with it the producer table there, was handed to the journal.
    pub fn start_written(&self) -> bool {
        self.start_written
    }

    pub fn id(&self) -> SegmentId {
        self.id
    }

    pub fn start(&self) -> Option<Offset> {
        self.start
    }

    pub fn durable_end(&self) -> Offset {
        self.durable_end
    }

    pub fn written_end(&self) -> Offset {
        self.written_end
    }

    pub fn epoch(&self) -> Epoch {
        self.fence.raised()
    }

    pub fn tail_known(&self) -> bool {
        self.tail_known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(epoch: u64, base: u64, next: u64) -> WriteRequest {
        WriteRequest { epoch: Epoch(epoch), start: Offset(10), base: Offset(base), next: Offset(next), seal: None }
    }
    fn sealed(at: u64) -> WriteRequest {
        let seal = SealEntry { end: Offset(at), next: SegmentId(2), table_hash: 0 };
        WriteRequest { seal: Some(seal), ..write(0, at, at) }
    }

    #[test]
    fn takes_records_in_order_and_asks_for_what_is_missing() {
        let mut replica = Replica::new(SegmentId(1));
        assert_eq!(replica.accept(write(0, 12, 13)), Accept::Resend { from: Offset(10) });
        let first = replica.accept(write(0, 10, 12));
        assert_eq!(first, Accept::Write { binds_start: true, from: Offset(10), to: Offset(12), seal: None });
        assert_eq!(replica.persisted(Epoch(0), Offset(12), false).map(|s| s.durable_end), Some(Offset(12)));
        assert_eq!(replica.accept(write(0, 10, 12)), Accept::Known);
        let overlap = replica.accept(write(0, 10, 14));
        assert_eq!(overlap, Accept::Write { binds_start: false, from: Offset(12), to: Offset(14), seal: None });
    }

    #[test]
    fn p3_a_write_that_completes_after_the_fence_is_not_acked_but_counts_in_the_answer() {
        let mut replica = Replica::new(SegmentId(1));
        replica.accept(write(0, 10, 12));
        assert_eq!(replica.fence(Epoch(1), NodeId(3)), Some(Raise::Persist));
        assert_eq!(replica.persisted(Epoch(0), Offset(12), false), None);
        let (agent, tail) = replica.promised(Epoch(1)).expect("answers");
        assert_eq!((agent, tail.durable_end), (NodeId(3), Offset(12)));
        assert_eq!(replica.accept(write(0, 12, 13)), Accept::Fenced { promised: Epoch(1) });
    }

    #[test]
    fn v2_a_copied_seal_entry_is_not_taken_and_never_votes() {
        let mut replica = Replica::new(SegmentId(1));
        replica.accept(write(0, 10, 11));
        replica.persisted(Epoch(0), Offset(11), false);
        replica.fence(Epoch(1), NodeId(3));
        replica.promised(Epoch(1));
        assert_eq!(replica.accept(WriteRequest { epoch: Epoch(1), ..sealed(11) }), Accept::Known);
        assert_eq!(replica.vote(), None);
    }

    #[test]
    fn a_seal_entry_durable_after_the_fence_does_not_vote() {
        let mut replica = Replica::new(SegmentId(1));
        replica.accept(write(0, 10, 11));
        replica.accept(sealed(11));
        replica.fence(Epoch(1), NodeId(3));
        assert_eq!(replica.persisted(Epoch(0), Offset(11), true), None);
        assert_eq!(replica.vote(), None);
        assert!(replica.promised(Epoch(1)).expect("answers").1.seal.is_some(), "but the agent sees it");
    }

    #[test]
    fn p4_an_empty_first_segment_seals_at_its_start() {
        let mut replica = Replica::new(SegmentId(1));
        let seal = SealEntry { end: Offset(0), next: SegmentId(2), table_hash: 0 };
        let request =
            WriteRequest { epoch: Epoch(0), start: Offset(0), base: Offset(0), next: Offset(0), seal: Some(seal) };
        assert!(matches!(replica.accept(request), Accept::Write { seal: Some(_), .. }));
        replica.persisted(Epoch(0), Offset(0), true);
        assert_eq!(replica.subscribe(NodeId(9), SegmentId(2)), Some(seal));
        assert!(replica.decide(Decision { end: Offset(0), next: SegmentId(2) }));
        assert_eq!(replica.complete(), Some((Offset(0), Offset(0))));
    }

    #[test]
    fn a_replica_that_never_learnt_its_start_serves_nothing_of_a_segment_that_has_records() {
        let mut replica = Replica::new(SegmentId(1));
        replica.decide(Decision { end: Offset(12), next: SegmentId(2) });
        assert_eq!(replica.complete(), None);
        replica.decided_bounds(Offset(10), Offset(12));
        assert_eq!(replica.complete(), None);
        let mut empty = Replica::new(SegmentId(1));
        empty.decide(Decision { end: Offset(12), next: SegmentId(2) });
        empty.decided_bounds(Offset(12), Offset(12));
        assert_eq!(empty.complete(), Some((Offset(12), Offset(12))));
    }

    #[test]
    fn an_accepted_loss_makes_an_unknown_tail_answer_and_overrules_what_was_decided_here() {
        let state = RestoredState {
            start: Some(Offset(10)),
            durable_end: Offset(12),
            seal: None,
            promised: Epoch(0),
            decision: None,
            tail_known: false,
        };
        let mut replica = Replica::restored(SegmentId(1), state);
        assert_eq!(replica.fence(Epoch(1), NodeId(3)), None);
        assert_eq!(replica.fence_accepting_loss(Epoch(1), NodeId(3)), Some(Raise::Persist));
        assert_eq!(replica.promised(Epoch(1)).expect("answers").1.durable_end, Offset(12));

        let mut zombie = Replica::restored(SegmentId(1), RestoredState { tail_known: true, ..state });
        assert!(zombie.decide(Decision { end: Offset(12), next: SegmentId(2) }));
        let by_loss = Decision { end: Offset(11), next: SegmentId(9) };
        assert!(zombie.overrule(by_loss) && !zombie.overrule(by_loss));
        assert_eq!(zombie.complete(), Some((Offset(10), Offset(11))));
    }

    #[test]
    fn v7_a_replica_that_lost_its_disk_answers_nobody() {
        let mut replica = Replica::restored(
            SegmentId(1),
            RestoredState {
                start: None,
                durable_end: Offset(0),
                seal: None,
                promised: Epoch(0),
                decision: None,
                tail_known: false,
            },
        );
        assert_eq!(replica.fence(Epoch(1), NodeId(3)), None);
        assert_eq!(replica.accept(write(0, 10, 11)), Accept::Ignore);
    }
}
