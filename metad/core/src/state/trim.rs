//! Retention: the start of a log moves, and what lies before it is deleted. The start moves first: the segments leave the chain
//! in the same command that tells their replicas to delete them.
//!
//! Which segments, and when, stands in the command. What may not be is refused here: the open segment, and the newest sealed
//! one that has records, with all that follows it. A successor that has not begun may have to ask the replicas of the segments
//! before it for the producer table, back to one that has records.

use super::{Changes, Meta};
use crate::command::{Outcome, Refusal};
use seam_wire::meta::SegmentState;
use seam_wire::traps::{self, Trap};
use seam_wire::{RangeId, SegmentId};

impl Meta {
    pub(super) fn trim(
        &mut self,
        range: RangeId,
        first: SegmentId,
        keep: SegmentId,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let record = self.ranges.get(&range).ok_or(Refusal::UnknownRange(range))?;
        self.live_config(range)?;
        if record.first == Some(keep) {
            return Ok(Outcome::Done);
        }
        if record.first != Some(first) {
            return Err(Refusal::WrongFirst { range, current: record.first, given: first });
        }
        let not = |why: &str| Refusal::NotTrimmable { range, keep, why: why.to_owned() };
        let mut before = Vec::new();
        for id in self.chain(range) {
            let segment = self.known(id);
            if !matches!(segment.state, SegmentState::Sealed { .. }) {
                return Err(not("it is no sealed segment of the chain"));
            }
            if id == keep {
                break;
            }
            if record.last_filled == Some(id) {
                return Err(not("the newest sealed segment that has records stays"));
            }
            before.push(id);
        }
        if record.last_filled.is_none() {
            return Err(not("no sealed segment has records"));
        }
        let SegmentState::Sealed { start: log_start, .. } = self.known(keep).state else {
            return Err(not("it is no sealed segment of the chain"));
        };
        let trimmed_bytes: u64 = before.iter().map(|id| self.known(*id).bytes).sum();
        let record = self.ranges.get_mut(&range).expect("it was just seen");
        assert!(record.start <= log_start, "the start of {range} moves back: {record:?}");
        record.first = Some(keep);
        if !traps::active(Trap::TrimBeforeStart) {
            record.start = log_start;
        }
        record.sealed_bytes -= trimmed_bytes;
        for id in before {
            if let SegmentState::Sealed { start, end, next } = self.known(id).state {
                self.leave(id, SegmentState::Trimmed { start, end, next, log_start }, ch);
            }
        }
        Ok(Outcome::Done)
    }
}
