//! States that a campaign must have met to mean anything: the narrow moments of a roll, a recovery, a trim. Each is counted
//! where it happens in the world; nothing is decided here.

use super::World;
use super::event::Proc;
use super::links::index_of;
use super::plan::FaultMode;
use metad_core::{Command, Outcome, RollBy};
use seam_wire::meta::{Binder, MetaItem, NodeState, SegmentState, SegmentView};
use seam_wire::msg::Peer;
use seam_wire::topic::AckMode;
use seam_wire::{NodeId, Offset, SegmentId};
use segd_core::io::Counter;
use segd_core::primary::Phase;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

macro_rules! states {
    ($($name:ident $needs:ident $words:literal,)*) => {
        /// A state worth reaching.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        pub enum Sometimes { $($name),* }

        impl Sometimes {
            pub const ALL: &'static [Sometimes] = &[$(Sometimes::$name),*];

            /// As campaigns print it.
            pub fn words(self) -> &'static str {
                match self { $(Sometimes::$name => $words),* }
            }

            fn need(self) -> Need {
                match self { $(Sometimes::$name => Need::$needs),* }
            }
        }

        const STATES: usize = [$($words),*].len();
    };
}
/// In what campaigns a state must be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(non_camel_case_types, reason = "as the table below reads")]
enum Need {
    nothing,
    faults,
    /// In none: it is counted, and told.
    rare,
}

states! {
    SwitchLeaderless faults "a primary switches while metad has no leader",
    BegunAndReclaimed faults "a candidate is begun, and metad takes it back",
    ReleaseAsked faults "metad asks for a candidate's release",
    Released faults "a binder gives a candidate back",
    ReleaseLost faults "a candidate is chosen after metad asked for its release",
    ZombieRefused faults "a living primary's write is refused by a fence",
    ZombieResumes faults "a primary wakes up after its segment was sealed by others",
    ThreeBoundaries nothing "a consumer crosses three boundaries or more",
    EmptyPlanned nothing "a planned roll of a segment with no record",
    EmptyRecovered faults "a recovery of a segment with no record",
    TwoSoftMarks faults "a second soft mark for one segment",
    TailsDisagree faults "an end decided from tails that disagree",
    SealFound faults "a recovery finds the primary's seal entry",
    RouterBetween faults "a router dies between last(old) and first(new)",
    CandidateDies faults "the primary of a ready candidate dies before its use",
    PrimaryDiesSwitched faults "a primary dies between its switch and the decision",
    SuccessorDiesGated faults "a successor's primary dies behind its gate",
    SecondAgent faults "a second agent is appointed for one segment",
    DeposedProposes faults "a deposed leader of metad still proposes",
    WatchReset nothing "a watcher is so far behind that it gets everything",
    RecoveryDiskLost faults "a recovery with a replica's disk lost",
    JournalFails faults "a write or a sync of a journal fails",
    JournalRefuses faults "a journal refuses a damaged disk",
    UnvouchedCut rare "damage where no later write vouches for what lay there",
    TrimUnderReader nothing "a segment is deleted under a reader's stream",
    Missed nothing "retention overtakes a reader",
    Straggler nothing "a follower opens a segment that is already written",
    DuplicateAcross faults "a retry is answered from before the boundary",
    DrainedAway faults "a planned roll leaves a drained node",
    ReplicatedRecovery faults "a recovery under ack = replicated with a replica that does not know its end",
    AllAckRolls nothing "a roll where A = R",
    PowerLostBehindGate faults "all lose power while an end is undecided",
}

/// How often each state was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "BTreeMap<String, u64>", from = "BTreeMap<String, u64>")]
pub struct Reached([u64; STATES]);

impl Default for Reached {
    fn default() -> Self {
        Reached([0; STATES])
    }
}

impl Reached {
    pub fn hit(&mut self, state: Sometimes) {
        self.0[state as usize] += 1;
    }

    pub fn hit_if(&mut self, state: Sometimes, holds: bool) {
        self.0[state as usize] += u64::from(holds);
    }

    pub fn count(&self, state: Sometimes) -> u64 {
        self.0[state as usize]
    }

    pub fn add(&mut self, other: &Reached) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// 1 where a state was reached at all: for counting seeds.
    pub fn once(&self) -> Reached {
        Reached(self.0.map(|count| count.min(1)))
    }

    /// What a campaign of this mode should have reached, and did not.
    pub fn never(&self, mode: FaultMode) -> impl Iterator<Item = Sometimes> + '_ {
        let due = move |state: &Sometimes| match state.need() {
            Need::nothing => true,
            Need::faults => mode == FaultMode::All,
            Need::rare => false,
        };
        Sometimes::ALL.iter().copied().filter(due).filter(|state| self.count(*state) == 0)
    }
}

/// By its words, so that reports of campaigns can be read and added up.
impl From<Reached> for BTreeMap<String, u64> {
    fn from(reached: Reached) -> Self {
        Sometimes::ALL.iter().map(|state| (state.words().to_owned(), reached.count(*state))).collect()
    }
}

