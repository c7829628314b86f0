//! Commands that make candidates and see them ready: for a range's beginning, for the primary of a segment, for a recovery.
//!
//! Each candidate has one binder, fixed here (R13).

use super::records::Segment;
use super::{Changes, Meta};
use crate::command::{Outcome, Refusal};
use crate::history::OpeningStats;
use seam_wire::meta::{Binder, NodeState, Recovery, SegmentState};
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, TraceContext};

impl Meta {
    pub(super) fn prepare_root(
        &mut self,
        range: RangeId,
        attempt: u32,
        replicas: &[NodeId],
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let record = self.ranges.get(&range).ok_or(Refusal::UnknownRange(range))?;
        let config = self.live_config(range)?;
        if let Some(segment) = self.same_attempt(&record.roots, attempt, replicas, Binder::Root) {
            return Ok(Outcome::Prepared { segment });
        }
        if let Some(head) = record.head {
            return Err(Refusal::RangeOpen { range, head });
        }
        next_attempt(record.root_attempts, attempt)?;
        self.check_replicas(replicas, config, config.open_quorum())?;
        // metad itself is the binder of a first segment (it opens only by `MarkReady`), so it needs nobody's release.
        let waiting: Vec<SegmentId> = record.roots.iter().copied().filter(|s| self.known(*s).is_candidate()).collect();
        let surplus = (waiting.len() + 1).saturating_sub(self.limits.candidates as usize);
        self.reclaim_trees(waiting[..surplus].to_vec(), ch);
        let segment = self.make_candidate(range, None, replicas, Binder::Root, ch);
        Ok(Outcome::Prepared { segment })
    }

    pub(super) fn prepare(
        &mut self,
        prior: SegmentId,
        attempt: u32,
        replicas: &[NodeId],
        trace: Option<TraceContext>,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let before = self.seg(prior)?;
        let config = self.live_config(before.range)?;
        if let Some(segment) = self.same_attempt(&before.candidates, attempt, replicas, Binder::Primary) {
            return Ok(Outcome::Prepared { segment });
        }
        match before.state {
            SegmentState::Ready { .. } | SegmentState::Open { .. } => {}
            SegmentState::Sealed { end, next, .. } => {
                return Err(Refusal::Decided { segment: prior, end, next });
            }
            SegmentState::Planned
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => {
                return Err(wrong_state(prior, before));
            }
        }
        next_attempt(before.attempts, attempt)?;
        let of_primary = |s: &&SegmentId| self.known(**s).binder == Binder::Primary;
        let unreclaimed = before.candidates.iter().filter(of_primary).count();
        let waiting = before.candidates.iter().filter(of_primary).filter(|s| self.known(**s).is_candidate()).count();
        for (count, limit) in [(waiting, self.limits.candidates), (unreclaimed, self.limits.unreclaimed)] {
            if count >= limit as usize {
                return Err(Refusal::TooManyCandidates { prior, limit });
            }
        }
        self.check_replicas(replicas, config, config.open_quorum())?;
        let range = before.range;
        let segment = self.make_candidate(range, Some(prior), replicas, Binder::Primary, ch);
        self.trace_roll(prior, trace, ch);
        Ok(Outcome::Prepared { segment })
    }

