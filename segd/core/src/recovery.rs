//! One recovery of a segment: an agent, in one epoch, finds the end where its primary cannot.
//!
//! Fences R - A + 1 replicas, reads what they hold, fixes the end, copies records (never seal entries) until the end is
//! safe, and tells metad, whose committed word alone decides. Keeps R1 and R7; see roll traps V2, V6, L1.

use crate::traps::{self, Trap};
use seam_wire::meta::SegmentSpec;
use seam_wire::msg::{Decision, ReplicaTail};
use seam_wire::{Epoch, NodeId, Offset, SegmentId};
use std::collections::{BTreeMap, BTreeSet};

/// Rounds for which an agent waits on, before an accepted loss is carried out without those that say nothing.
const LOSS_ROUNDS: u8 = 8;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agent {
    segment: SegmentId,
    epoch: Epoch,
    /// The agent's own candidate, for an end without a seal entry.
    candidate: SegmentId,
    start: Offset,
    replicas: usize,
    ack_quorum: usize,
    quorum: usize,
    answers: BTreeMap<NodeId, ReplicaTail>,
    /// Replicas that said that they cannot answer.
    mute: BTreeSet<NodeId>,
    /// Those that said nothing yet are not waited for any more.
    given_up: bool,
    /// `None`: only a recovery quorum fixes the end. Else an operator accepted the loss of what nobody can tell of: those that
    /// answer will do, once the others were asked so many rounds more.
    loss_rounds: Option<u8>,
    /// What each replica holds by now, copies included.
    holds: BTreeMap<NodeId, Offset>,
    decision: Option<Decision>,
}

impl Agent {
    /// `start` is metad's: N is in the chain. `candidate` has `binder == Recovery(epoch)`.
    pub fn new(spec: &SegmentSpec, epoch: Epoch, candidate: SegmentId, start: Offset) -> Self {
        Agent {
            segment: spec.id,
            epoch,
            candidate,
            start,
            replicas: spec.replicas.len(),
            ack_quorum: usize::from(spec.ack_quorum),
            quorum: spec.recovery_quorum(),
            answers: BTreeMap::new(),
            mute: BTreeSet::new(),
            given_up: false,
            loss_rounds: None,
            holds: BTreeMap::new(),
            decision: None,
        }
    }

    /// An operator accepted the loss of what no replica that answers holds.
    pub fn accepting_loss(self) -> Self {
        Agent { loss_rounds: Some(LOSS_ROUNDS), ..self }
    }

    /// A replica promised this epoch durably, and holds `tail`. `Some` when the end became fixed by this answer.
    pub fn promised(&mut self, node: NodeId, tail: ReplicaTail) -> Option<Decision> {
        if let Some(bound) = tail.start {
            assert_eq!(bound, self.start, "R3: {:?} has one start, ever; {node} has another", self.segment);
        }
        let end = tail.durable_end.max(self.start);
        self.mute.remove(&node);
        self.answers.insert(node, tail);
        self.holds(node, end);
        self.fix()
    }

    /// Fixes the end, if it can be and is not yet.
    fn fix(&mut self) -> Option<Decision> {
        let all_said = self.answers.len() + self.mute.len() == self.replicas;
        let by_loss = self.loss_rounds.is_some() && (self.given_up || all_said);
        let quorum = if traps::active(Trap::EndFromOne) { 1 } else { self.quorum };
        if self.decision.is_some() || (self.answers.len() < quorum && !by_loss) {
            return None;
        }
        let seal = self.answers.values().find_map(|tail| tail.seal);
        let highest = self.answers.values().map(|tail| tail.durable_end).max().unwrap_or(self.start);
        let highest =
            if traps::active(Trap::P4InclusiveEnd) { Offset(highest.0.saturating_sub(1)).plus(1) } else { highest };
        self.decision = Some(match seal {
            Some(seal) => Decision { end: seal.end, next: seal.next },
            None => Decision { end: highest.max(self.start), next: self.candidate },
        });
        self.decision
    }

    /// A replica says that it cannot answer. `Some` when the end became fixed by this.
    pub fn cannot_answer(&mut self, node: NodeId) -> Option<Decision> {
        if !self.has_answered(node) {
            self.mute.insert(node);
        }
        self.fix()
    }

