//! The invariants of the roll protocol as far as metad's state can refute them. After every command what it touched is
//! checked; the whole state while it is small, on demand, and whenever it is restored.
//!
//! R1 (its quorums), R2, R3, R4, R5, R10, R13 of the protocol page. R11 is a property of replay, tested there; R5 is also
//! asserted at the one place that decides (`transitions::seal`).

use super::records::Segment;
use super::{Changes, Counters, Meta};
use crate::command::Command;
use seam_wire::meta::{Binder, SegmentState};
use seam_wire::{Epoch, NodeId, Offset, RangeId, SegmentId};
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

/// Up to so many segments the whole state is checked after every command.
const SMALL: usize = 256;

/// A broken invariant, with its number, its text and the evidence.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{rule} is broken: {text} ({evidence})")]
pub struct Violation {
    pub rule: &'static str,
    pub text: &'static str,
    pub evidence: String,
}

fn hold(holds: bool, rule: &'static str, text: &'static str, evidence: impl Fn() -> String) -> Result<(), Violation> {
    if holds { Ok(()) } else { Err(Violation { rule, text, evidence: evidence() }) }
}

impl Meta {
    /// Checks everything.
    ///
    /// # Panics
    /// At the first broken invariant, with its number.
    pub fn assert_invariants(&self) {
        if let Err(violation) = self.check_invariants() {
            panic!("{violation}");
        }
    }

    pub(super) fn assert_after(&self, ch: &Changes, command: &Command) {
        let touched = || -> Result<(), Violation> {
            self.check_counters()?;
            let touched = ch.segments.iter().filter_map(|id| self.segments.get(id).map(|s| (*id, s)));
            touched.into_iter().try_for_each(|(id, s)| self.check_segment(id, s))?;
            if self.segments.len() <= SMALL { self.check_invariants() } else { Ok(()) }
        };
        if let Err(violation) = touched() {
            panic!("after {command:?}: {violation}");
        }
    }

    pub(super) fn check_invariants(&self) -> Result<(), Violation> {
        self.check_references()?;
        self.check_counters()?;
        self.segments.iter().try_for_each(|(id, s)| self.check_segment(*id, s))?;
        self.ranges.keys().try_for_each(|id| self.check_chain(*id))?;
        self.check_tallies()
    }

    /// Ids name records that exist, or of which it is certain that they left. First, so that the other checks may follow them.
    fn check_references(&self) -> Result<(), Violation> {
        const TEXT: &str = "every id names a record or one that left, and none is at or above the next free one";
        let has = |id: &SegmentId| self.segments.contains_key(id);
        for (id, s) in &self.segments {
            let topic = self.topics.get(&s.topic);
            // Only what is in the chain, or was, may outlive what it followed.
            let prior = |p: SegmentId| has(&p) || (s.chosen && p < *id && self.has_left(p));
            let candidate = |c: SegmentId| has(&c) || (s.open_start().is_none() && self.has_left(c));
            let holds = id.0 < self.next_segment
                && s.candidates.iter().all(has)
                && s.prior.is_none_or(prior)
                && s.recovery.as_ref().is_none_or(|r| candidate(r.candidate))
                && topic.is_some_and(|t| (s.config as usize) < t.configs.len() && t.ranges.contains(&s.range))
                && self.ranges.contains_key(&s.range)
                && s.replicas.iter().all(|n| self.nodes.contains_key(n));
            hold(holds, "state", TEXT, || format!("{id}: {s:?}"))?;
        }
        for (id, r) in &self.ranges {
            let deleted = self.topics.get(&r.topic).is_some_and(|t| t.deleted);
            let first = r.first.is_none_or(|f| has(&f) || (deleted && self.has_left(f)));
            let holds = id.0 < self.next_range && first && r.head.iter().chain(&r.roots).all(has);
            hold(holds, "state", TEXT, || format!("{id}: {r:?}"))?;
        }
        let names = self.names.iter().all(|(n, t)| self.topics.get(t).is_some_and(|t| &t.name == n && !t.deleted));
        let topics = self.topics.iter().all(|(id, t)| id.0 < self.next_topic && !t.configs.is_empty());
        hold(names && topics, "state", TEXT, || format!("{:?}", self.names))
    }

