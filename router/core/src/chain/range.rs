//! Indexes of one range: its chain by start, its head, its candidates by the segment they follow.

use seam_wire::meta::{SegmentState, SegmentView};
use seam_wire::{Offset, SegmentId, TopicId};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(super) struct RangeIndex {
    pub topic: Option<TopicId>,
    /// Position among the topic's ranges.
    pub index: u32,
    /// Open and sealed segments by start. Empty ones share their start with the next.
    pub chain: BTreeSet<(Offset, SegmentId)>,
    /// Of those, the open ones; one at most, but for an instant while updates come in.
    pub open: BTreeSet<(Offset, SegmentId)>,
    /// Ready candidates by the segment they were prepared to follow; `None`: first of the range.
    pub ready: BTreeMap<Option<SegmentId>, BTreeSet<SegmentId>>,
}

impl RangeIndex {
    pub fn insert(&mut self, view: &SegmentView) {
        let id = view.spec.id;
        match &view.state {
            SegmentState::Open { start } => {
                self.chain.insert((*start, id));
                self.open.insert((*start, id));
            }
            SegmentState::Sealed { start, .. } => {
                self.chain.insert((*start, id));
            }
            SegmentState::Ready { .. } => {
                self.ready.entry(view.spec.prior).or_default().insert(id);
            }
            SegmentState::Planned
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => {}
        }
    }

    pub fn remove(&mut self, view: &SegmentView) {
        let id = view.spec.id;
        match &view.state {
            SegmentState::Open { start } => {
                self.chain.remove(&(*start, id));
                self.open.remove(&(*start, id));
            }
            SegmentState::Sealed { start, .. } => {
                self.chain.remove(&(*start, id));
            }
            SegmentState::Ready { .. } => {
                if let Some(ready) = self.ready.get_mut(&view.spec.prior) {
                    ready.remove(&id);
                    if ready.is_empty() {
                        self.ready.remove(&view.spec.prior);
                    }
                }
            }
            SegmentState::Planned
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => {}
        }
    }
}
