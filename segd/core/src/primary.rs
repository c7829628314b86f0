//! A segment's primary: the only writer it ever has, in the life of one process.
//!
//! From opening to the decided end. Not the streams and timers around it (`node`), not which successor is taken (`handoff`).
//! Keeps R2 (dense offsets), R3 (one start), R13 (begun by its binder only), R15 (no switch behind a closed gate).

use crate::gate::{Gate, GateState};
use crate::quorum::Quorum;
use crate::traps::{self, Trap};
use seam_wire::meta::{Binder, SegmentSpec};
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::{NodeId, Offset, SegmentId};
use std::collections::BTreeSet;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Fewer replicas have it open than it may be chosen with.
    Opening,
    /// Open on enough, empty; its start is not bound. Holds what comes.
    Ready,
    /// Begun: writes and replicates. Commits only while the gate is open.
    Open,
    /// Chose its end: assigns no more. The seal entry is under way.
    Switched(SealEntry),
    /// A replicas hold the seal entry: decided.
    Decided(SealEntry),
    /// Fenced, decided otherwise, or reclaimed: writes and acks nothing, ever.
    Over,
}

/// Why a `Begin` is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginRefused {
    /// R13: only its binder may begin a candidate.
    NotItsBinder,
    /// Not open on A replicas yet, or over.
    NotReady,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Primary {
    id: SegmentId,
    me: NodeId,
    prior: Option<SegmentId>,
    binder: Binder,
    needed: usize,
    /// Copies that a recovery's decision stands for: R - A + 1.
    recovered: usize,
    /// Replicas it must be open on: `SegmentSpec::open_quorum`.
    to_open: usize,
    opened: BTreeSet<NodeId>,
    phase: Phase,
    start: Option<Offset>,
    /// The offset the next record gets.
    assigned: Offset,
    quorum: Quorum,
    gate: Gate,
}

impl Primary {
    /// `gate` is `Gate::root` for the first segment of a range, `Gate::after` its prior otherwise.
    pub fn new(spec: &SegmentSpec, gate: Gate) -> Self {
        Primary {
            id: spec.id,
            me: spec.primary(),
            prior: spec.prior,
            binder: spec.binder,
            needed: usize::from(spec.ack_quorum),
            recovered: spec.recovery_quorum(),
            to_open: spec.open_quorum(),
            opened: BTreeSet::new(),
            phase: Phase::Opening,
            start: None,
            assigned: Offset(0),
            quorum: Quorum::new(spec.ack_quorum),
            gate,
        }
    }

    /// Trap V4 alone: a restarted primary that goes on where its own disk ends.
    #[cfg(feature = "traps")]
    pub fn resumed(spec: &SegmentSpec, gate: Gate, start: Offset, durable_end: Offset) -> Self {
        let mut primary = Primary::new(spec, gate);
        primary.phase = Phase::Open;
        primary.start = Some(start);
        primary.assigned = durable_end;
        primary.opened = spec.replicas.iter().copied().collect();
        primary
    }

    /// `node` has the segment open. True when it is news worth reporting (Ready, or open on more).
    pub fn opened(&mut self, node: NodeId) -> bool {
        let news = self.opened.insert(node);
        let quorum = self.opened.contains(&self.me) && self.opened.len() >= self.to_open;
        if self.phase == Phase::Opening && quorum {
            self.phase = Phase::Ready;
        }
        news && quorum
    }

    /// Binds the start, once, by the binder. `Ok(true)`: it was bound now; `Ok(false)`: it was, at the same offset.
    pub fn begin(&mut self, prior: Option<SegmentId>, by: Binder, start: Offset) -> Result<bool, BeginRefused> {
        let rightful = prior == self.prior && by == self.binder;
        if !rightful && !traps::active(Trap::V1AnyBinder) {
            return Err(BeginRefused::NotItsBinder);
        }
        match self.phase {
            Phase::Opening | Phase::Over => Err(BeginRefused::NotReady),
            Phase::Ready => {
                self.start = Some(start);
                self.assigned = start;
                self.phase = Phase::Open;
                self.gate.count(self.start);
                Ok(true)
            }
            Phase::Open | Phase::Switched(_) | Phase::Decided(_) => {
                assert_eq!(self.start, Some(start), "R3: {:?} has one start, ever", self.id);
                Ok(false)
            }
        }
    }

    /// Gives `records` their offsets: `[base, base + records)`.
    pub fn assign(&mut self, records: u64) -> Offset {
        assert!(self.phase == Phase::Open, "R2: only an open segment assigns offsets: {self:?}");
        let base = self.assigned;
        self.assigned = base.plus(records);
        base
    }

    /// A replica's word: everything below `durable_end` is durable there, the seal entry too if `sealed`.
    pub fn stored(&mut self, node: NodeId, durable_end: Offset, sealed: bool) {
        self.quorum.holds(node, durable_end);
        if sealed {
            self.quorum.holds_seal(node);
        }
        if let Phase::Switched(seal) = self.phase
            && self.quorum.sealed()
        {
            self.phase = Phase::Decided(seal);
        }
    }

