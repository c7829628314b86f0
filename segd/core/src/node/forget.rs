//! What metad gives up leaves this node: candidates that were not chosen, segments of deleted topics, and what retention put
//! below the log's start. Readers are told first, then the files go, and metad hears of it until it has heard.
//!
//! A node that was away finds out at its return: a full snapshot says which ids were given out, and what of them is missing
//! there is gone for ever, on every node (R10: no file without a record). Nothing is concluded of an id that the snapshot does
//! not reach: the member that sent it lags.

use super::{Node, Outbox};
use crate::io::Effect;
use seam_wire::meta::{SegmentState, SegmentView};
use seam_wire::report::Report;
use seam_wire::{Offset, SegmentId, Tick};
use std::collections::BTreeSet;

impl Node {
    /// metad's word that a segment is to go, or is gone.
    pub(super) fn forget(&mut self, now: Tick, view: &SegmentView, out: &mut Outbox) {
        let segment = view.spec.id;
        let log_start = match view.state {
            SegmentState::Trimmed { log_start, .. } => {
                out.push(Effect::LogStart { range: view.spec.range, start: log_start });
                Some(log_start)
            }
            SegmentState::Reclaiming => {
                let deleted = self.deleted.contains(&view.spec.topic);
                let decided = self.replicas.get(&segment).is_some_and(|replica| replica.machine.decision().is_some());
                // After an accepted loss, nodes that were cut off come back with what they had decided among themselves.
                let overruled = || self.views.values().any(|v| v.spec.range == view.spec.range && v.lost());
                assert!(
                    deleted || !decided || overruled(),
                    "R10: {segment} is in the chain and was to be reclaimed: {view:?}"
                );
                None
            }
            SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Open { .. }
            | SegmentState::Sealed { .. }
            | SegmentState::Reclaimed => None,
        };
        self.let_go(segment, log_start, out);
        if view.state != SegmentState::Reclaimed && view.spec.replicas.contains(&self.id) {
            self.report(now, Report::Reclaimed { segment, node: self.id }, out);
        }
    }

    /// A full snapshot came, with these segments; every id below `next_segment` was given out. What is here and not there is
    /// gone.
    pub(super) fn reconcile(&mut self, told: &BTreeSet<SegmentId>, next_segment: SegmentId, out: &mut Outbox) {
        let here = self.views.keys().chain(self.replicas.keys()).chain(self.writers.keys());
        let gone: BTreeSet<SegmentId> = here.copied().filter(|id| *id < next_segment && !told.contains(id)).collect();
        for segment in gone {
            self.let_go(segment, None, out);
            self.views.remove(&segment);
        }
    }

    fn let_go(&mut self, segment: SegmentId, log_start: Option<Offset>, out: &mut Outbox) {
        if self.writers.contains_key(&segment) {
            if log_start.is_none() {
                self.turn_away(segment, out);
            } else {
                // It was in the chain: what it accepted is committed, or not, as its decision says. The streams break, and
                // routers send again to the head what was not acked.
                for stream in self.streams.of_all(segment) {
                    self.streams.close(stream);
                    out.push(Effect::CloseStream { stream });
                }
            }
            self.writers.remove(&segment);
        }
        self.agents.remove(&segment);
        self.cancel_timers(segment);
        if self.replicas.remove(&segment).is_some() {
            out.push(Effect::Forget { segment, log_start });
        }
    }
}