    /// Appoints an agent. The candidate of the epoch before is taken back at once: only that epoch could begin it, and
    /// from now on nothing of that epoch can choose it, since `CommitRoll` finds it reclaimed.
    pub(super) fn recover(
        &mut self,
        id: SegmentId,
        (agent, agent_incarnation): (NodeId, Incarnation),
        expected_epoch: Epoch,
        (replicas, trace, loss_accepted): (&[NodeId], Option<TraceContext>, bool),
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let segment = self.seg(id)?;
        let config = self.live_config(segment.range)?;
        if let Some(r) = &segment.recovery {
            let is_repeat = expected_epoch.0.checked_add(1) == Some(r.epoch.0)
                && (r.agent, r.agent_incarnation, r.loss_accepted) == (agent, agent_incarnation, loss_accepted)
                && self.segments.get(&r.candidate).is_some_and(|c| c.replicas == replicas);
            if is_repeat {
                return Ok(Outcome::Appointed { epoch: r.epoch, candidate: r.candidate });
            }
        }
        let start = match segment.state {
            SegmentState::Open { start } => start,
            SegmentState::Sealed { end, next, .. } => return Err(Refusal::Decided { segment: id, end, next }),
            SegmentState::Planned | SegmentState::Ready { .. } => return Err(Refusal::NotInChain { segment: id }),
            SegmentState::Trimmed { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed => {
                return Err(wrong_state(id, segment));
            }
        };
        if segment.epoch() != expected_epoch {
            return Err(Refusal::WrongEpoch { segment: id, current: segment.epoch(), given: expected_epoch });
        }
        if segment.recovery.as_ref().is_some_and(|r| r.loss_accepted) && !loss_accepted {
            return Err(Refusal::LossAccepted { segment: id });
        }
        if !loss_accepted && !segment.replicas.contains(&agent) {
            return Err(Refusal::NotAReplica { segment: id, agent });
        }
        self.check_life(agent, agent_incarnation)?;
        self.check_replicas(replicas, config, config.open_quorum())?;
        let epoch = Epoch(expected_epoch.0 + 1);
        let range = segment.range;
        let superseded: Vec<SegmentId> = segment.recovery.iter().map(|r| r.candidate).collect();
        self.reclaim_trees(superseded, ch);
        let binder = if loss_accepted { Binder::Loss(epoch) } else { Binder::Recovery(epoch) };
        let candidate = self.make_candidate(range, Some(id), replicas, binder, ch);
        let recovery = Recovery { epoch, agent, agent_incarnation, candidate, start, loss_accepted };
        let segment = self.known_mut(id);
        segment.recovery = Some(Box::new(recovery));
        segment.trace = trace;
        ch.segments.insert(id);
        Ok(Outcome::Appointed { epoch, candidate })
    }

    pub(super) fn mark_ready(
        &mut self,
        id: SegmentId,
        open_on: &[NodeId],
        incarnation: Incarnation,
        opening: OpeningStats,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let segment = self.seg(id)?;
        if matches!(segment.state, SegmentState::Reclaiming | SegmentState::Reclaimed) {
            return Err(wrong_state(id, segment));
        }
        // The right to write ends with the process that reported `Ready` (V4).
        if let Some(current) = segment.primary_incarnation.filter(|i| *i != incarnation) {
            return Err(Refusal::StaleIncarnation { node: segment.primary(), current, given: incarnation });
        }
        let known_open: &[NodeId] = match &segment.state {
            SegmentState::Ready { open_on } => open_on,
            SegmentState::Planned => &[],
            SegmentState::Open { .. }
            | SegmentState::Sealed { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => return Ok(Outcome::Done),
        };
        let union: Vec<NodeId> =
            segment.replicas.iter().copied().filter(|n| open_on.contains(n) || known_open.contains(n)).collect();
        if segment.is_ready() && union == known_open {
            return Ok(Outcome::Done);
        }
        self.check_life(segment.primary(), incarnation)?;
        if !open_on.contains(&segment.primary()) || union.len() < segment.open_quorum() {
            let why = format!("open on {open_on:?}, but {} with its primary are needed", segment.open_quorum());
            return Err(Refusal::BadReplicas(why));
        }
        let (range, binder) = (segment.range, segment.binder);
        let was_planned = segment.state == SegmentState::Planned;
        let segment = self.known_mut(id);
        segment.primary_incarnation = Some(incarnation);
        if was_planned {
            segment.phases.opening = opening;
        }
        segment.state = SegmentState::Ready { open_on: union };
        ch.segments.insert(id);
        if binder == Binder::Root {
            self.choose(id, Offset(0), ch);
            let others = self.ranges.get(&range).expect("a segment has its range").roots.clone();
            self.reclaim_trees(others, ch);
        }
        Ok(Outcome::Done)
    }

    /// The first trace of a roll is the trace of that roll, whatever is tried later.
    pub(super) fn trace_roll(&mut self, prior: SegmentId, trace: Option<TraceContext>, ch: &mut Changes) {
        let segment = self.known_mut(prior);
        if segment.trace.is_none() && trace.is_some() {
            segment.trace = trace;
            ch.segments.insert(prior);
        }
    }

    /// The settings of a range's topic, unless it is deleted.
    pub(super) fn live_config(&self, range: RangeId) -> Result<&TopicConfig, Refusal> {
        let record = self.ranges.get(&range).ok_or(Refusal::UnknownRange(range))?;
        let topic = self.topics.get(&record.topic).ok_or(Refusal::UnknownTopic(record.topic))?;
        if topic.deleted { Err(Refusal::TopicDeleted { topic: record.topic }) } else { Ok(topic.config()) }
    }

    fn same_attempt(
        &self,
        among: &[SegmentId],
        attempt: u32,
        replicas: &[NodeId],
        binder: Binder,
    ) -> Option<SegmentId> {
        let same = |s: &Segment| s.attempt == attempt && s.replicas == replicas && s.binder == binder;
        among.iter().copied().find(|id| same(self.known(*id)))
    }

    /// The node lives, in this very life.
    pub(super) fn check_life(&self, id: NodeId, incarnation: Incarnation) -> Result<(), Refusal> {
        let node = self.nodes.get(&id).ok_or(Refusal::UnknownNode(id))?;
        if node.view.incarnation != incarnation {
            let current = node.view.incarnation;
            return Err(Refusal::StaleIncarnation { node: id, current, given: incarnation });
        }
        match node.view.state {
            NodeState::Live | NodeState::Draining => Ok(()),
            NodeState::Dead => Err(Refusal::NodeDead { node: id }),
        }
    }
}

fn next_attempt(last: u32, given: u32) -> Result<(), Refusal> {
    if given == last + 1 { Ok(()) } else { Err(Refusal::WrongAttempt { expected: last + 1, given }) }
}

pub(super) fn wrong_state(id: SegmentId, segment: &Segment) -> Refusal {
    Refusal::WrongState { segment: id, state: segment.state_name().to_owned() }
}