    /// A round was waited for replicas that say nothing: what can be reached must do. With an accepted loss, which cannot be
    /// mended, it takes some rounds more. `Some` when the end became fixed by this.
    pub fn give_up_on_silent(&mut self) -> Option<Decision> {
        match &mut self.loss_rounds {
            Some(left) if *left > 0 => *left -= 1,
            Some(_) | None => self.given_up = true,
        }
        self.fix()
    }

    /// The replicas that cannot answer, if they are too many for an end ever to be fixed.
    pub fn undecidable(&self) -> Option<Vec<NodeId>> {
        let hopeless = self.decision.is_none() && self.replicas - self.mute.len() < self.quorum;
        (hopeless && self.loss_rounds.is_none()).then(|| self.mute.iter().copied().collect())
    }

    /// Whether giving up makes a difference: only where fewer answers fix the end than copies make it safe.
    pub fn waits_for_silent(&self) -> bool {
        !self.given_up && self.ack_quorum > self.quorum && self.answers.len() + self.mute.len() < self.replicas
    }

    /// `node` holds everything below `end`.
    pub fn holds(&mut self, node: NodeId, end: Offset) {
        let held = self.holds.entry(node).or_insert(end);
        *held = (*held).max(end);
    }

    /// A replica to read from that holds more than `from`, the fullest first.
    pub fn source(&self, from: Offset) -> Option<NodeId> {
        self.holds
            .iter()
            .filter(|(_, end)| **end > from)
            .max_by_key(|(node, end)| (**end, **node))
            .map(|(node, _)| *node)
    }

    /// Replicas that answered and lack records below the end, with what they hold.
    pub fn behind(&self) -> Vec<(NodeId, Offset)> {
        let Some(decision) = self.decision else { return Vec::new() };
        self.holds.iter().filter(|(_, end)| **end < decision.end).map(|(node, end)| (*node, *end)).collect()
    }

    /// The end is safe to report: R - A + 1 replicas hold everything below it, and A where A can be reached (L1). Who said
    /// nothing counts as reachable until it is given up: where one answer fixes the end (A = R), what it alone holds would be
    /// a hole if that disk were lost too.
    pub fn safe(&self) -> Option<Decision> {
        let decision = self.decision?;
        let full = self.holds.values().filter(|end| **end >= decision.end).count();
        let reachable = if self.given_up { self.answers.len() } else { self.replicas - self.mute.len() };
        let wanted = if traps::active(Trap::L1RecoveryWaitsForAll) {
            self.ack_quorum
        } else {
            self.quorum.max(self.ack_quorum.min(reachable))
        };
        let wanted = if self.loss_rounds.is_some() { wanted.min(self.answers.len()) } else { wanted };
        (full >= wanted || traps::active(Trap::NoCopies)).then_some(decision)
    }

    pub fn has_answered(&self, node: NodeId) -> bool {
        self.answers.contains_key(&node)
    }

    /// Replicas that answered so far.
    pub fn promises(&self) -> usize {
        self.answers.len()
    }

    pub fn held_by(&self, node: NodeId) -> Option<Offset> {
        self.holds.get(&node).copied()
    }

    pub fn decision(&self) -> Option<Decision> {
        self.decision
    }

    pub fn segment(&self) -> SegmentId {
        self.segment
    }

    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    pub fn candidate(&self) -> SegmentId {
        self.candidate
    }

    pub fn start(&self) -> Offset {
        self.start
    }

