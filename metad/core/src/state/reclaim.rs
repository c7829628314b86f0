//! Commands that take candidates back. Before its prior is decided, a candidate is reclaimed only after its binder,
//! alive and not yet switched, gave it back (V8); after that, when every replica said that nothing is left of it (R10).

use super::prepare::wrong_state;
use super::{Changes, Meta};
use crate::command::{Outcome, Refusal};
use seam_wire::meta::{Binder, SegmentState};
use seam_wire::traps::{self, Trap};
use seam_wire::{Incarnation, NodeId, SegmentId};

impl Meta {
    /// Leaving, or left.
    fn is_gone(&self, id: SegmentId) -> bool {
        self.has_left(id) || self.segments.get(&id).is_some_and(|s| s.is_leaving())
    }

    pub(super) fn ask_release(&mut self, id: SegmentId, ch: &mut Changes) -> Result<Outcome, Refusal> {
        if self.is_gone(id) {
            return Ok(Outcome::Done);
        }
        let segment = self.seg(id)?;
        if !segment.is_candidate() {
            return Err(wrong_state(id, segment));
        }
        if segment.binder != Binder::Primary {
            return Err(Refusal::WrongBinder { next: id });
        }
        if traps::active(Trap::EarlyReclaim) {
            self.reclaim_trees(vec![id], ch);
            return Ok(Outcome::Done);
        }
        if !segment.release_asked {
            self.known_mut(id).release_asked = true;
            ch.segments.insert(id);
        }
        Ok(Outcome::Done)
    }

    pub(super) fn released(
        &mut self,
        id: SegmentId,
        node: NodeId,
        incarnation: Incarnation,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        if self.is_gone(id) {
            return Ok(Outcome::Done);
        }
        let segment = self.seg(id)?;
        if !segment.is_candidate() {
            return Err(wrong_state(id, segment));
        }
        if !segment.release_asked {
            return Err(Refusal::NotAsked { segment: id });
        }
        let prior = segment.prior.expect("a release is asked only of a primary's candidate");
        let binder = self.known(prior);
        if binder.primary() != node {
            return Err(Refusal::WrongBinder { next: id });
        }
        // Another life of the binder's node cannot speak for the one that may have switched.
        let current = binder.primary_incarnation.unwrap_or_default();
        if current != incarnation {
            return Err(Refusal::StaleIncarnation { node, current, given: incarnation });
        }
        self.reclaim_trees(vec![id], ch);
        Ok(Outcome::Done)
    }

    pub(super) fn confirm_reclaimed(
        &mut self,
        id: SegmentId,
        node: NodeId,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        if self.has_left(id) {
            return Ok(Outcome::Done);
        }
        let segment = self.seg(id)?;
        match segment.state {
            SegmentState::Trimmed { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed => {
                self.confirm(id, node, ch);
                Ok(Outcome::Done)
            }
            SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Open { .. }
            | SegmentState::Sealed { .. } => Err(wrong_state(id, segment)),
        }
    }
}