    /// The offset below which records are committed: acked, shown, answered to retries. `None` before the start is bound.
    pub fn committed(&self) -> Option<Offset> {
        let start = self.start?;
        if !self.gate.is_open() {
            return Some(start); // R4: nothing is committed before the prior is decided.
        }
        let held = self.quorum.committed().unwrap_or(start);
        Some(held.max(start).min(self.assigned))
    }

    /// R15: a primary does not switch while its own gate is closed.
    pub fn may_switch(&self) -> bool {
        self.phase == Phase::Open && (self.gate.is_open() || traps::active(Trap::V3SwitchBehindClosedGate))
    }

    /// Chooses the end: the offset after the last one assigned. Nothing is assigned in this segment after this.
    pub fn switch(&mut self, next: SegmentId, table_hash: u64) -> SealEntry {
        assert!(self.may_switch(), "R15: no switch behind a closed gate: {self:?}");
        let seal = SealEntry { end: self.assigned, next, table_hash };
        self.phase = Phase::Switched(seal);
        seal
    }

    /// A replica of the prior holds its seal entry.
    pub fn vote(&mut self, node: NodeId, seal: SealEntry) {
        self.gate.vote(node, seal, self.start);
        self.check_gate();
    }

    /// metad's committed decision on the prior.
    pub fn prior_decided(&mut self, decision: Decision) {
        if self.start.is_some_and(|start| decision.next == self.id && start != decision.end) {
            panic!(
                "R3: {:?} begun at {:?}, but its prior is decided to end at {:?}",
                self.id, self.start, decision.end
            );
        }
        self.gate.decided(decision);
        self.check_gate();
    }

    /// As [`Primary::prior_decided`], by an accepted loss: what this segment was begun with may be overruled.
    pub fn prior_lost(&mut self, decision: Decision) {
        self.gate.overruled(decision);
        self.check_gate();
    }

    fn check_gate(&mut self) {
        match self.gate.state() {
            GateState::Shut | GateState::Open => {}
            GateState::Elsewhere(_) => self.phase = Phase::Over,
        }
    }

    /// metad decided this segment by another's word: its rights are over. What it assigned below the returned offset is in
    /// the log on A replicas and may be acked.
    ///
    /// One writer ever, so what it assigned below the end is what the log holds there. But a recovery stands for R - A + 1
    /// copies, and where that is less than A (A = R) only what A replicas told this primary themselves is safe to ack (R1).
    pub fn settle(&mut self, decision: Decision) -> Offset {
        self.phase = Phase::Over;
        let known = self.quorum.committed().unwrap_or_default();
        let safe = if self.recovered >= self.needed { decision.end } else { decision.end.min(known) };
        safe.min(self.assigned)
    }

    /// As [`Primary::settle`], by an accepted loss: it stands for no number of copies.
    pub fn settle_lost(&mut self, decision: Decision) -> Offset {
        self.phase = Phase::Over;
        let known = self.quorum.committed().unwrap_or_default();
        decision.end.min(known).min(self.assigned)
    }

    /// Its rights are over: fenced, recovered by another, or reclaimed.
    pub fn end(&mut self) {
        self.phase = Phase::Over;
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    pub fn gate(&self) -> &Gate {
        &self.gate
    }

    pub fn quorum(&self) -> &Quorum {
        &self.quorum
    }

    pub fn id(&self) -> SegmentId {
        self.id
    }

    pub fn start(&self) -> Option<Offset> {
        self.start
    }

    /// The offset after the last one assigned.
    pub fn assigned(&self) -> Offset {
        self.assigned
    }

    pub fn open_on(&self) -> impl ExactSizeIterator<Item = NodeId> + '_ {
        self.opened.iter().copied()
    }

