//! What a range should have: an open first segment, a healthy primary, a successor where one is wanted.
//!
//! Compares the committed state with that and proposes the one step that is missing. Looking twice does no harm.

use super::Driver;
use super::io::Effect;
use super::pending::Subject;
use crate::command::Command;
use crate::history::OpeningStats;
use crate::state::Meta;
use crate::state::records::Segment;
use crate::tick::Tick;
use seam_wire::meta::{Binder, RollReason};
use seam_wire::topic::TopicConfig;
use seam_wire::{NodeId, RangeId, SegmentId, TraceContext};

/// A successor that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    /// A candidate of this attempt or a later one is wanted.
    pub attempt: u32,
    /// When that was first heard.
    pub since: Tick,
    pub trace: Option<TraceContext>,
}

/// Timers and measures of one candidate, from `Prepare` until it is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    /// Its `Prepare` was committed, or this leader first saw it.
    pub since: Tick,
    pub opening: OpeningStats,
    pub ready_us: u64,
}

impl Watched {
    pub fn since(now: Tick) -> Watched {
        Watched { since: now, opening: OpeningStats::default(), ready_us: 0 }
    }
}

/// How it stands with a wish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ensured {
    /// Fulfilled, or on its way without us.
    There,
    /// A proposal about it is on its way.
    Proposed,
    /// Not now; says why.
    Waiting(String),
}

impl Driver {
    pub(super) fn look_at(&mut self, now: Tick, meta: &Meta, id: RangeId, out: &mut Vec<Effect>) {
        let Some(range) = meta.ranges.get(&id) else { return };
        let Some(topic) = meta.topics.get(&range.topic).filter(|t| !t.deleted) else { return };
        let Some(head) = range.head else {
            self.look_at_roots(now, meta, id, topic.config(), out);
            return;
        };
        self.look_at_head(now, meta, head, out);
        for candidate in below(meta, head) {
            if meta.known(candidate).is_ready() && self.is_wanted(meta, candidate) {
                self.ensure_successor(now, meta, candidate, out);
            }
        }
    }

    fn look_at_head(&mut self, now: Tick, meta: &Meta, id: SegmentId, out: &mut Vec<Effect>) {
        let head = meta.known(id);
        if self.needs_recovery(now, meta, id, head) {
            self.ensure_recovery(now, meta, id, out);
            return;
        }
        // One request is enough: it stands in the state until the segment is sealed.
        if head.roll_requested == 0 && self.could_move(now, meta, head) {
            let lost = head.replicas.iter().any(|n| self.is_lost(meta, *n));
            let reason = if lost { RollReason::ReplicaLost } else { RollReason::Drain };
            let trace = head.trace;
            self.propose(now, Command::RequestRoll { segment: id, expected: 0, reason, trace }, out);
        }
        if self.is_wanted(meta, id) {
            self.ensure_successor(now, meta, id, out);
        }
    }

    /// Some replica is lost or leaves, and there are healthy nodes enough to be rid of it.
    fn could_move(&self, now: Tick, meta: &Meta, segment: &Segment) -> bool {
        segment.replicas.iter().any(|n| self.is_leaving(meta, *n))
            && self.place_strict(now, meta, config_of(meta, segment), &segment.replicas, 0).is_ok()
    }

    /// Someone asked for a successor: now, or (as the state shows) an earlier leader.
    fn is_wanted(&self, meta: &Meta, id: SegmentId) -> bool {
        let segment = meta.known(id);
        self.wants.contains_key(&id) || segment.roll_requested > 0 || segment.attempts > 0
    }

    /// A fit candidate that is ready, or one that still has time to become it; else the next attempt.
    pub(super) fn ensure_successor(&mut self, now: Tick, meta: &Meta, id: SegmentId, out: &mut Vec<Effect>) -> Ensured {
        if self.pending.has(&Subject::Candidate(id)) {
            return Ensured::Proposed;
        }
        let prior = meta.known(id);
        let wanted = self.wants.get(&id).map_or(1, |w| w.attempt).min(prior.attempts + 1);
        let live: Vec<SegmentId> = prior
            .candidates
            .iter()
            .copied()
            .filter(|c| meta.known(*c).is_candidate() && meta.known(*c).binder == Binder::Primary)
            .collect();
        let serves = |c: &SegmentId| meta.known(*c).attempt >= wanted && self.is_fit(now, meta, meta.known(*c));
        let fit: Vec<SegmentId> = live.iter().copied().filter(serves).collect();
        if fit.iter().any(|c| meta.known(*c).is_ready()) {
            return Ensured::There;
        }
        if self.has_time(now, meta, prior.range, &fit, live.len()) {
            return Ensured::There;
        }
        if live.len() >= meta.limits().candidates as usize {
            return self.ask_release(now, meta, &live, out);
        }
        let avoid: Vec<NodeId> = live.iter().map(|c| meta.known(*c).primary()).collect();
        match self.place_successor(now, meta, config_of(meta, prior), &prior.replicas, &avoid) {
            Ok(replicas) => {
                let trace = prior.trace.or(self.wants.get(&id).and_then(|w| w.trace));
                self.propose(now, Command::Prepare { prior: id, attempt: prior.attempts + 1, replicas, trace }, out);
                Ensured::Proposed
            }
            // The sweep and every change of a node look again.
            Err(no_place) => Ensured::Waiting(no_place.to_string()),
        }
    }

