//! Who holds how much of a segment, and what is therefore committed. Keeps R1: nothing counts before A replicas hold it.

use crate::traps::{self, Trap};
use seam_wire::{NodeId, Offset};
use std::collections::{BTreeMap, BTreeSet};

/// Durable ends and seal entries held, by replica.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Quorum {
    needed: usize,
    held: BTreeMap<NodeId, Offset>,
    sealed: BTreeSet<NodeId>,
}

impl Quorum {
    /// `needed` is A, the ack quorum.
    pub fn new(needed: u8) -> Self {
        Quorum { needed: usize::from(needed), held: BTreeMap::new(), sealed: BTreeSet::new() }
    }

    /// `node` holds everything below `durable_end`. Never goes back: late answers are ignored.
    pub fn holds(&mut self, node: NodeId, durable_end: Offset) {
        let entry = self.held.entry(node).or_insert(durable_end);
        *entry = (*entry).max(durable_end);
    }

    /// `node` holds the seal entry too.
    pub fn holds_seal(&mut self, node: NodeId) {
        self.sealed.insert(node);
    }

    /// The offset below which A replicas hold everything; `None` while fewer than A have answered.
    pub fn committed(&self) -> Option<Offset> {
        let mut ends: Vec<Offset> = self.held.values().copied().collect();
        ends.sort_unstable_by(|a, b| b.cmp(a));
        let short = usize::from(traps::active(Trap::ShortQuorum) && self.needed > 1);
        ends.get(self.needed - 1 - short).copied()
    }

    /// A replicas hold the seal entry.
    pub fn sealed(&self) -> bool {
        self.sealed.len() >= self.needed
    }

    pub fn seal_held_by(&self, node: NodeId) -> bool {
        self.sealed.contains(&node)
    }

    /// What `node` is known to hold; `None` before its first answer.
    pub fn held_by(&self, node: NodeId) -> Option<Offset> {
        self.held.get(&node).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn committed_is_the_ath_highest_end() {
        let mut quorum = Quorum::new(2);
        quorum.holds(NodeId(1), Offset(9));
        assert_eq!(quorum.committed(), None);
        quorum.holds(NodeId(2), Offset(4));
        assert_eq!(quorum.committed(), Some(Offset(4)));
        quorum.holds(NodeId(3), Offset(7));
        assert_eq!(quorum.committed(), Some(Offset(7)));
    }

    #[test]
    fn a_late_answer_takes_nothing_back() {
        let mut quorum = Quorum::new(1);
        quorum.holds(NodeId(1), Offset(9));
        quorum.holds(NodeId(1), Offset(3));
        assert_eq!(quorum.committed(), Some(Offset(9)));
    }

    #[test]
    fn one_replica_sealing_twice_is_one() {
        let mut quorum = Quorum::new(2);
        quorum.holds_seal(NodeId(1));
        quorum.holds_seal(NodeId(1));
        assert!(!quorum.sealed());
        quorum.holds_seal(NodeId(2));
        assert!(quorum.sealed());
    }
}
