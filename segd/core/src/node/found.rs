//! Which segments this disk cannot have lost: those planned after it came into use.
//!
//! A replica that is missing on disk is either one that was never here, and may be opened as empty, or one that was lost with
//! an earlier disk, and must not be: its empty answer could take back what was acked (trap V7). The disk's own mark tells them
//! apart: made once, in the disk's first life, from a state of metad no older than the node's registration, and durable
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
    /// metad's version when it registered this life.
    registered: Option<u64>,
    seen: u64,
    /// Every segment that metad's word was about, or that it gave out, lies below.
    given_out: SegmentId,
}

impl Founding {
    pub fn of(first: Option<SegmentId>) -> Self {
        Founding { first, ..Founding::default() }
    }

    pub fn seen(&mut self, version: u64, given_out: SegmentId) {
        self.seen = self.seen.max(version);
        self.given_out = self.given_out.max(given_out);
    }

    /// Was `segment` planned after this disk came into use?
    pub fn never_held(&self, segment: SegmentId) -> bool {
        self.first.is_some_and(|first| segment >= first)
    }

    /// The views are no older than the registration: whatever an earlier disk held is among them, or gone for good.
    fn is_due(&self) -> bool {
        self.first.is_none() && !self.asked && self.registered.is_some_and(|version| self.seen >= version)
    }
}

impl Node {
    pub(super) fn on_registered(&mut self, version: u64, out: &mut Outbox) {
        self.founding.registered.get_or_insert(version);
        self.found_if_due(out);
    }

    pub(super) fn found_if_due(&mut self, out: &mut Outbox) {
        if self.founding.is_due() {
            self.founding.asked = true;
            out.push(Effect::Found { first: self.founding.given_out });
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
