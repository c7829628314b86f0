//! The moment of an ack: the record is durable on A of its segment's replicas' disks (R1, I2), looked up on the disks.

use crate::world::World;
use seam_wire::meta::SegmentState;
use seam_wire::topic::AckMode;
use seam_wire::{Offset, SegmentId};

impl World {
    /// Node `n` acks `offset` to a router on a stream to `segment`; a retry's original may lie in an earlier one.
    pub(in crate::world) fn check_ack(&self, n: u8, segment: SegmentId, offset: Offset) {
        let holders = |id: SegmentId, replicas: &[seam_wire::NodeId]| {
            let mut held = 0;
            for node in replicas {
                let segd = &self.segds[usize::from(crate::world::links::index_of(*node))];
                let disk = &segd.disk;
                let end = match self.plan.topic.ack {
                    AckMode::Durable => disk.synced_end(id),
                    AckMode::Replicated => disk.written_end(id),
                };
                // What it lost with its disk it had, for all that is known.
                held += usize::from(end > offset && disk.holds(id, offset) || segd.lost_through >= Some(id));
            }
            held
        };
        // Retention may have taken the original since: where it lay is below the log's start now.
        let range = self.metad.meta.segment(segment).map(|view| view.spec.range);
        if range.and_then(|range| self.metad.meta.range(range)).is_some_and(|range| offset < range.start) {
            return;
        }
        let mut best = None;
        let mut id = Some(segment);
        while let Some(view) = id.and_then(|id| self.metad.meta.segment(id)) {
            let held = holders(view.spec.id, &view.spec.replicas);
            // Of what a recovery found, under A = R, fewer copies may be left; none of those disks is lost then.
            let quorum = usize::from(view.spec.ack_quorum);
            let recovered = view.recovery.is_some() && matches!(view.state, SegmentState::Sealed { .. });
            let wanted = if recovered { quorum.min(view.spec.recovery_quorum()) } else { quorum };
            if held >= wanted {
                return;
            }
            best = best.max(Some(held));
            id = view.spec.prior;
        }
        panic!("R1: segd-{} acks {offset} of {segment}; at most {best:?} disks hold it", n + 1);
    }
}
