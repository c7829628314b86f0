//! Which segments this disk cannot have lost: those planned after it came into use.
//!
//! A replica that is missing on disk is either one that was never here, and may be opened as empty, or one that was lost with
//! an earlier disk, and must not be: its empty answer could take back what was acked (trap V7). The disk's own mark tells them
//! apart: made once, in the disk's first life, of what metad's leader had planned when it registered that life, and durable
//! before anything else is written.

use super::{Node, Outbox};
use crate::io::Effect;
use seam_wire::meta::SegmentState;
use seam_wire::{SegmentId, Tick};

#[derive(Debug, Default)]
pub(super) struct Founding {
    /// The first segment that an earlier disk of this node cannot have held.
    first: Option<SegmentId>,
    asked: bool,
}

impl Founding {
    pub fn of(first: Option<SegmentId>) -> Self {
        Founding { first, asked: false }
    }

    /// Was `segment` planned after this disk came into use?
    pub fn never_held(&self, segment: SegmentId) -> bool {
        self.first.is_some_and(|first| segment >= first)
    }
}

impl Node {
    pub(super) fn on_registered(&mut self, next_segment: SegmentId, out: &mut Outbox) {
        if self.founding.first.is_none() && !self.founding.asked {
            self.founding.asked = true;
            out.push(Effect::Found { first: next_segment });
        }
    }

    pub(super) fn on_founded(&mut self, now: Tick, first: SegmentId, out: &mut Outbox) {
        self.founding.first = Some(first);
        let mine: Vec<_> = self
            .views
            .values()
            .filter(|view| view.spec.replicas.contains(&self.id))
            .filter(|view| {
                matches!(view.state, SegmentState::Planned | SegmentState::Ready { .. } | SegmentState::Open { .. })
            })
            .cloned()
            .collect();
        for view in mine {
            self.open_if_new(now, &view, out);
        }
    }
}