    fn check_counters(&self) -> Result<(), Violation> {
        let c = self.counters;
        let text = "candidates made = used + reclaimed + open";
        hold(c.made == c.used + c.reclaimed + c.open, "R10", text, || format!("{c:?}"))
    }

    fn check_segment(&self, id: SegmentId, s: &Segment) -> Result<(), Violation> {
        let seen = || format!("{id}: {s:?}");
        let (r, a) = (s.replicas.len(), usize::from(s.ack_quorum));
        let distinct = s.replicas.iter().collect::<BTreeSet<_>>().len() == r;
        let quorum = r >= 1 && distinct && (1..=r).contains(&a) && (a > 1 || r == 1);
        hold(quorum, "R1", "R distinct replicas, 1 <= A <= R, and A = 1 only with R = 1", seen)?;
        hold(s.epoch() == Epoch::PRIMARY || s.chosen, "R4", "only a segment of the chain is recovered", seen)?;

        let binder = match s.binder {
            Binder::Root => s.prior.is_none(),
            Binder::Primary => s.prior.is_some(),
            Binder::Recovery(e) | Binder::Loss(e) => s.prior.is_some_and(|p| {
                e > Epoch::PRIMARY && self.segments.get(&p).map_or(s.chosen, |prior| e <= prior.epoch())
            }),
        };
        hold(binder, "R13", "a candidate has one binder: metad, its prior's primary, or an appointed epoch", seen)?;
        let superseded = match (s.binder, s.prior) {
            (Binder::Recovery(e) | Binder::Loss(e), Some(prior)) => s.is_candidate() && e != self.known(prior).epoch(),
            (Binder::Recovery(_) | Binder::Loss(_) | Binder::Root | Binder::Primary, _) => false,
        };
        hold(!superseded, "R13", "a candidate of a superseded epoch is taken back", seen)?;

        let deleted = self.topics.get(&s.topic).is_some_and(|t| t.deleted);
        match &s.state {
            SegmentState::Planned => {}
            SegmentState::Ready { open_on } => {
                let open = open_on.len() >= a && open_on.first() == Some(&s.primary());
                let life = s.primary_incarnation.is_some();
                hold(open && life, "R13", "ready means open on A replicas, the primary in one life among them", seen)?;
            }
            SegmentState::Open { .. } => {
                let head = self.ranges.get(&s.range).and_then(|r| r.head);
                hold(s.chosen && head == Some(id), "R4", "at most one segment of a range is open in the chain", seen)?;
                let life = s.primary_incarnation.is_some();
                hold(life, "R1", "a segment of the chain was open on a quorum when it was chosen", seen)?;
            }
            SegmentState::Sealed { start, end, next } => {
                hold(start <= end && s.chosen, "R2", "a sealed segment's end is not below its start", seen)?;
                let n = self.known(*next);
                let linked = n.chosen && n.prior == Some(id) && chain_start(n) == Some(*end);
                hold(linked, "R3", "next.start == prev.end", || format!("{id}: {s:?}, {next}: {n:?}"))?;
                let left = s.candidates.iter().all(|c| self.known(*c).is_leaving());
                hold(left, "R10", "once a segment is decided, all other candidates are taken back", seen)?;
            }
            SegmentState::Trimmed { start, end, log_start, .. } => {
                hold(start <= end && s.chosen, "R10", "only what was in the chain is trimmed", seen)?;
                let moved = self.ranges.get(&s.range).is_some_and(|r| end <= log_start && *log_start <= r.start);
                hold(moved, "R2", "the log's start moved before data went, and never moves back", seen)?;
                self.check_leaving(id, s)?;
            }
            SegmentState::Reclaiming => {
                hold(!s.chosen || deleted, "R10", "no byte of a chosen segment is reclaimed", seen)?;
                self.check_leaving(id, s)?;
            }
            SegmentState::Reclaimed => hold(false, "R10", "what is gone has left the state", seen)?,
        }
        let alive = s.is_active() || matches!(s.state, SegmentState::Sealed { .. });
        hold(!(deleted && alive), "R10", "nothing of a deleted topic is kept", seen)
    }