    /// What the primary itself may tell its followers and tails: the decided end.
    pub fn decision(&self) -> Option<Decision> {
        match self.phase {
            Phase::Decided(seal) => Some(Decision { end: seal.end, next: seal.next }),
            Phase::Switched(seal) if traps::active(Trap::P8EndShownEarly) => {
                Some(Decision { end: seal.end, next: seal.next })
            }
            Phase::Opening | Phase::Ready | Phase::Open | Phase::Switched(_) | Phase::Over => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use seam_wire::topic::TopicConfig;
    use seam_wire::{Epoch, RangeId, TopicId};

    fn spec(binder: Binder) -> SegmentSpec {
        SegmentSpec {
            id: SegmentId(2),
            topic: TopicId(1),
            range: RangeId(1),
            prior: Some(SegmentId(1)),
            attempt: 1,
            replicas: vec![NodeId(1), NodeId(2), NodeId(3)],
            ack_quorum: 2,
            binder,
            config: TopicConfig::default(),
        }
    }
    fn ready() -> Primary {
        let spec = spec(Binder::Primary);
        let gate = Gate::after(spec.id, vec![NodeId(4), NodeId(5), NodeId(6)], 2);
        let mut primary = Primary::new(&spec, gate);
        primary.opened(NodeId(1));
        primary.opened(NodeId(3));
        primary
    }

    #[test]
    fn v1_only_its_binder_begins_it() {
        let mut primary = ready();
        let prior = Some(SegmentId(1));
        assert_eq!(primary.begin(prior, Binder::Recovery(Epoch(1)), Offset(3)), Err(BeginRefused::NotItsBinder));
        assert_eq!(primary.begin(Some(SegmentId(9)), Binder::Primary, Offset(3)), Err(BeginRefused::NotItsBinder));
        assert_eq!(primary.begin(prior, Binder::Primary, Offset(3)), Ok(true));
        assert_eq!(primary.begin(prior, Binder::Primary, Offset(3)), Ok(false));
    }

    #[test]
    fn a_segment_of_two_of_four_is_not_ready_before_a_recovery_could_hear_enough() {
        let spec = SegmentSpec { replicas: (1..=4).map(NodeId).collect(), ..spec(Binder::Primary) };
        let mut primary = Primary::new(&spec, Gate::root(spec.id));
        assert!(!primary.opened(NodeId(1)) && !primary.opened(NodeId(2)), "A is two, but R - A + 1 is three");
        assert_eq!(primary.phase(), Phase::Opening);
        assert!(primary.opened(NodeId(4)));
        assert_eq!(primary.phase(), Phase::Ready);
    }

    #[test]
    fn commits_nothing_behind_its_gate_and_does_not_switch() {
        let mut primary = ready();
        primary.begin(Some(SegmentId(1)), Binder::Primary, Offset(3)).expect("its binder");
        assert_eq!(primary.assign(2), Offset(3));
        primary.stored(NodeId(1), Offset(5), false);
        primary.stored(NodeId(2), Offset(5), false);
        assert_eq!(primary.committed(), Some(Offset(3)));
        assert!(!primary.may_switch());
        let seal = SealEntry { end: Offset(3), next: SegmentId(2), table_hash: 0 };
        primary.vote(NodeId(4), seal);
        primary.vote(NodeId(5), seal);
        assert_eq!(primary.committed(), Some(Offset(5)));
        assert!(primary.may_switch());
    }

    #[test]
    fn decides_when_a_replicas_hold_the_seal_entry() {
        let mut primary = ready();
        primary.begin(Some(SegmentId(1)), Binder::Primary, Offset(3)).expect("its binder");
        primary.prior_decided(Decision { end: Offset(3), next: SegmentId(2) });
        let seal = primary.switch(SegmentId(7), 0);
        assert_eq!(seal.end, Offset(3), "an empty segment is legal");
        primary.stored(NodeId(1), Offset(3), true);
        assert_eq!(primary.decision(), None);
        primary.stored(NodeId(2), Offset(3), true);
        assert_eq!(primary.decision(), Some(Decision { end: Offset(3), next: SegmentId(7) }));
    }

    #[test]
    fn a_recovery_under_all_ack_acks_only_what_all_hold() {
        let all_ack = SegmentSpec { ack_quorum: 3, ..spec(Binder::Primary) };
        let mut primary = Primary::new(&all_ack, Gate::root(all_ack.id));
        (1..=3).map(NodeId).for_each(|node| {
            primary.opened(node);
        });
        primary.begin(Some(SegmentId(1)), Binder::Primary, Offset(3)).expect("its binder");
        primary.assign(2);
        primary.stored(NodeId(1), Offset(5), false);
        primary.stored(NodeId(2), Offset(5), false);
        primary.stored(NodeId(3), Offset(4), false);
        let by_recovery = Decision { end: Offset(5), next: SegmentId(8) };
        assert_eq!(primary.settle(by_recovery), Offset(4), "one copy of the last record may be all there is");
        assert_eq!(primary.phase(), Phase::Over);
    }

    #[test]
    fn a_recovery_of_two_of_three_stands_for_enough_copies() {
        let mut primary = ready();
        primary.begin(Some(SegmentId(1)), Binder::Primary, Offset(3)).expect("its binder");
        primary.assign(2);
        assert_eq!(primary.settle(Decision { end: Offset(4), next: SegmentId(8) }), Offset(4));
    }

    #[test]
    fn an_accepted_loss_overrules_an_open_gate_and_acks_only_what_a_hold() {
        let mut primary = ready();
        primary.begin(Some(SegmentId(1)), Binder::Primary, Offset(3)).expect("its binder");
        primary.prior_decided(Decision { end: Offset(3), next: SegmentId(2) });
        primary.assign(2);
        primary.stored(NodeId(1), Offset(5), false);
        let by_loss = Decision { end: Offset(4), next: SegmentId(8) };
        assert_eq!(primary.settle_lost(by_loss), Offset::default(), "one copy is no quorum");
        primary.prior_lost(Decision { end: Offset(2), next: SegmentId(9) });
        assert_eq!(primary.phase(), Phase::Over);
    }

    #[test]
    fn ends_when_its_prior_goes_elsewhere() {
        let mut primary = ready();
        primary.prior_decided(Decision { end: Offset(3), next: SegmentId(8) });
        assert_eq!(primary.phase(), Phase::Over);
        assert_eq!(primary.begin(Some(SegmentId(1)), Binder::Primary, Offset(3)), Err(BeginRefused::NotReady));
    }
}
