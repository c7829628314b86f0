//! The roll at the old primary: announce, ready, switch, decided. The new primary's side is in `begin`.
//!
//! Keeps R5 (one end, one next), R12 (no metadata in the path of a switch), R15 (no switch behind a closed gate).

use super::reports::Kind;
use super::{Node, Outbox, TimerKey};
use crate::io::Counter;
use crate::io::Write;
use crate::marks::Want;
use crate::node::persist::PendingWrite;
use crate::primary::Phase;
use crate::replica::{Accept, WriteRequest};
use crate::traps::{self, Trap};
use seam_wire::meta::Binder;
use seam_wire::msg::Peer;
use seam_wire::report::Report;
use seam_wire::{Epoch, NodeId, SegmentId, Tick};

/// Unanswered pings after which a candidate is not taken.
const SILENT_PINGS: u32 = 3;

impl Node {
    /// Does what the segment's fill, age and candidates call for. Called whenever one of them may have changed.
    pub(super) fn drive_roll(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.machine.phase() != Phase::Open {
            return;
        }
        if let Some(at) = writer.marks.next_age_deadline(now) {
            self.timers.set_if_unset(TimerKey::Roll(segment), at);
        }
        let want = writer.marks.want(now);
        match want {
            Want::Nothing => return,
            Want::Announce => self.announce(now, segment, out),
            Want::Switch | Want::HardCap | Want::Hold => {
                writer.times.wanted.get_or_insert(now);
                self.announce(now, segment, out);
                self.switch_if_ready(now, segment, want, out);
            }
        }
        if want != Want::Hold {
            self.take_held(now, segment, out);
        }
    }

    /// Tells metad that a successor is needed, until there is a usable candidate.
    fn announce(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let retry = self.settings.announce_retry_us;
        let writer = self.writers.get_mut(&segment).expect("R12: its roll is being driven");
        if writer.handoff.best(true).is_some() {
            return;
        }
        if let Some(last) = writer.times.last_announced
            && now.since(last) < retry
        {
            self.timers.set_if_unset(TimerKey::Roll(segment), last.after_us(retry));
            return;
        }
        writer.times.last_announced = Some(now);
        if writer.times.announced.is_none() {
            writer.times.announced = Some(now);
            writer.times.stats.soft_mark_bytes = writer.marks.soft_bytes();
            writer.times.stats.announced = Some(writer.marks.announcement(now));
        }
        let silent = writer.handoff.candidates().any(|(_, c)| c.open_on > 0 && !c.answers);
        let attempt = match writer.handoff.last_attempt() {
            0 => 1,
            last if silent && writer.times.ready.is_some_and(|ready| now.since(ready) > retry) => last + 1,
            last => last,
        };
        let report = Report::SoftMark {
            segment,
            bytes: writer.marks.bytes(),
            end: writer.machine.assigned(),
            rate_bytes_per_s: writer.marks.pace(now).rate_bytes_per_s,
            soft_mark_bytes: writer.times.stats.soft_mark_bytes,
            attempt,
            trace: self.views.get(&segment).and_then(|view| view.trace),
        };
        self.timers.set_if_unset(TimerKey::Roll(segment), now.after_us(retry));
        self.report(now, report, out);
    }

    fn switch_if_ready(&mut self, now: Tick, segment: SegmentId, want: Want, out: &mut Outbox) {
        let patience = self.settings.full_patience_us;
        let writer = self.writers.get_mut(&segment).expect("R12: its roll is being driven");
        let wanted = writer.times.wanted.unwrap_or(now);
        let any = match want {
            Want::HardCap | Want::Hold => true,
            Want::Nothing | Want::Announce | Want::Switch => now.since(wanted) >= patience,
        };
        let best = writer.handoff.best(any);
        match best {
            Some(next) if writer.machine.may_switch() => self.switch(now, segment, next, out),
            Some(_) | None => {
                let capped = matches!(want, Want::HardCap | Want::Hold);
                if capped && !writer.times.stats.not_ready {
                    writer.times.stats.not_ready = true;
                    Self::count(Counter::SwitchedNotReady, out);
                }
                if want == Want::Switch {
                    self.timers
                        .set_if_unset(TimerKey::Roll(segment), wanted.after_us(patience).max(now.after_us(1000)));
                }
            }
        }
    }

