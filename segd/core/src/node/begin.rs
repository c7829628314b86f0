//! The roll at the new primary: table, begin, gate.
//!
//! A start is bound by `Begin` from the binder, by the prior's own seal entry (`SealHeld`), or by metad's committed word;
//! whichever comes first. Keeps R3 (one start), R4 (nothing commits before the prior is decided), R13 (its binder only).

use super::state::Inherited;
use super::{Node, Outbox, TimerKey};
use crate::io::Effect;
use crate::marks::Marks;
use crate::primary::Phase;
use crate::replica::WriteRequest;
use crate::table::ProducerTable;
use crate::traps::{self, Trap};
use bytes::Bytes;
use seam_wire::meta::{Binder, SegmentState};
use seam_wire::msg::{Pace, Peer, SealEntry};
use seam_wire::table::TableSnapshot;
use seam_wire::{Epoch, NodeId, Offset, ProducerId, SegmentId, Tick};

/// A `Begin` as it came.
#[derive(Debug)]
pub(super) struct BeginMessage {
    pub prior: SegmentId,
    pub binder: Binder,
    pub end: Offset,
    pub delta: TableSnapshot,
    pub removed: Vec<ProducerId>,
    pub table_hash: u64,
    pub pace: Pace,
}

/// Rounds for which a successor behind an accepted loss asks for the producer table.
const LOSS_TABLE_ROUNDS: u32 = 8;

