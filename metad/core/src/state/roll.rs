//! Commands that record a roll: the decision itself, in chain order and once (R3, R5), the wish for one, and its figures.

use super::prepare::wrong_state;
use super::{Changes, Meta};
use crate::command::{Outcome, Refusal, RollBy};
use crate::history::{RecoveryStats, RollRecord};
use seam_wire::meta::{Binder, RollReason, SegmentState};
use seam_wire::report::{GateStats, RollStats};
use seam_wire::{Offset, SegmentId, TraceContext};

impl Meta {
    pub(super) fn commit_roll(
        &mut self,
        id: SegmentId,
        (end, next): (Offset, SegmentId),
        by: RollBy,
        (stats, ready_us, recovery): (RollStats, u64, Option<RecoveryStats>),
        kept: (u64, u64),
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let segment = self.seg(id)?;
        let start = match segment.state {
            SegmentState::Open { start } => start,
            SegmentState::Sealed { end: e, next: n, .. } if (e, n) == (end, next) => return Ok(Outcome::Done),
            SegmentState::Sealed { end, next, .. } => return Err(Refusal::Decided { segment: id, end, next }),
            SegmentState::Planned | SegmentState::Ready { .. } => return Err(Refusal::NotInChain { segment: id }),
            SegmentState::Trimmed { end: e, next: n, .. } if (e, n) == (end, next) => return Ok(Outcome::Done),
            SegmentState::Trimmed { end, next, .. } => return Err(Refusal::Decided { segment: id, end, next }),
            SegmentState::Reclaiming | SegmentState::Reclaimed => return Err(wrong_state(id, segment)),
        };
        if end < start {
            return Err(Refusal::EndBelowStart { segment: id, start, end });
        }
        let successor = self.seg(next)?;
        if successor.prior != Some(id) {
            return Err(Refusal::NotACandidate { segment: id, next });
        }
        if !successor.is_candidate() {
            return Err(wrong_state(next, successor));
        }
        check_binder(next, successor.binder, by, segment.epoch())?;
        // A segment of the chain whose headers never reached a disk could never be recovered: nobody may answer for it.
        if !successor.is_ready() {
            return Err(Refusal::NotReady { next });
        }

        let phases = successor.phases;
        let record = RollRecord {
            range: segment.range,
            segment: id,
            next,
            start,
            end,
            by_recovery: by != RollBy::Planned,
            stats,
            opening: phases.opening,
            ready_us,
            record_us: 0,
            gate: phases.gate,
            recovery,
        };
        self.seal(id, (end, next), kept, ch);
        self.choose(next, end, ch);
        let others = self.known(id).candidates.clone();
        self.reclaim_trees(others, ch);
        self.remember(record);
        Ok(Outcome::Done)
    }

    fn remember(&mut self, record: RollRecord) {
        let keep = self.limits.history as usize;
        let history = &mut self.ranges.get_mut(&record.range).expect("a segment has its range").history;
        history.push_back(record);
        while history.len() > keep {
            history.pop_front();
        }
    }

    pub(super) fn request_roll(
        &mut self,
        id: SegmentId,
        expected: u32,
        (reason, trace): (RollReason, Option<TraceContext>),
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let segment = self.seg(id)?;
        let current = segment.roll_requested;
        if current == expected.wrapping_add(1) {
            return Ok(Outcome::Done);
        }
        if segment.open_start().is_none() {
            return Err(wrong_state(id, segment));
        }
        if current != expected {
            return Err(Refusal::WrongNonce { segment: id, current, expected });
        }
        let segment = self.known_mut(id);
        segment.roll_requested = expected.wrapping_add(1);
        segment.roll_reason = Some(reason);
        self.trace_roll(id, trace, ch);
        ch.segments.insert(id);
        Ok(Outcome::Done)
    }

    pub(super) fn gate_opened(&mut self, id: SegmentId, gate: GateStats) -> Result<Outcome, Refusal> {
        if let Some(record) = self.record_of(id)? {
            record.gate = gate;
        } else {
            self.known_mut(id).phases.gate = gate;
        }
        Ok(Outcome::Done)
    }

    pub(super) fn roll_recorded(&mut self, id: SegmentId, record_us: u64) -> Result<Outcome, Refusal> {
        if let Some(record) = self.record_of(id)? {
            record.record_us = record_us;
        }
        Ok(Outcome::Done)
    }

    /// The record of the roll into this segment, if it is still kept.
    fn record_of(&mut self, next: SegmentId) -> Result<Option<&mut RollRecord>, Refusal> {
        let range = self.seg(next)?.range;
        let history = &mut self.ranges.get_mut(&range).expect("a segment has its range").history;
        Ok(history.iter_mut().rev().find(|r| r.next == next))
    }
}

/// R13: a primary begins only its own candidates; an agent its own, or the one a seal entry of the primary names.
fn check_binder(next: SegmentId, binder: Binder, by: RollBy, current: seam_wire::Epoch) -> Result<(), Refusal> {
    let fits = match (by, binder) {
        (RollBy::Planned, Binder::Primary) => true,
        (RollBy::Recovery(epoch), Binder::Primary) => epoch.0 >= 1 && epoch <= current,
        (RollBy::Recovery(epoch), Binder::Recovery(of) | Binder::Loss(of)) => epoch == of && epoch <= current,
        (RollBy::Planned, Binder::Recovery(_) | Binder::Loss(_)) | (_, Binder::Root) => false,
    };
    if fits { Ok(()) } else { Err(Refusal::WrongBinder { next }) }
}
