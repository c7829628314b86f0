//! How replicas come to be: headers, `Open` and `Opened`, `Ready`.

use super::persist::PendingWrite;
use super::state::{ReplicaState, Writer};
use super::{Node, Outbox, TimerKey};
use crate::gate::Gate;
use crate::io::{Effect, Write};
use crate::primary::{Phase, Primary};
use seam_wire::meta::{SegmentState, SegmentView};
use seam_wire::msg::{Decision, Peer};
use seam_wire::report::Report;
use seam_wire::{NodeId, Offset, SegmentId, Tick};
use std::collections::btree_map::Entry;

/// `Open`s kept until metad's word on their segment arrives.
const MAX_EARLY_OPENS: usize = 1024;

impl Node {
    /// This node is in the segment's replica set: open it if it was never here and may still be opened.
    pub(super) fn open_if_new(&mut self, now: Tick, view: &SegmentView, out: &mut Outbox) {
        let segment = view.spec.id;
        // A segment that an earlier disk may have held, and this one has not, was lost with it: it is repaired, never opened
        // as empty. metad's word is no proof: a candidate that it takes for planned may have been begun and written.
        // Late is not too late, in a recovery either: an empty replica that never held anything is a true answer.
        let fresh = match view.state {
            SegmentState::Planned | SegmentState::Ready { .. } | SegmentState::Open { .. } => {
                self.founding.never_held(segment)
            }
            SegmentState::Sealed { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => false,
        };
        if let Entry::Vacant(vacant) = self.replicas.entry(segment) {
            if !fresh {
                return;
            }
            let replica = vacant.insert(ReplicaState::new(view.spec.clone()));
            replica.times.assigned = Some(now);
            replica.asked_open = self.early_opens.remove(&segment);
            let writes = vec![Write::Header { spec: view.spec.clone() }];
            self.persist(segment, writes, PendingWrite::Header, out);
        }
        if view.spec.primary() == self.id {
            self.become_primary(now, view, out);
        }
    }

    /// Rights belong to the process that reported `Ready`: never resumed from disk (trap V4).
    fn become_primary(&mut self, now: Tick, view: &SegmentView, out: &mut Outbox) {
        let segment = view.spec.id;
        let mine = match view.state {
            SegmentState::Planned => true,
            SegmentState::Ready { .. } => view.primary_incarnation == Some(self.incarnation),
            SegmentState::Open { .. }
            | SegmentState::Sealed { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => false,
        };
        let replica = &self.replicas[&segment].machine;
        // One that does not know its own tail takes nothing: it would write what it does not hold itself.
        let unfit = replica.start().is_some() || !replica.tail_known();
        if !mine || unfit || self.writers.contains_key(&segment) {
            return;
        }
        let Some(machine) = self.new_primary(view) else { return };
        self.writers.insert(segment, Writer::new(view.spec.clone(), machine, now));
        // Tails may be opened before there is anything to show: they wait.
        let committed = Offset::default();
        out.push(Effect::Publish { segment, start: None, committed, decision: None, serves: true });
        if self.replicas[&segment].header_durable {
            self.on_header_durable(now, segment, out);
        }
        self.ask_followers(now, segment, out);
        self.subscribe_to_prior(now, segment, out);
    }

    fn new_primary(&self, view: &SegmentView) -> Option<Primary> {
        let Some(prior) = view.spec.prior else { return Some(Primary::new(&view.spec, Gate::root(view.spec.id))) };
        let prior = self.views.get(&prior)?;
        let gate = Gate::after(view.spec.id, prior.spec.replicas.clone(), prior.spec.ack_quorum);
        let mut machine = Primary::new(&view.spec, gate);
        if let SegmentState::Sealed { end, next, .. } = prior.state {
            machine.prior_decided(Decision { end, next });
        }
        Some(machine)
    }

    pub(super) fn on_header_durable(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(replica) = self.replicas.get_mut(&segment) else { return };
        replica.header_durable = true;
        let assigned = replica.times.assigned.take();
        if let Some(asker) = replica.asked_open.take() {
            self.tell(asker, segment, Peer::Opened, out);
        }
        self.step(self.trace_into(segment), "replica.open", segment, assigned, out);
        self.on_opened(now, self.id, segment, out);
    }

    pub(super) fn on_open(&mut self, from: NodeId, segment: SegmentId, out: &mut Outbox) {
        let Some(replica) = self.replicas.get_mut(&segment) else {
            // The primary heard of it first: answered when the assignment is here, not when it asks again.
            self.early_opens.insert(segment, from);
            if self.early_opens.len() > MAX_EARLY_OPENS {
                self.early_opens.pop_first();
            }
            return;
        };
        if !replica.machine.tail_known() {
            return; // It takes nothing from any writer: it must not be counted on.
        }
        if replica.header_durable {
            self.tell(from, segment, Peer::Opened, out);
        } else {
            replica.asked_open = Some(from);
        }
    }

    pub(super) fn on_opened(&mut self, now: Tick, from: NodeId, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if !writer.spec.replicas.contains(&from) || !writer.machine.opened(from) {
            return;
        }
        let made = writer.made.take();
        let report =
            Report::Ready { segment, open_on: writer.machine.open_on().collect(), incarnation: self.incarnation };
        self.step(self.trace_into(segment), "successor.open", segment, made, out);
        self.report(now, report, out);
        if let Some((from, begin)) = self.writers.get_mut(&segment).and_then(|writer| writer.early_begin.take()) {
            self.on_begin(now, from, segment, begin, out);
        }
        self.begin_if_known(now, segment, out);
        if let Some(writer) = self.writers.get(&segment)
            && writer.machine.start().is_some()
        {
            self.start_follower(now, segment, from, out);
        }
    }

    /// Asks followers that have not said `Opened`; repeated until all have.
    pub(super) fn ask_followers(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get(&segment) else { return };
        let opened: Vec<NodeId> = writer.machine.open_on().collect();
        let missing: Vec<NodeId> =
            writer.spec.replicas.iter().copied().filter(|node| *node != self.id && !opened.contains(node)).collect();
        if missing.is_empty() || writer.machine.phase() == Phase::Over {
            return;
        }
        for node in missing {
            self.tell(node, segment, Peer::Open, out);
        }
        self.timers.set(TimerKey::Open(segment), now.after_us(self.settings.ask_retry_us));
    }

    pub(super) fn cancel_timers(&mut self, segment: SegmentId) {
        for key in [
            TimerKey::Open(segment),
            TimerKey::Ping(segment),
            TimerKey::Begin(segment),
            TimerKey::Subscribe(segment),
            TimerKey::Roll(segment),
            TimerKey::Fence(segment),
            TimerKey::Stall(segment),
        ] {
            self.timers.cancel(key);
        }
        let nodes = self.views.get(&segment).map(|view| view.spec.replicas.clone()).unwrap_or_default();
        for node in nodes {
            self.timers.cancel(TimerKey::Resend(segment, node));
        }
    }

    /// Streams of a segment that was not chosen go where its prior's decision says; without one they break.
    pub(super) fn turn_away(&mut self, segment: SegmentId, out: &mut Outbox) {
        let elsewhere = self.known_move(segment);
        for stream in self.streams.of_all(segment) {
            match elsewhere {
                Some((next, start)) => {
                    // Nothing it accepted was ever acked: all of it belongs to the chosen one.
                    if let Some(state) = self.streams.get_mut(stream) {
                        state.accepted_through = None;
                    }
                    self.move_stream(stream, next, start, out);
                }
                None => {
                    self.streams.close(stream);
                    out.push(Effect::CloseStream { stream });
                }
            }
        }
    }

    /// Takes the stream of appends elsewhere when this candidate's prior went elsewhere.
    pub(super) fn turn_away_if_over(&mut self, segment: SegmentId, out: &mut Outbox) {
        let over = self.writers.get(&segment).is_some_and(|writer| writer.machine.phase() == Phase::Over);
        if over && self.known_move(segment).is_some() {
            self.turn_away(segment, out);
        }
    }
}
