//! Whoever says it first: a segment has one start (R3) and one end and next (R5), for ever, and its next starts where it ends.

use seam_wire::meta::{MetaItem, SegmentState};
use seam_wire::msg::Decision;
use seam_wire::{Offset, SegmentId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Decided {
    starts: BTreeMap<SegmentId, Offset>,
    ends: BTreeMap<SegmentId, Decision>,
}

impl Decided {
    /// Somebody shows records of this segment from `start` on.
    pub fn starts(&mut self, segment: SegmentId, start: Offset) {
        let known = *self.starts.entry(segment).or_insert(start);
        assert_eq!(known, start, "R3: {segment} starts at {known}, and now at {start}");
    }

    pub fn ends(&mut self, segment: SegmentId, decision: Decision) {
        let known = *self.ends.entry(segment).or_insert(decision);
        assert_eq!(known, decision, "R5: {segment} was decided as {known:?}, and now as {decision:?}");
        self.starts(decision.next, decision.end);
    }

    pub fn starting_at(&self, at: Offset) -> impl Iterator<Item = SegmentId> + '_ {
        self.starts.iter().filter(move |(_, start)| **start == at).map(|(id, _)| *id)
    }

    pub fn recorded(&mut self, items: &[MetaItem]) {
        for item in items {
            let MetaItem::Segment(view) = item else { continue };
            match view.state {
                SegmentState::Open { start } => self.starts(view.spec.id, start),
                SegmentState::Sealed { start, end, next } | SegmentState::Trimmed { start, end, next, .. } => {
                    self.starts(view.spec.id, start);
                    self.ends(view.spec.id, Decision { end, next });
                }
                SegmentState::Planned
                | SegmentState::Ready { .. }
                | SegmentState::Reclaiming
                | SegmentState::Reclaimed => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "R5")]
    fn a_second_end_is_seen() {
        let mut decided = Decided::default();
        decided.ends(SegmentId(1), Decision { end: Offset(5), next: SegmentId(2) });
        decided.ends(SegmentId(1), Decision { end: Offset(5), next: SegmentId(3) });
    }

    #[test]
    #[should_panic(expected = "R3")]
    fn a_gap_in_the_chain_is_seen() {
        let mut decided = Decided::default();
        decided.starts(SegmentId(2), Offset(6));
        decided.ends(SegmentId(1), Decision { end: Offset(5), next: SegmentId(2) });
    }
}
