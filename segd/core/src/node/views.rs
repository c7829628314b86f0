//! What metad says: levels, not edges. Each view is compared with what this node already did about it.

use super::reports::Kind;
use super::{Node, Outbox};
use crate::io::{Effect, Write};
use crate::node::persist::PendingWrite;
use crate::primary::Phase;
use crate::traps::{self, Trap};
use seam_wire::meta::{Binder, MetaItem, MetaUpdate, SegmentState, SegmentView};
use seam_wire::msg::Decision;
use seam_wire::report::Report;
use seam_wire::{Offset, SegmentId, Tick};
use std::collections::BTreeSet;

impl Node {
    pub(super) fn on_meta(&mut self, now: Tick, update: MetaUpdate, out: &mut Outbox) {
        let mut segments = BTreeSet::new();
        let mut given_out = None;
        for item in update.items {
            match item {
                MetaItem::Topic(topic) if topic.deleted => {
                    self.deleted.insert(topic.id);
                }
                MetaItem::Topic(_) => {}
                MetaItem::Node(node) => {
                    self.nodes.insert(node.id, node);
                }
                MetaItem::Segment(view) => {
                    segments.insert(view.spec.id);
                    self.views.insert(view.spec.id, view);
                }
                MetaItem::Ids { next_segment } => given_out = Some(next_segment),
            }
        }
        let next_segment = given_out.unwrap_or_default();
        if update.reset {
            // Of a cluster that never had a segment it says nothing.
            self.reconcile(&segments, next_segment, out);
        }
        for segment in segments {
            let Some(view) = self.views.get(&segment).cloned() else { continue };
            self.on_view(now, &view, out);
            if view.state == SegmentState::Reclaimed {
                self.views.remove(&segment);
            }
        }
    }

    fn on_view(&mut self, now: Tick, view: &SegmentView, out: &mut Outbox) {
        let segment = view.spec.id;
        match view.state {
            SegmentState::Reclaiming | SegmentState::Reclaimed => self.forget(now, view, out),
            SegmentState::Planned | SegmentState::Ready { .. } | SegmentState::Open { .. } => {
                if view.spec.replicas.contains(&self.id) {
                    self.open_if_new(now, view, out);
                }
                self.recover_if_appointed(now, view, out);
            }
            SegmentState::Sealed { start, end, next } => {
                self.on_decided_by_metad(now, segment, start, Decision { end, next }, out);
            }
            SegmentState::Trimmed { end, next, .. } => {
                // Its successor may hear only now that it was decided.
                self.tell_successors(now, segment, Decision { end, next }, out);
                self.forget(now, view, out);
            }
        }
        self.begin_if_chained(now, view, out);
        self.on_candidate(now, view, out);
        self.on_roll_requested(now, view);
        self.dirty.insert(segment);
    }

    /// metad's word that a segment of this range is in the chain also binds its start (it "counts as Begin").
    fn begin_if_chained(&mut self, now: Tick, view: &SegmentView, out: &mut Outbox) {
        let start = match view.state {
            SegmentState::Open { start } | SegmentState::Sealed { start, .. } => start,
            SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => return,
        };
        let Some(writer) = self.writers.get_mut(&view.spec.id) else { return };
        if view.primary_incarnation.is_some_and(|life| life != self.incarnation) {
            writer.machine.end(); // V4: it was an earlier life of this node that was chosen.
            return;
        }
        // That it is in the chain says what its prior was decided as, which may be trimmed and gone by now.
        writer.machine.prior_decided(Decision { end: start, next: view.spec.id });
        self.start_known(now, view.spec.id, start, None, out);
    }

    fn on_decided_by_metad(
        &mut self,
        now: Tick,
        segment: SegmentId,
        start: Offset,
        decision: Decision,
        out: &mut Outbox,
    ) {
        self.drop_report(Kind::Sealed, segment);
        self.drop_report(Kind::Recovered, segment);
        self.drop_report(Kind::SoftMark, segment);
        self.drop_report(Kind::Undecidable, segment);
        self.agents.remove(&segment);
        if let Some(replica) = self.replicas.get_mut(&segment) {
            replica.machine.decided_bounds(start, decision.end);
        }
        self.decide_replica(segment, decision, out);
        self.settle_writer(segment, decision, out);
        self.retire_if_done(segment, out);
        self.tell_successors(now, segment, decision, out);
    }

    /// The successors of a decided segment that this node writes: the chosen one begins, the others are over.
    fn tell_successors(&mut self, now: Tick, segment: SegmentId, decision: Decision, out: &mut Outbox) {
        let lost = self.is_lost(segment);
        let successors: Vec<SegmentId> =
            self.writers.iter().filter(|(_, w)| w.spec.prior == Some(segment)).map(|(id, _)| *id).collect();
        for successor in successors {
            let writer = self.writers.get_mut(&successor).expect("R4: it was just listed");
            if lost {
                writer.machine.prior_lost(decision);
            } else {
                writer.machine.prior_decided(decision);
            }
            if decision.next == successor {
                self.start_known(now, successor, decision.end, None, out);
            }
            self.turn_away_if_over(successor, out);
            self.dirty.insert(successor);
        }
    }