impl From<BTreeMap<String, u64>> for Reached {
    fn from(counts: BTreeMap<String, u64>) -> Self {
        Reached(std::array::from_fn(|index| counts.get(Sometimes::ALL[index].words()).copied().unwrap_or(0)))
    }
}

impl World {
    fn reached(&mut self, state: Sometimes, holds: bool) {
        self.stats.reached.hit_if(state, holds);
    }

    pub(super) fn see_counter(&mut self, counter: Counter) {
        match counter {
            Counter::Switched => {
                let leaderless = self.metad.leader.is_none();
                self.reached(Sometimes::SwitchLeaderless, leaderless);
            }
            Counter::SwitchedNotReady
            | Counter::AppendsWaited
            | Counter::Duplicates
            | Counter::OutOfSequence
            | Counter::ProducerFenced
            | Counter::WritesFenced
            | Counter::GateOpened
            | Counter::GateElsewhere
            | Counter::Resends
            | Counter::Overloaded
            | Counter::RecoveryStarted
            | Counter::RecoveryDone => {}
        }
    }

    /// A message between nodes arrives at `n`.
    pub(super) fn see_peer(&mut self, n: u8, segment: SegmentId, msg: &Peer) {
        let start =
            |world: &World| world.segds[usize::from(n)].node.as_ref().and_then(|node| node.primary(segment)?.start());
        match msg {
            Peer::Fenced { .. } => {
                let alive = start(self).is_some();
                self.reached(Sometimes::ZombieRefused, alive);
            }
            Peer::Opened => {
                let written = start(self).is_some();
                self.reached(Sometimes::Straggler, written);
            }
            Peer::Begin { binder: Binder::Primary, .. } => {
                let asked = self.metad.meta.segment(segment).is_some_and(|view| view.release_asked);
                self.reached(Sometimes::ReleaseLost, asked);
            }
            _ => {} // Nothing to see.
        }
    }

    /// Node `n` acks `offset` on a stream to `segment`.
    pub(super) fn see_ack(&mut self, n: u8, segment: SegmentId, offset: Offset) {
        let node = self.segds[usize::from(n)].node.as_ref();
        let start = node.and_then(|node| node.primary(segment)?.start());
        self.reached(Sometimes::DuplicateAcross, start.is_some_and(|start| offset < start));
    }

    /// metad's log took `command`.
    pub(super) fn see_commit(&mut self, command: &Command, outcome: &Outcome, items: &[MetaItem]) {
        for item in items {
            if let MetaItem::Segment(view) = item
                && view.state == SegmentState::Reclaiming
            {
                let begun = self.primary_of(view).is_some_and(|primary| primary.start().is_some());
                self.reached(Sometimes::BegunAndReclaimed, begun);
            }
        }
        match command {
            Command::CommitRoll { segment, by, next, recovery, end, .. } if *outcome == Outcome::Done => {
                let Some(view) = self.metad.meta.segment(*segment) else { return };
                let empty = matches!(view.state, SegmentState::Sealed { start, .. } if start == *end);
                let all_ack = view.spec.replicas.len() == usize::from(view.spec.ack_quorum) && view.spec.ack_quorum > 1;
                self.reached(Sometimes::AllAckRolls, all_ack);
                match by {
                    RollBy::Planned => {
                        self.reached(Sometimes::EmptyPlanned, empty);
                        let next = self.metad.meta.segment(*next).map(|view| view.spec.replicas).unwrap_or_default();
                        let left = |node: &NodeId| self.is_draining(*node) && !next.contains(node);
                        let away = view.spec.replicas.iter().any(left);
                        self.reached(Sometimes::DrainedAway, away);
                    }
                    RollBy::Recovery(_) => {
                        let copied = recovery.as_ref().is_some_and(|recovery| recovery.stats.copied_records > 0);
                        let candidate = self.metad.meta.segment(*next);
                        let sealed = candidate.is_some_and(|view| view.spec.binder == Binder::Primary);
                        let lost =
                            |node: &NodeId| self.segds[usize::from(index_of(*node))].lost_through >= Some(*segment);
                        let disk_lost = view.spec.replicas.iter().any(lost);
                        self.reached(Sometimes::EmptyRecovered, empty);
                        self.reached(Sometimes::TailsDisagree, copied);
                        self.reached(Sometimes::SealFound, sealed);
                        let replicated = view.spec.config.ack == AckMode::Replicated;
                        self.reached(Sometimes::RecoveryDiskLost, disk_lost && !replicated);
                        self.reached(Sometimes::ReplicatedRecovery, disk_lost && replicated);
                    }
                }
            }
            Command::Recover { expected_epoch, .. } if matches!(outcome, Outcome::Appointed { .. }) => {
                self.reached(Sometimes::SecondAgent, expected_epoch.0 > 0);
            }
            Command::AskRelease { .. } => self.reached(Sometimes::ReleaseAsked, *outcome == Outcome::Done),
            Command::Released { .. } => self.reached(Sometimes::Released, *outcome == Outcome::Done),
            _ => {}
        }
    }

