//! The gap entry of a successor behind an accepted loss: its first entry, so that whatever follows lies above every offset that
//! was ever shown (R7), and the log stays dense (R2).

use super::{Node, Outbox, TimerKey};
use bytes::Bytes;
use seam_wire::batch::{self, LOSS_GAP};
use seam_wire::meta::{Binder, SegmentView};
use seam_wire::{Offset, SegmentId, Tick};

impl Node {
    /// Whether the segment, which begins at `start`, follows an accepted loss whose gap entry is not in the log yet: its own, or
    /// that of a segment before it that was recovered as empty.
    pub(super) fn gap_is_due(&self, segment: SegmentId, start: Offset) -> bool {
        let loss = |binder| matches!(binder, Binder::Loss(_));
        let Some(writer) = self.writers.get(&segment) else { return false };
        let mut at = writer.spec.prior;
        let mut due = loss(writer.spec.binder);
        while let Some(view) = at.and_then(|prior| self.views.get(&prior)).filter(|_| !due) {
            if view.start() != Some(start) {
                break; // It has entries: a gap that was due there is the first of them.
            }
            due = loss(view.spec.binder);
            at = view.spec.prior;
        }
        due
    }

    /// Writes it, like a batch that nobody waits for.
    pub(super) fn write_gap(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let writer = self.writers.get_mut(&segment).expect("R2: only a writer assigns");
        let base = writer.machine.assign(LOSS_GAP);
        let next = base.plus(LOSS_GAP);
        let entry: Bytes =
            batch::gap(base, LOSS_GAP).expect("2^40 offsets are left, or a million losses were accepted");
        writer.recent_bytes += entry.len();
        writer.recent.push_back((base, next, entry.clone()));
        self.timers.set_if_unset(TimerKey::Stall(segment), now.after_us(self.settings.stall_patience_us));
        self.write_own(segment, base, next, entry, out);
        self.dirty.insert(segment);
    }

    /// metad decided it by an accepted loss: its word stands above what the segment's own nodes had decided.
    pub(super) fn is_lost(&self, segment: SegmentId) -> bool {
        self.views.get(&segment).is_some_and(SegmentView::lost)
    }
}