    /// A recorded segment needs no writer once every follower holds all of it; memory is for open ones.
    pub(super) fn retire_if_done(&mut self, segment: SegmentId, out: &mut Outbox) {
        let recorded = self.views.get(&segment).is_some_and(|v| matches!(v.state, SegmentState::Sealed { .. }));
        let Some(writer) = self.writers.get_mut(&segment).filter(|_| recorded) else { return };
        let done = match writer.machine.phase() {
            Phase::Over => true,
            Phase::Decided(_) => writer.followers.keys().all(|node| writer.machine.quorum().seal_held_by(*node)),
            Phase::Opening | Phase::Ready | Phase::Open | Phase::Switched(_) => false,
        };
        if done && writer.unacked.is_empty() {
            self.cancel_timers(segment);
            self.writers.remove(&segment);
            self.publish_if_complete(segment, out);
        } else {
            // A follower that is still behind is read for from the store.
            writer.recent.clear();
            writer.recent_bytes = 0;
        }
    }

    /// By metad's word, or by the primary's.
    pub(super) fn decide_replica(&mut self, segment: SegmentId, decision: Decision, out: &mut Outbox) {
        let lost = self.views.get(&segment).filter(|view| view.lost()).map(|view| &view.state);
        let by_loss = match lost {
            Some(SegmentState::Sealed { end, next, .. }) => Some(Decision { end: *end, next: *next }),
            Some(_) | None => None,
        };
        let Some(replica) = self.replicas.get_mut(&segment) else { return };
        let decision = by_loss.unwrap_or(decision); // A primary that was cut off may say otherwise still.
        let news =
            if by_loss.is_some() { replica.machine.overrule(decision) } else { replica.machine.decide(decision) };
        if news {
            self.persist(segment, vec![Write::Decided(decision)], PendingWrite::Decided, out);
        }
        self.publish_if_complete(segment, out);
    }

    /// The primary hears of its own segment's decision from metad: its own choice, or another's.
    fn settle_writer(&mut self, segment: SegmentId, decision: Decision, out: &mut Outbox) {
        let lost = self.is_lost(segment);
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let own = writer.seal().is_some_and(|seal| seal.end == decision.end && seal.next == decision.next);
        if own && writer.machine.phase() != Phase::Over {
            return; // It follows its own quorum, which metad heard of from it.
        }
        // One writer ever: what it assigned below the decided end is what the log holds there, and is acked as far as A
        // replicas are known to hold it.
        let through = if lost { writer.machine.settle_lost(decision) } else { writer.machine.settle(decision) };
        let start = writer.machine.start();
        // Its tails go on here only if this replica holds all of the decided segment. They are told before the acks leave.
        let serves = self.replicas.get(&segment).is_some_and(|replica| replica.machine.complete().is_some());
        let decided = serves.then_some(decision);
        out.push(Effect::Publish { segment, start, committed: decision.end, decision: decided, serves });
        while let Some(unacked) = writer.unacked.front() {
            if unacked.end > through {
                break;
            }
            let unacked = writer.unacked.pop_front().expect("R1: a front was just seen");
            let reply = seam_wire::msg::FromSegd::AppendAck { seq: unacked.seq, base_offset: unacked.base };
            out.push(Effect::Reply { stream: unacked.stream, reply, trace: None });
        }
        writer.unacked.clear();
        writer.duplicates.clear();
        writer.held.clear();
        // What it had accepted above the end never was: the streams break, and routers resend to the decided successor.
        for stream in self.streams.of_all(segment) {
            self.streams.close(stream);
            out.push(Effect::CloseStream { stream });
        }
    }

    /// A candidate of a segment this node writes, or one that metad wants back.
    fn on_candidate(&mut self, now: Tick, view: &SegmentView, out: &mut Outbox) {
        let Some(prior) = view.spec.prior else { return };
        let segment = view.spec.id;
        if view.spec.binder != Binder::Primary || !self.writers.contains_key(&prior) {
            return;
        }
        let writer = self.writers.get_mut(&prior).expect("R13: it was just seen");
        let open_on = match &view.state {
            SegmentState::Planned => 0,
            SegmentState::Ready { open_on } => open_on.len(),
            SegmentState::Open { .. } | SegmentState::Sealed { .. } | SegmentState::Trimmed { .. } => return,
            SegmentState::Reclaiming | SegmentState::Reclaimed => {
                writer.handoff.remove(segment);
                return;
            }
        };
        let alive = self
            .nodes
            .get(&view.spec.primary())
            .is_none_or(|node| view.primary_incarnation.is_none_or(|incarnation| incarnation == node.incarnation));
        if !alive {
            writer.handoff.remove(segment); // Its right to begin ended with its process.
        } else {
            let replicas = view.spec.replicas.len();
            writer.handoff.update(segment, view.spec.attempt, view.spec.primary(), open_on, replicas);
            if open_on > 0 {
                self.on_successor_ready(now, prior, segment, out);
            }
        }
        if view.release_asked && !traps::active(Trap::L3NoRelease) {
            let writer = self.writers.get_mut(&prior).expect("R13: it was just seen");
            if writer.machine.phase() != Phase::Over && writer.handoff.release(segment) {
                self.report(now, Report::Released { segment }, out);
            }
        }
        self.dirty.insert(prior);
    }

    fn on_roll_requested(&mut self, now: Tick, view: &SegmentView) {
        let Some(writer) = self.writers.get_mut(&view.spec.id) else { return };
        if view.roll_requested > writer.roll_acted {
            writer.roll_acted = view.roll_requested;
            // metad says why whenever it asks.
            writer.roll_reason = view.roll_reason.unwrap_or(writer.roll_reason);
            writer.marks.ask(writer.roll_reason);
            writer.times.wanted.get_or_insert(now);
        }
    }
}