    /// The head moves: seal entry, `Begin` and `Moved` leave together, with no metadata round trip.
    fn switch(&mut self, now: Tick, segment: SegmentId, next: SegmentId, out: &mut Outbox) {
        let table_hash = self.replicas[&segment].table.stable_hash();
        let writer = self.writers.get_mut(&segment).expect("R5: its switch was just decided");
        writer.handoff.choose(next);
        let seal = writer.machine.switch(next, table_hash);
        let times = &mut writer.times;
        times.switched = Some(now);
        times.stats.switch_wait_us = times.wanted.map_or(0, |wanted| now.since(wanted));
        times.stats.switched_by = Some(writer.marks.switch_cause(now));
        times.stats.overrun_bytes = writer.marks.over_hard_bytes();
        times.stats.bytes = writer.marks.bytes();
        times.stats.rate_bytes_per_s = writer.marks.pace(now).rate_bytes_per_s;
        let (ready, wanted) = (times.ready, times.wanted);
        // Nothing above the end was accepted: held appends go with the streams.
        writer.held.clear();
        writer.held_bytes = 0;
        Self::count(Counter::Switched, out);
        self.step(self.trace_of(segment), "roll.slack", segment, ready, out);
        self.step(self.trace_of(segment), "roll.switch", segment, wanted, out);
        self.timers.cancel(TimerKey::Roll(segment));
        self.drop_report(Kind::SoftMark, segment);
        self.send_begin(now, segment, false, out);
        self.seal_own(segment, out);
        self.pump_all(now, segment, out);
        for stream in self.streams.of(segment) {
            self.move_stream(stream, seal.next, seal.end, out);
        }
    }

    fn seal_own(&mut self, segment: SegmentId, out: &mut Outbox) {
        let writer = &self.writers[&segment];
        let (Some(seal), Some(start)) = (writer.seal(), writer.machine.start()) else { return };
        let request = WriteRequest { epoch: Epoch::PRIMARY, start, base: seal.end, next: seal.end, seal: Some(seal) };
        let replica = self.replicas.get_mut(&segment).expect("R1: a primary has its own replica");
        if let Accept::Write { seal: Some(seal), .. } = replica.machine.accept(request) {
            let pending = PendingWrite::Records { epoch: Epoch::PRIMARY, to: seal.end, seal: true, writer: self.id };
            self.persist_with_last(segment, Write::Seal(seal), pending, out);
        }
    }

    /// `Begin` to the chosen successor, with the delta since the table sent ahead, or the whole table.
    pub(super) fn send_begin(&mut self, now: Tick, segment: SegmentId, whole: bool, out: &mut Outbox) {
        let Some(writer) = self.writers.get(&segment) else { return };
        let (Some(seal), Some(view)) = (writer.seal(), self.views.get(&writer.seal().map_or(segment, |s| s.next)))
        else {
            return;
        };
        let table = &self.replicas[&segment].table;
        let ahead = writer.tables_sent.get(&seal.next).filter(|_| !whole);
        let (delta, removed) = match ahead {
            Some(sent) => table.delta_since(sent),
            None => (table.snapshot(), Vec::new()),
        };
        let msg = Peer::Begin {
            prior: segment,
            binder: Binder::Primary,
            end: if traps::active(Trap::OffByOneStart) { seal.end.plus(1) } else { seal.end },
            delta,
            removed,
            table_hash: seal.table_hash,
            pace: writer.marks.pace(now),
        };
        let to = view.spec.primary();
        self.tell(to, seal.next, msg, out);
        self.timers.set(TimerKey::Begin(segment), now.after_us(self.settings.begin_retry_us));
    }

    pub(super) fn repeat_begin(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get(&segment) else { return };
        if writer.times.begun.is_none() && writer.seal().is_some() && !traps::active(Trap::L2BeginOnce) {
            self.send_begin(now, segment, true, out);
        }
    }

    pub(super) fn on_begun(&mut self, now: Tick, successor: SegmentId, out: &mut Outbox) {
        let Some(prior) = self.views.get(&successor).and_then(|view| view.spec.prior) else { return };
        let Some(writer) = self.writers.get_mut(&prior) else { return };
        if writer.handoff.chosen() == Some(successor) && writer.times.begun.is_none() {
            writer.times.begun = Some(now);
            let switched = writer.times.switched;
            self.step(self.trace_of(prior), "roll.begin", prior, switched, out);
            self.timers.cancel(TimerKey::Begin(prior));
        }
    }

    /// A candidate is ready: measure, warm the way to it, send the table ahead.
    pub(super) fn on_successor_ready(&mut self, now: Tick, prior: SegmentId, successor: SegmentId, out: &mut Outbox) {
        let writer = self.writers.get_mut(&prior).expect("R13: its candidate was just seen");
        if writer.tables_sent.contains_key(&successor) {
            return;
        }
        writer.times.ready = Some(now);
        let announced = writer.times.announced;
        if let Some(announced) = announced {
            let latency = now.since(announced);
            writer.times.stats.announce_to_ready_us = latency;
            writer.marks.observe_roll_latency(latency);
        }
        let table = self.replicas[&prior].table.clone();
        let end = writer.machine.assigned();
        let snapshot = table.snapshot();
        writer.tables_sent.insert(successor, table);
        self.drop_report(Kind::SoftMark, prior);
        self.step(self.trace_of(prior), "roll.announce", prior, announced, out);
        let to = self.views[&successor].spec.primary();
        self.tell(to, successor, Peer::Table { prior, end, snapshot }, out);
        self.ping(now, prior, out);
    }