    pub fn replicas(&self) -> usize {
        self.replicas
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam_wire::meta::Binder;
    use seam_wire::msg::SealEntry;
    use seam_wire::topic::TopicConfig;
    use seam_wire::{RangeId, TopicId};

    fn agent(replicas: u32, ack_quorum: u8) -> Agent {
        let spec = SegmentSpec {
            id: SegmentId(1),
            topic: TopicId(1),
            range: RangeId(1),
            prior: None,
            attempt: 1,
            replicas: (1..=replicas).map(NodeId).collect(),
            ack_quorum,
            binder: Binder::Root,
            config: TopicConfig::default(),
        };
        Agent::new(&spec, Epoch(1), SegmentId(9), Offset(5))
    }
    fn tail(end: u64, seal: Option<SealEntry>) -> ReplicaTail {
        ReplicaTail { start: Some(Offset(5)), durable_end: Offset(end), seal }
    }

    #[test]
    fn the_highest_durable_end_of_a_recovery_quorum() {
        let mut agent = agent(3, 2);
        assert_eq!(agent.promised(NodeId(2), tail(7, None)), None);
        let decision = agent.promised(NodeId(3), tail(9, None));
        assert_eq!(decision, Some(Decision { end: Offset(9), next: SegmentId(9) }));
        assert_eq!(agent.behind(), vec![(NodeId(2), Offset(7))]);
        assert_eq!(agent.safe(), None);
        agent.holds(NodeId(2), Offset(9));
        assert_eq!(agent.safe(), decision);
    }

    #[test]
    fn a_seal_entry_gives_end_and_next() {
        let mut agent = agent(3, 2);
        let seal = SealEntry { end: Offset(7), next: SegmentId(2), table_hash: 0 };
        agent.promised(NodeId(1), tail(6, None));
        let decision = agent.promised(NodeId(3), tail(7, Some(seal)));
        assert_eq!(decision, Some(Decision { end: Offset(7), next: SegmentId(2) }));
    }

    #[test]
    fn a_replica_that_never_learnt_its_start_counts_as_empty() {
        let mut agent = agent(3, 2);
        agent.promised(NodeId(1), ReplicaTail { start: None, durable_end: Offset(0), seal: None });
        let decision = agent.promised(NodeId(2), ReplicaTail { start: None, durable_end: Offset(0), seal: None });
        assert_eq!(decision.map(|d| d.end), Some(Offset(5)));
        assert_eq!(agent.safe(), decision);
    }

    #[test]
    fn an_end_that_nobody_can_tell_is_fixed_by_an_accepted_loss_only() {
        let mut alone = agent(3, 2);
        alone.cannot_answer(NodeId(1));
        assert_eq!(alone.undecidable(), None, "two may answer yet");
        alone.cannot_answer(NodeId(3));
        assert_eq!(alone.undecidable(), Some(vec![NodeId(1), NodeId(3)]));
        assert_eq!(alone.promised(NodeId(2), tail(8, None)), None);
        (0..100).for_each(|_| assert_eq!(alone.give_up_on_silent(), None, "one of three is no quorum"));

        let mut accepted = agent(3, 2).accepting_loss();
        accepted.cannot_answer(NodeId(1));
        assert_eq!(accepted.promised(NodeId(2), tail(8, None)), None, "the third may answer yet");
        let decision = accepted.cannot_answer(NodeId(3));
        assert_eq!(decision, Some(Decision { end: Offset(8), next: SegmentId(9) }));
        assert_eq!((accepted.safe(), accepted.undecidable()), (decision, None));
    }

    #[test]
    fn an_accepted_loss_waits_for_the_silent_and_then_goes_on_without_them() {
        let mut agent = agent(1, 1).accepting_loss();
        (0..LOSS_ROUNDS).for_each(|_| assert_eq!(agent.give_up_on_silent(), None));
        let decision = agent.give_up_on_silent();
        assert_eq!(decision, Some(Decision { end: Offset(5), next: SegmentId(9) }), "nothing of it is left");
        assert_eq!(agent.safe(), decision);
    }

    #[test]
    fn l1_all_ack_recovery_with_one_replica_left_ends() {
        let mut agent = agent(3, 3);
        let decision = agent.promised(NodeId(2), tail(8, None));
        assert!(decision.is_some());
        agent.give_up_on_silent();
        assert_eq!(agent.safe(), decision);
    }

    #[test]
    fn an_all_ack_end_is_not_safe_on_the_one_disk_that_fixed_it_while_others_may_answer() {
        let mut agent = agent(3, 3);
        let decision = agent.promised(NodeId(2), tail(8, None));
        assert_eq!(agent.safe(), None, "the record at 7 may be on this disk alone");
        agent.promised(NodeId(3), tail(7, None));
        agent.cannot_answer(NodeId(1));
        assert!(!agent.waits_for_silent());
        assert_eq!(agent.safe(), None, "it is not copied yet");
        agent.holds(NodeId(3), Offset(8));
        assert_eq!(agent.safe(), decision);
    }
}