impl Node {
    pub(super) fn on_begin(
        &mut self,
        now: Tick,
        from: NodeId,
        segment: SegmentId,
        begin: BeginMessage,
        out: &mut Outbox,
    ) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.machine.phase() == Phase::Opening {
            writer.early_begin = Some((from, begin)); // Taken when enough replicas have it open.
            return;
        }
        if writer.machine.start().is_none() {
            let Some(table) = assemble(writer.inherited.get(&begin.prior), &begin) else {
                return; // The table sent ahead was lost: the repetition carries all of it.
            };
            let by = (Some(begin.prior), begin.binder);
            if !self.begin(now, segment, by, (begin.end, table, begin.pace), out) {
                return;
            }
        } else if writer.machine.start() != Some(begin.end) {
            return; // Bound by metad's word otherwise: this binder's decision was overtaken.
        }
        self.tell(from, segment, Peer::Begun { start: begin.end }, out);
    }

    /// Binds the start and opens for writing. False if refused.
    fn begin(
        &mut self,
        now: Tick,
        segment: SegmentId,
        (prior, by): (Option<SegmentId>, Binder),
        (start, table, pace): (Offset, ProducerTable, Pace),
        out: &mut Outbox,
    ) -> bool {
        let table = if prior.is_some() && traps::active(Trap::TableDropped) { ProducerTable::default() } else { table };
        let Some(writer) = self.writers.get_mut(&segment) else { return false };
        if writer.machine.begin(prior, by, start) != Ok(true) {
            return false;
        }
        writer.marks = Marks::new(&writer.spec.config, now, pace);
        if writer.roll_acted > 0 {
            writer.marks.ask(writer.roll_reason);
        }
        writer.first.begun = Some(now);
        writer.inherited.clear();
        writer.start_known = None;
        let opened: Vec<NodeId> = writer.machine.open_on().collect();
        let request = WriteRequest { epoch: Epoch::PRIMARY, start, base: start, next: start, seal: None };
        self.accept_write(self.id, segment, request, Some(table.snapshot()), Bytes::new(), out);
        for node in opened {
            self.start_follower(now, segment, node, out);
        }
        if self.gap_is_due(segment, start) {
            self.write_gap(now, segment, out);
        }
        self.take_held(now, segment, out);
        if self.writers.get(&segment).is_some_and(|writer| !writer.machine.gate().is_open()) {
            self.timers.set(TimerKey::Subscribe(segment), now.after_us(self.settings.begin_retry_us));
            self.timers.set_if_unset(TimerKey::Stall(segment), now.after_us(self.settings.stall_patience_us));
        }
        self.dirty.insert(segment);
        if let Some(trace) = self.trace_into(segment) {
            out.push(Effect::Fresh { segment, trace });
        }
        true
    }

    /// The log itself, or metad, says where this segment starts. Begins as soon as the table there is at hand.
    pub(super) fn start_known(
        &mut self,
        now: Tick,
        segment: SegmentId,
        start: Offset,
        table_hash: Option<u64>,
        out: &mut Outbox,
    ) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.machine.start().is_some() || traps::active(Trap::L2BeginOnce) {
            return;
        }
        writer.start_known = Some(Inherited { end: start, table_hash });
        self.begin_if_known(now, segment, out);
    }

    pub(super) fn begin_if_known(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let Some(known) = &writer.start_known else { return };
        if writer.machine.phase() != Phase::Ready {
            return; // Not open on A yet: begun when it is.
        }
        let end = known.end;
        let binder = writer.spec.binder;
        let Some(prior) = writer.spec.prior else {
            self.begin(now, segment, (None, Binder::Root), (end, ProducerTable::default(), Pace::default()), out);
            return;
        };
        let ahead = writer.inherited.get(&prior).filter(|table| known.table_hash == Some(table.stable_hash())).cloned();
        if let Some(table) = ahead {
            self.begin(now, segment, (Some(prior), binder), (end, table, Pace::default()), out);
        } else {
            self.ask_for_table(now, segment, end, out);
        }
    }

    /// Nobody may have the table where a loss was accepted: after some rounds it begins without. What producers send again of
    /// the segment that was given up is then written again.
    fn begin_without_table(&mut self, now: Tick, segment: SegmentId, end: Offset, out: &mut Outbox) -> bool {
        let Some(writer) = self.writers.get_mut(&segment) else { return false };
        writer.table_asked += 1;
        let by = (writer.spec.prior, writer.spec.binder);
        let gives_up = matches!(by.1, Binder::Loss(_)) && writer.table_asked > LOSS_TABLE_ROUNDS;
        gives_up && self.begin(now, segment, by, (end, ProducerTable::default(), Pace::default()), out)
    }

    /// Asks whoever may hold the table at `end`: the replicas of the prior, and, where nothing was ever written between, of
    /// those before it. At the range's very beginning there is none to ask for.
    fn ask_for_table(&mut self, now: Tick, segment: SegmentId, end: Offset, out: &mut Outbox) {
        if end == Offset(0) {
            let by = self.writers.get(&segment).map(|writer| (writer.spec.prior, writer.spec.binder));
            let Some(by) = by else { return };
            self.begin(now, segment, by, (end, ProducerTable::default(), Pace::default()), out);
            return;
        }
        if self.begin_without_table(now, segment, end, out) {
            return;
        }
        for prior in self.table_sources(segment, end) {
            for node in self.views[&prior].spec.replicas.clone() {
                self.tell(node, segment, Peer::TableRequest { prior }, out);
            }
        }
        self.timers.set(TimerKey::Subscribe(segment), now.after_us(self.settings.begin_retry_us));
    }

    /// The prior, and back from it over segments that metad knows to be empty: the table at `end` is the same in all of them.
    fn table_sources(&self, segment: SegmentId, end: Offset) -> Vec<SegmentId> {
        let mut sources = Vec::new();
        let mut at = self.views.get(&segment).and_then(|view| view.spec.prior);
        while let Some(view) = at.and_then(|prior| self.views.get(&prior)) {
            sources.push(view.spec.id);
            let empty = matches!(view.state, SegmentState::Sealed { start, .. } if start == end);
            at = view.spec.prior.filter(|_| empty);
        }
        sources
    }

    /// A replica of the prior that holds exactly what was decided (or sealed) can give the table there. One that never
    /// learnt its start has no table, not an empty one.
    pub(super) fn on_table_request(&mut self, from: NodeId, segment: SegmentId, prior: SegmentId, out: &mut Outbox) {
        let Some(replica) = self.replicas.get(&prior) else { return };
        let decided = replica.machine.decision().map(|decision| decision.end);
        let Some(end) = decided.or(replica.machine.tail().seal.map(|seal| seal.end)) else { return };
        let exact = replica.machine.durable_end() == end && replica.machine.written_end() == end;
        if replica.machine.start_written() && exact {
            let snapshot = replica.table.snapshot();
            self.tell(from, segment, Peer::Table { prior, end, snapshot }, out);
        }
    }

    pub(super) fn on_table(
        &mut self,
        now: Tick,
        segment: SegmentId,
        prior: SegmentId,
        end: Offset,
        snapshot: &TableSnapshot,
        out: &mut Outbox,
    ) {
        let Some(writer) = self.writers.get(&segment) else { return };
        if writer.machine.start().is_some() {
            return;
        }
        let table = ProducerTable::from_snapshot(snapshot);
        let by = (writer.spec.prior, writer.spec.binder);
        let fits = writer
            .start_known
            .as_ref()
            .is_some_and(|known| known.end == end && known.table_hash.is_none_or(|hash| hash == table.stable_hash()));
        if fits && self.table_sources(segment, end).contains(&prior) {
            self.begin(now, segment, by, (end, table, Pace::default()), out);
        } else if by.0 == Some(prior)
            && let Some(writer) = self.writers.get_mut(&segment)
        {
            writer.inherited.insert(prior, table);
        }
    }

    /// A replica of the prior holds its seal entry: a vote at the gate, and as good as `Begin`.
    pub(super) fn on_seal_held(
        &mut self,
        now: Tick,
        from: NodeId,
        prior: SegmentId,
        seal: SealEntry,
        out: &mut Outbox,
    ) {
        let segment = seal.next;
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.spec.prior != Some(prior) {
            return;
        }
        writer.machine.vote(from, seal);
        if writer.machine.start().is_none() && writer.spec.binder == Binder::Primary {
            self.start_known(now, segment, seal.end, Some(seal.table_hash), out);
        }
        self.dirty.insert(segment);
    }

    /// Asks N's replicas to tell when they hold N's seal entry; seldom before the begin, often behind the gate.
    pub(super) fn subscribe_to_prior(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get(&segment) else { return };
        let Some(prior) = writer.spec.prior else { return };
        if writer.machine.phase() == Phase::Over || writer.machine.gate().is_open() && writer.machine.start().is_some()
        {
            return;
        }
        let waiting = writer.machine.start().is_some();
        let Some(view) = self.views.get(&prior) else { return };
        for node in view.spec.replicas.clone() {
            self.tell(node, prior, Peer::SubscribeSeal { watcher: segment }, out);
        }
        let interval = if waiting { self.settings.ask_retry_us } else { 8 * self.settings.ask_retry_us };
        self.timers.set(TimerKey::Subscribe(segment), now.after_us(interval));
        self.begin_if_known(now, segment, out);
    }

    pub(super) fn resubscribe_to(&mut self, now: Tick, peer: NodeId, out: &mut Outbox) {
        let concerned = |prior: SegmentId| self.views.get(&prior).is_some_and(|v| v.spec.replicas.contains(&peer));
        let waiting: Vec<SegmentId> = self
            .writers
            .iter()
            .filter(|(_, w)| !w.machine.gate().is_open() && w.spec.prior.is_some_and(concerned))
            .map(|(id, _)| *id)
            .collect();
        for segment in waiting {
            self.subscribe_to_prior(now, segment, out);
        }
    }

    pub(super) fn on_subscribe(&mut self, from: NodeId, segment: SegmentId, watcher: SegmentId, out: &mut Outbox) {
        let Some(replica) = self.replicas.get_mut(&segment) else { return };
        if let Some(seal) = replica.machine.subscribe(from, watcher) {
            self.tell(from, segment, Peer::SealHeld { seal }, out);
        }
    }
}

/// The table at the end of the prior: the one sent ahead with the delta merged in, or the whole one in the message.
fn assemble(ahead: Option<&ProducerTable>, begin: &BeginMessage) -> Option<ProducerTable> {
    let bases = [ahead.cloned().unwrap_or_default(), ProducerTable::default()];
    bases.into_iter().find_map(|mut table| {
        table.merge(&begin.delta);
        begin.removed.iter().for_each(|id| table.remove(*id));
        (table.stable_hash() == begin.table_hash).then_some(table)
    })
}