    /// Pings every ready candidate; one that stays silent is not taken.
    pub(super) fn ping(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.handoff.chosen().is_some() || writer.machine.phase() == Phase::Over {
            return;
        }
        let ready: Vec<(SegmentId, NodeId)> =
            writer.handoff.candidates().filter(|(_, c)| c.open_on > 0).map(|(id, c)| (id, c.primary)).collect();
        if ready.is_empty() {
            return;
        }
        for (id, _) in &ready {
            let unanswered = writer.unanswered.entry(*id).or_default();
            *unanswered += 1;
            if *unanswered > SILENT_PINGS {
                writer.handoff.answers(*id, false);
            }
        }
        for (id, node) in ready {
            self.tell(node, id, Peer::Ping { nonce: segment.0 }, out);
        }
        self.timers.set(TimerKey::Ping(segment), now.after_us(self.settings.ping_interval_us));
        self.dirty.insert(segment);
    }

    pub(super) fn on_pong(&mut self, candidate: SegmentId, nonce: u64) {
        let segment = SegmentId(nonce);
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        writer.unanswered.insert(candidate, 0);
        writer.handoff.answers(candidate, true);
        self.dirty.insert(segment);
    }

    /// A replicas hold the seal entry: the segment is decided. Followers, tails and metad are told.
    pub(super) fn on_own_decision(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let writer = self.writers.get_mut(&segment).expect("R5: its decision was just seen");
        let Some(decision) = writer.machine.decision() else { return };
        if writer.decided_handled {
            return;
        }
        writer.decided_handled = true;
        writer.times.sealed = Some(now);
        let times = &writer.times;
        let mut stats = times.stats;
        let switched = times.switched.unwrap_or(now);
        stats.seal_us = now.since(switched);
        stats.begin_us = times.begun.map_or(0, |begun| begun.since(switched));
        stats.ready_to_switch_us = times.ready.map_or(0, |ready| switched.since(ready));
        stats.record_after_us = self.settings.record_delay_us;
        let start = writer.machine.start().unwrap_or(decision.end);
        let followers: Vec<NodeId> = writer.followers.keys().copied().collect();
        for node in followers {
            self.tell(node, segment, Peer::Decided { decision }, out);
        }
        if let Some(replica) = self.replicas.get_mut(&segment)
            && replica.machine.decide(decision)
        {
            self.persist(segment, vec![Write::Decided(decision)], PendingWrite::Decided, out);
        }
        self.step(self.trace_of(segment), "roll.seal", segment, Some(switched), out);
        let report = Report::Sealed { segment, start, end: decision.end, next: decision.next, stats };
        self.report_after(now, self.settings.record_delay_us, report);
    }

    /// No commit since last looked, while appends wait: complain about whatever is in the way.
    pub(super) fn check_progress(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let waits = !writer.unacked.is_empty() || matches!(writer.machine.phase(), Phase::Switched(_));
        if !waits || writer.machine.phase() == Phase::Over {
            writer.last_commit_seen = None;
            return;
        }
        let committed = writer.machine.committed();
        let stuck = committed.is_some() && writer.last_commit_seen == committed;
        writer.last_commit_seen = committed;
        let blocked_by = match (writer.machine.gate().is_open(), writer.spec.prior) {
            (false, Some(prior)) => prior,
            (false, None) | (true, _) => segment,
        };
        self.timers.set(TimerKey::Stall(segment), now.after_us(self.settings.stall_patience_us));
        if stuck {
            self.report(now, Report::Stalled { segment: blocked_by }, out);
        }
    }

    pub(super) fn run_timers(&mut self, now: Tick, out: &mut Outbox) {
        while let Some(key) = self.timers.pop_due(now) {
            match key {
                TimerKey::Report(id) => self.repeat_report(now, id, out),
                TimerKey::Open(segment) => self.ask_followers(now, segment, out),
                TimerKey::Ping(segment) => self.ping(now, segment, out),
                TimerKey::Begin(segment) => self.repeat_begin(now, segment, out),
                TimerKey::Subscribe(segment) => self.subscribe_to_prior(now, segment, out),
                TimerKey::Resend(segment, node) => self.check_follower(now, segment, node, out),
                TimerKey::Roll(segment) => {
                    self.dirty.insert(segment);
                }
                TimerKey::Fence(segment) => self.repeat_recovery(now, segment, out),
                TimerKey::Stall(segment) => self.check_progress(now, segment, out),
            }
        }
    }
}
