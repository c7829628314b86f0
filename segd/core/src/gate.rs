//! The gate of a successor M: shut until its prior N is decided. Keeps R4 (M commits nothing before N is decided).
//!
//! Opens on A of N's replicas holding N's own seal entry that names M at M's start, or on metad's committed word. The same
//! word, or metad's alone, can also close it for ever: N was decided otherwise.

use crate::traps::{self, Trap};
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::{NodeId, Offset, SegmentId};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum GateState {
    /// N is not decided as far as M's primary knows.
    Shut,
    /// N is decided, and M follows it.
    Open,
    /// N is decided, and M does not follow it. M will never commit anything.
    Elsewhere(Decision),
}

/// The gate between N and M.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Gate {
    me: SegmentId,
    voters: Vec<NodeId>,
    needed: usize,
    votes: BTreeMap<NodeId, SealEntry>,
    state: GateState,
}

impl Gate {
    /// A first segment has no prior: its gate stands open.
    pub fn root(me: SegmentId) -> Self {
        Gate { me, voters: Vec::new(), needed: 0, votes: BTreeMap::new(), state: GateState::Open }
    }

    /// `voters` are N's replicas, `needed` is N's ack quorum.
    pub fn after(me: SegmentId, voters: Vec<NodeId>, needed: u8) -> Self {
        Gate { me, voters, needed: usize::from(needed), votes: BTreeMap::new(), state: GateState::Shut }
    }

    pub fn state(&self) -> &GateState {
        &self.state
    }

    pub fn is_open(&self) -> bool {
        let ignored = traps::active(Trap::GateIgnored) && self.state == GateState::Shut;
        self.state == GateState::Open || ignored
    }

    /// `node` holds `seal`, N's own entry, durable, and was not fenced before it was.
    /// A vote for another successor says nothing for M; `start` is M's start, once bound.
    pub fn vote(&mut self, node: NodeId, seal: SealEntry, start: Option<Offset>) {
        if self.voters.contains(&node) && seal.next == self.me {
            self.votes.insert(node, seal);
        }
        self.count(start);
    }

    /// Counts again, after M's start was bound.
    pub fn count(&mut self, start: Option<Offset>) {
        let Some(start) = start else { return };
        let votes = self.votes.values().filter(|seal| seal.end == start).count();
        if self.state == GateState::Shut && votes >= self.needed {
            self.state = GateState::Open;
        }
    }

    /// metad's word after an accepted loss: it stands above what N's replicas said.
    pub fn overruled(&mut self, decision: Decision) {
        self.state = if decision.next == self.me { GateState::Open } else { GateState::Elsewhere(decision) };
    }

    /// metad's committed decision on N.
    pub fn decided(&mut self, decision: Decision) {
        let state = if decision.next == self.me { GateState::Open } else { GateState::Elsewhere(decision) };
        assert!(
            self.state == GateState::Shut || self.state == state,
            "R5: a decided next never changes: {:?} was {:?}, now {decision:?}",
            self.me,
            self.state
        );
        self.state = state;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: SegmentId = SegmentId(2);
    fn seal(end: u64, next: SegmentId) -> SealEntry {
        SealEntry { end: Offset(end), next, table_hash: 0 }
    }
    fn gate() -> Gate {
        Gate::after(M, vec![NodeId(1), NodeId(2), NodeId(3)], 2)
    }

    #[test]
    fn opens_on_a_matching_votes_only() {
        let mut gate = gate();
        gate.vote(NodeId(1), seal(5, M), Some(Offset(5)));
        gate.vote(NodeId(1), seal(5, M), Some(Offset(5)));
        gate.vote(NodeId(9), seal(5, M), Some(Offset(5)));
        gate.vote(NodeId(2), seal(5, SegmentId(7)), Some(Offset(5)));
        assert!(!gate.is_open(), "one replica twice, a stranger, and a vote for another");
        gate.vote(NodeId(3), seal(5, M), Some(Offset(5)));
        assert!(gate.is_open());
    }

    #[test]
    fn votes_before_begin_count_once_the_start_is_bound() {
        let mut gate = gate();
        gate.vote(NodeId(1), seal(5, M), None);
        gate.vote(NodeId(2), seal(5, M), None);
        assert!(!gate.is_open());
        gate.count(Some(Offset(5)));
        assert!(gate.is_open());
    }

    #[test]
    fn metad_may_decide_otherwise() {
        let mut gate = gate();
        gate.vote(NodeId(1), seal(5, M), Some(Offset(5)));
        let decision = Decision { end: Offset(4), next: SegmentId(9) };
        gate.decided(decision);
        gate.vote(NodeId(2), seal(5, M), Some(Offset(5)));
        assert_eq!(gate.state(), &GateState::Elsewhere(decision));
    }
}
