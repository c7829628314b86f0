//! What an observer outside knows: what was acked, what was said to be decided, which rules were seen broken.
//!
//! Nothing in the model reads it but the properties.

use seam_wire::msg::{Decision, SealEntry};
use seam_wire::{Epoch, NodeId, Offset, SegmentId};
use std::collections::BTreeSet;

/// Rules that are broken by a step, not by a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Rule {
    /// A record was acked while too few disks held it.
    AckedUnheld,
    /// A successor committed before its prior was decided so.
    R4,
    R8,
    R13,
    R14,
    R15,
    /// An assertion in the machines failed.
    Assertion,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ghost {
    /// (segment, offset, record): acked to a producer, so visible to readers.
    pub acked: BTreeSet<(SegmentId, Offset, u8)>,
    /// (segment, decision), as believed by anyone: an open gate, a primary, a replica, metad.
    pub decided: BTreeSet<(SegmentId, Decision)>,
    /// Ends shown to tails, and what metad recorded in the end.
    pub shown: BTreeSet<(SegmentId, Decision)>,
    /// Starts bound by primaries.
    pub starts: BTreeSet<(SegmentId, Offset)>,
    /// (segment, replica, seal): the primary's own entry, durable there before any fence.
    pub votes: BTreeSet<(SegmentId, NodeId, SealEntry)>,
    /// (epoch, decision): the end an agent fixed.
    pub fixed: BTreeSet<(Epoch, Decision)>,
    broken: u8,
    /// Rules named by assertions of the machines that failed, by bit.
    asserted: u16,
}

impl Ghost {
    pub fn breaks(&mut self, rule: Rule) {
        self.broken |= 1 << rule as u8;
    }

    pub fn is_broken(&self, rule: Rule) -> bool {
        self.broken & (1 << rule as u8) != 0
    }

    /// An assertion failed; its words name the rule, as `R5: ...`.
    pub fn assertion_failed(&mut self, words: &str) {
        self.breaks(Rule::Assertion);
        let names_it = |rule: &u16| words.contains(&format!("R{rule}: "));
        (1..=15).filter(names_it).for_each(|rule| self.asserted |= 1 << rule);
    }

    pub fn asserted(&self, rule: u16) -> bool {
        self.asserted & (1 << rule) != 0
    }

    /// Replicas that lawfully voted for `decision`.
    pub fn voters(&self, segment: SegmentId, decision: Decision) -> usize {
        let fits = |(of, _, seal): &&(SegmentId, NodeId, SealEntry)| {
            *of == segment && seal.end == decision.end && seal.next == decision.next
        };
        let nodes: BTreeSet<NodeId> = self.votes.iter().filter(fits).map(|(_, node, _)| *node).collect();
        nodes.len()
    }
}