    /// Whether the newest of the fit candidates is still within its time to open. The more of them wait, the longer it is:
    /// nodes that are slow would only be slower for another one.
    fn has_time(&mut self, now: Tick, meta: &Meta, range: RangeId, fit: &[SegmentId], live: usize) -> bool {
        let Some(newest) = fit.iter().copied().max_by_key(|c| meta.known(*c).attempt) else { return false };
        let doublings = live.saturating_sub(1).min(3) as u32;
        let since = self.watched.entry(newest).or_insert(Watched::since(now)).since;
        let until = since.plus_ms(self.timing.ready_timeout_ms << doublings);
        if now < until {
            self.wake(until, range);
        }
        now < until
    }

    /// A candidate worth waiting for: its primary can open it (or still holds it open), and no replica of it is lost or
    /// leaving, unless there is nowhere better to go.
    fn is_fit(&self, now: Tick, meta: &Meta, candidate: &Segment) -> bool {
        !self.primary_is_over(meta, candidate)
            && (candidate.replicas.iter().all(|n| !self.is_leaving(meta, *n)) || !self.could_move(now, meta, candidate))
    }

    /// At the limit: the binder is asked to give one back, one at a time: the oldest unfit one, else the oldest (L3).
    fn ask_release(&mut self, now: Tick, meta: &Meta, live: &[SegmentId], out: &mut Vec<Effect>) -> Ensured {
        let why = "the limit of candidates is reached; one of them is being released".to_owned();
        if live.iter().any(|c| meta.known(*c).release_asked) {
            return Ensured::Waiting(why);
        }
        let rank = |c: &&SegmentId| (self.is_fit(now, meta, meta.known(**c)), meta.known(**c).attempt);
        if let Some(segment) = live.iter().min_by_key(rank).copied() {
            self.propose(now, Command::AskRelease { segment }, out);
        }
        Ensured::Waiting(why)
    }

    /// A range whose first segment is not open yet: a first segment that can still become ready, else the next attempt.
    fn look_at_roots(&mut self, now: Tick, meta: &Meta, id: RangeId, config: &TopicConfig, out: &mut Vec<Effect>) {
        let Some(range) = meta.ranges.get(&id) else { return };
        let live: Vec<SegmentId> = range.roots.iter().copied().filter(|c| meta.known(*c).is_candidate()).collect();
        let fit: Vec<SegmentId> = live.iter().copied().filter(|c| self.is_fit(now, meta, meta.known(*c))).collect();
        if self.pending.has(&Subject::Root(id)) || self.has_time(now, meta, id, &fit, live.len()) {
            return;
        }
        let avoid: Vec<NodeId> = live.iter().map(|c| meta.known(*c).primary()).collect();
        // No place: the sweep and every change of a node look again.
        if let Ok(replicas) = self.place_successor(now, meta, config, &[], &avoid) {
            self.propose(now, Command::PrepareRoot { range: id, attempt: range.root_attempts + 1, replicas }, out);
        }
    }
}

/// The settings a successor of this segment is prepared with.
pub(super) fn config_of<'a>(meta: &'a Meta, segment: &Segment) -> &'a TopicConfig {
    meta.topics.get(&segment.topic).expect("a segment has its topic").config()
}

/// Everything prepared to follow this segment, and to follow that.
fn below(meta: &Meta, head: SegmentId) -> Vec<SegmentId> {
    let mut todo = meta.known(head).candidates.clone();
    let mut found = Vec::new();
    while let Some(id) = todo.pop() {
        found.push(id);
        todo.extend(meta.known(id).candidates.iter());
    }
    found
}