    fn is_draining(&self, node: NodeId) -> bool {
        self.metad.meta.node(node).is_some_and(|view| view.state == NodeState::Draining)
    }

    fn primary_of(&self, view: &SegmentView) -> Option<&segd_core::primary::Primary> {
        self.segds[usize::from(index_of(view.spec.primary()))].node.as_ref()?.primary(view.spec.id)
    }

    /// Undecided segments that node `n` is the primary of.
    fn own_segments(&self, n: u8) -> Vec<SegmentView> {
        let node = NodeId(u32::from(n) + 1);
        let views = self.metad.meta.segments();
        let undecided = |state: &SegmentState| {
            matches!(state, SegmentState::Planned | SegmentState::Ready { .. } | SegmentState::Open { .. })
        };
        views.filter(|view| view.spec.primary() == node && undecided(&view.state)).collect()
    }

    /// Just before it ends.
    pub(super) fn see_segd_crash(&mut self, n: u8) {
        for view in self.own_segments(n) {
            let Some(primary) = self.primary_of(&view) else { continue };
            let (phase, shut) = (primary.phase(), !primary.gate().is_open());
            let begun = primary.start().is_some();
            self.reached(Sometimes::PrimaryDiesSwitched, matches!(phase, Phase::Switched(_)));
            self.reached(Sometimes::SuccessorDiesGated, begun && shut);
            self.reached(
                Sometimes::CandidateDies,
                !begun && view.spec.prior.is_some() && matches!(view.state, SegmentState::Ready { .. }),
            );
        }
    }

    /// All segd nodes are about to lose power.
    pub(super) fn see_power_loss(&mut self) {
        let mut undecided = false;
        for n in 0..self.plan.sizes.segds {
            undecided |= self.own_segments(n).iter().any(|view| {
                self.primary_of(view).is_some_and(|primary| {
                    matches!(primary.phase(), Phase::Switched(_))
                        || primary.start().is_some() && !primary.gate().is_open()
                })
            });
        }
        self.reached(Sometimes::PowerLostBehindGate, undecided);
    }

    pub(super) fn see_resume(&mut self, who: Proc) {
        let Proc::Segd(n) = who else { return };
        let me = NodeId(u32::from(n) + 1);
        let own = self.metad.meta.segments().filter(|view| view.spec.primary() == me);
        let sealed = own.filter(|view| matches!(view.state, SegmentState::Sealed { .. }));
        let open = |view: &SegmentView| self.primary_of(view).is_some_and(|primary| primary.phase() == Phase::Open);
        let overtaken = sealed.filter(open).count() > 0;
        self.reached(Sometimes::ZombieResumes, overtaken);
    }

    /// Just before it ends: has one of its readers got all of a segment, and nothing of the next that is begun?
    pub(super) fn see_router_crash(&mut self, n: u8) {
        let between = self.consumers.iter().any(|consumer| {
            let at = consumer.next_offset().filter(|at| *at > Offset(0));
            consumer.is_at(n) && at.is_some_and(|at| self.begins_at(consumer.range_index, at))
        });
        self.reached(Sometimes::RouterBetween, between);
    }

    fn begins_at(&self, range_index: u32, at: Offset) -> bool {
        let of_range = |id: SegmentId| {
            let range = self.metad.meta.segment(id).and_then(|view| self.metad.meta.range(view.spec.range));
            range.is_some_and(|range| range.index == range_index)
        };
        self.oracle.starting_at(at).any(of_range)
    }

    /// The readers that followed the log, before they are replaced by those that read it once more.
    pub(super) fn see_readers(&mut self) {
        let Some(topic) = self.metad.meta.topic_named(super::client::TOPIC) else { return };
        for n in 0..self.consumers.len() {
            let consumer = &self.consumers[n];
            let (Some(first), Some(next)) = (consumer.first, consumer.next_offset()) else { continue };
            let Some(range) = topic.ranges.get(consumer.range_index as usize) else { continue };
            let rolls = self.metad.meta.history(*range, 0);
            let crossed = rolls.filter(|roll| first < roll.end && roll.end < next).count() as u64;
            self.stats.boundaries_crossed += crossed;
            self.reached(Sometimes::ThreeBoundaries, crossed >= 3);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_reached_is_named() {
        let mut reached = Reached::default();
        let required = Sometimes::ALL.iter().filter(|state| state.need() != Need::rare);
        assert_eq!(reached.never(FaultMode::All).count(), required.count());
        for state in Sometimes::ALL.iter().filter(|state| state.need() == Need::nothing) {
            reached.hit(*state);
        }
        assert_eq!(reached.never(FaultMode::None).count(), 0);
        assert!(reached.never(FaultMode::All).all(|state| state.need() == Need::faults));
        let mut twice = reached;
        twice.add(&reached);
        assert_eq!(twice.count(Sometimes::Missed), 2);
        assert_eq!(twice.once(), reached);
    }
}