    fn check_leaving(&self, id: SegmentId, s: &Segment) -> Result<(), Violation> {
        let seen = || format!("{id}: {s:?}");
        let awaited = !s.unconfirmed.is_empty() || !s.candidates.is_empty();
        hold(awaited, "R10", "what every replica confirmed, and nothing hangs from, has left the state", seen)?;
        let below = s.candidates.iter().all(|c| self.known(*c).is_leaving());
        hold(below, "R10", "what was to follow a segment that leaves, leaves", seen)
    }

    /// R2, R3: from the log's start to the head without a hole; R5: the head is where the chain ends.
    fn check_chain(&self, range: RangeId) -> Result<(), Violation> {
        let record = self.ranges.get(&range).expect("the caller iterates over the ranges");
        let mut expected = record.start;
        let mut last = None;
        let (mut sealed_bytes, mut last_filled) = (0, None);
        for id in self.chain(range) {
            let s = self.known(id);
            hold(chain_start(s) == Some(expected), "R2", "a range's offsets are dense from the log's start", || {
                format!("{id}: {s:?}")
            })?;
            if let SegmentState::Sealed { start, end, .. } = s.state {
                expected = end;
                sealed_bytes += s.bytes;
                last_filled = if end > start { Some(id) } else { last_filled };
            }
            last = Some(id);
        }
        let tallies = (sealed_bytes, last_filled) == (record.sealed_bytes, record.last_filled);
        hold(tallies, "state", "what retention counts equals a fresh scan", || format!("{range}: {record:?}"))?;
        hold(last == record.head, "R4", "the chain ends in the one open segment", || format!("{range}: {record:?}"))
    }

    /// The tallies kept beside the records equal a fresh scan.
    fn check_tallies(&self) -> Result<(), Violation> {
        let mut counters = Counters::default();
        let mut loads: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
        for s in self.segments.values() {
            counters.made += 1;
            counters.used += u64::from(s.chosen);
            counters.open += u64::from(!s.chosen);
            for (i, n) in s.replicas.iter().enumerate().filter(|_| s.is_active()) {
                let load = loads.entry(*n).or_default();
                load.0 += u32::from(i == 0);
                load.1 += 1;
            }
        }
        let (used, reclaimed) = self.left;
        counters.made += used + reclaimed;
        counters.used += used;
        counters.reclaimed += reclaimed;
        let text = "the counters equal a fresh scan";
        hold(counters == self.counters, "R10", text, || format!("{counters:?} and {:?}", self.counters))?;
        for (id, n) in &self.nodes {
            let scan = loads.get(id).copied().unwrap_or_default();
            hold(scan == (n.primaries, n.replicas), "state", text, || format!("{id}: {scan:?} and {n:?}"))?;
        }
        let scan: BTreeSet<SegmentId> =
            self.segments.iter().filter(|(_, s)| s.is_leaving()).map(|(id, _)| *id).collect();
        hold(scan == self.leaving, "R10", text, || format!("leaving {scan:?} and {:?}", self.leaving))
    }
}

/// The start of a segment of the chain.
fn chain_start(s: &Segment) -> Option<Offset> {
    match s.state {
        SegmentState::Open { start } | SegmentState::Sealed { start, .. } => Some(start),
        SegmentState::Planned
        | SegmentState::Ready { .. }
        | SegmentState::Trimmed { .. }
        | SegmentState::Reclaiming
        | SegmentState::Reclaimed => None,
    }
}
