//! Appends at the primary: judged, given offsets, journalled beside replication, acked when committed.
//!
//! Keeps R2 (dense), R9 and R14 (retries), R6 and R7 through what it publishes.

use super::persist::PendingWrite;
use super::state::{Held, Unacked, Writer};
use super::{Node, Outbox, TimerKey};
use crate::io::{Counter, Effect, StreamId, Write};
use crate::marks::Want;
use crate::primary::Phase;
use crate::replica::{Accept, WriteRequest};
use crate::table::{Claim, Verdict};
use crate::traps::{self, Trap};
use bytes::Bytes;
use seam_wire::batch::{self, BatchHeader};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::{FromSegd, Peer};
use seam_wire::report::Report;
use seam_wire::{Epoch, Offset, SegmentId, Tick, TraceContext};
use std::collections::BTreeSet;

/// A batch's claim to a place among its producer's.
pub fn claim(header: &BatchHeader) -> Option<Claim> {
    let (id, epoch, base_sequence) = header.producer?;
    Some(Claim { id, epoch, base_sequence, records: header.record_count })
}

impl Node {
    pub(super) fn on_append(&mut self, now: Tick, append: Held, out: &mut Outbox) {
        let Some(state) = self.streams.get_mut(append.stream) else { return };
        if state.moved {
            return; // It was told where the head is; what follows belongs there.
        }
        let segment = state.segment;
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        match writer.machine.phase() {
            Phase::Opening | Phase::Ready => self.hold(segment, append, out),
            Phase::Open => {
                if !writer.held.is_empty() || writer.marks.want(now) == Want::Hold {
                    writer.times.stats.appends_waited += 1;
                    Self::count(Counter::AppendsWaited, out);
                    self.hold(segment, append, out);
                    self.dirty.insert(segment);
                } else {
                    self.take(now, segment, append, out);
                }
            }
            // Chosen its end, and this stream was opened before: `Moved` is on its way. Over: the decision will tell.
            Phase::Switched(_) | Phase::Decided(_) | Phase::Over => {}
        }
    }

    fn hold(&mut self, segment: SegmentId, held: Held, out: &mut Outbox) {
        let limit = self.settings.held_bytes;
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.held_bytes + held.batch.len() > limit {
            let error =
                WireError::retry(ErrorCode::Overloaded, format!("{segment} holds {limit} bytes of appends back"));
            return self.answer_error(held.stream, held.seq, error, Counter::Overloaded, out);
        }
        writer.held_bytes += held.batch.len();
        writer.held.push_back(held);
    }

    /// Takes what was held, in order, until something holds it back again.
    pub(super) fn take_held(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        loop {
            let Some(writer) = self.writers.get_mut(&segment) else { return };
            if writer.machine.phase() != Phase::Open || writer.marks.want(now) == Want::Hold {
                return;
            }
            let Some(held) = writer.held.pop_front() else { return };
            writer.held_bytes -= held.batch.len();
            self.take(now, segment, held, out);
        }
    }

    fn take(&mut self, now: Tick, segment: SegmentId, held: Held, out: &mut Outbox) {
        let Held { stream, seq, header, batch, trace } = held;
        let limit = self.settings.unacked_bytes;
        let writer = &self.writers[&segment];
        if writer.unacked_bytes + batch.len() > limit {
            let error =
                WireError::retry(ErrorCode::Overloaded, format!("{segment} has {limit} bytes waiting for replicas"));
            return self.answer_error(stream, seq, error, Counter::Overloaded, out);
        }
        let claim = claim(&header);
        let verdict = claim.map_or(Verdict::New, |claim| self.replicas[&segment].table.judge(&claim));
        match verdict {
            Verdict::New => self.accept_new(now, segment, (stream, seq), &header, (batch, trace), out),
            Verdict::Duplicate { base_offset } => {
                let end = base_offset.plus(u64::from(header.record_count));
                self.answer_duplicate(segment, (stream, seq), base_offset, end, out);
            }
            Verdict::Fenced { current } => {
                let detail = format!("a newer epoch ({current}) of this producer writes; this session is over");
                let error = WireError::refused(ErrorCode::ProducerFenced, detail);
                self.answer_error(stream, seq, error, Counter::ProducerFenced, out);
            }
            Verdict::OutOfSequence { expected } => {
                let detail = format!("the next sequence is {expected}; resend from there");
                let error = WireError::retry(ErrorCode::OutOfSequence, detail);
                self.answer_error(stream, seq, error, Counter::OutOfSequence, out);
            }
        }
    }

    fn answer_error(&mut self, stream: StreamId, seq: u64, error: WireError, counter: Counter, out: &mut Outbox) {
        self.streams.accepted(stream, seq);
        Self::count(counter, out);
        out.push(Effect::Reply { stream, reply: FromSegd::AppendError { seq, error }, trace: None });
    }

    /// R14: no duplicate is answered before its original is committed.
    fn answer_duplicate(
        &mut self,
        segment: SegmentId,
        (stream, seq): (StreamId, u64),
        base_offset: Offset,
        end: Offset,
        out: &mut Outbox,
    ) {
        self.streams.accepted(stream, seq);
        Self::count(Counter::Duplicates, out);
        let writer = self.writers.get_mut(&segment).expect("R14: only a writer judges");
        let committed = writer.machine.committed().unwrap_or_default();
        let decided_before = writer.machine.gate().is_open();
        if (decided_before && end <= committed) || traps::active(Trap::P2EarlyDuplicate) {
            out.push(Effect::Reply { stream, reply: FromSegd::AppendAck { seq, base_offset }, trace: None });
        } else {
            writer.duplicates.insert((end, stream, seq), base_offset);
        }
    }

    fn accept_new(
        &mut self,
        now: Tick,
        segment: SegmentId,
        (stream, seq): (StreamId, u64),
        header: &BatchHeader,
        (batch, trace): (Bytes, Option<TraceContext>),
        out: &mut Outbox,
    ) {
        let writer = self.writers.get_mut(&segment).expect("R2: only a writer assigns");
        let base = writer.machine.assign(u64::from(header.record_count));
        let next = base.plus(u64::from(header.record_count));
        let batch = batch::stamped(batch, base).expect("the shell parsed this header");
        writer.first.append.get_or_insert(now);
        writer.marks.appended(now, batch.len() as u64, u64::from(header.record_count));
        writer.sampled.extend(trace.map(|trace| (next, trace)));
        writer.unacked_bytes += batch.len();
        writer.unacked.push_back(Unacked { end: next, base, stream, seq, bytes: batch.len() });
        writer.recent_bytes += batch.len();
        writer.recent.push_back((base, next, batch.clone()));
        self.streams.accepted(stream, seq);
        self.timers.set_if_unset(TimerKey::Stall(segment), now.after_us(self.settings.stall_patience_us));
        self.write_own(segment, base, next, batch, out);
        // Followers are sent it when the roll was looked at: if this batch is the last, the seal entry rides with it.
        self.dirty.insert(segment);
    }

    /// The primary's own replica, like any other: through its fence, its table and the journal.
    pub(super) fn write_own(
        &mut self,
        segment: SegmentId,
        base: Offset,
        next: Offset,
        payload: Bytes,
        out: &mut Outbox,
    ) {
        let writer = &self.writers[&segment];
        let start = writer.machine.start().expect("R3: an open segment has a start");
        let request = WriteRequest { epoch: Epoch::PRIMARY, start, base, next, seal: None };
        self.accept_write(self.id, segment, request, None, payload, out);
    }

    /// A write for a replica of this node, from its own primary or from another writer.
    pub(super) fn accept_write(
        &mut self,
        writer: seam_wire::NodeId,
        segment: SegmentId,
        request: WriteRequest,
        table: Option<seam_wire::table::TableSnapshot>,
        payload: Bytes,
        out: &mut Outbox,
    ) {
        let Some(replica) = self.replicas.get_mut(&segment) else { return };
        if !replica.header_durable {
            return; // Asked again when it has said `Opened`.
        }
        if !covers(&payload, request.base, request.next) {
            return out.push(Effect::Note { segment, error: bad_payload(writer) });
        }
        if !replica.machine.start_written() && table.is_none() {
            // It needs the table at the start first.
            let epoch = request.epoch;
            return self.tell(writer, segment, Peer::Resend { epoch, from: request.start }, out);
        }
        match replica.machine.accept(request) {
            Accept::Write { binds_start, from, to, seal } => {
                if seal.is_some() {
                    replica.times.sealing = Some(self.now);
                }
                let mut writes = Vec::new();
                if binds_start {
                    let table = table.unwrap_or_default();
                    replica.table = crate::table::ProducerTable::from_snapshot(&table);
                    replica.start_table = table.clone();
                    writes.push(Write::Start { start: request.start, table });
                }
                if to > from {
                    let payload = tail_of(payload, from);
                    for header in batch::headers(&payload).flatten() {
                        if let Some(claim) = claim(&header) {
                            replica.table.record(&claim, header.base_offset);
                        }
                    }
                    replica.bytes += payload.len() as u64;
                    writes.push(Write::Records { epoch: request.epoch, base: from, next: to, payload });
                }
                writes.extend(seal.map(Write::Seal));
                let pending = PendingWrite::Records { epoch: request.epoch, to, seal: seal.is_some(), writer };
                self.persist(segment, writes, pending, out);
            }
            Accept::Known => {
                let stored = replica.machine.stored();
                let msg = Peer::Stored { epoch: request.epoch, durable_end: stored.durable_end, sealed: stored.sealed };
                self.tell(writer, segment, msg, out);
            }
            Accept::Resend { from } => {
                self.tell(writer, segment, Peer::Resend { epoch: request.epoch, from }, out);
            }
            Accept::Fenced { promised } => {
                Self::count(Counter::WritesFenced, out);
                self.tell(writer, segment, Peer::Fenced { promised }, out);
            }
            Accept::Ignore => {}
        }
    }

    /// Acks and shows what has become committed; acts on the segment's own decision.
    pub(super) fn drive_commit(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get(&segment) else { return };
        let trace = if writer.first.commit.is_none() { self.trace_into(segment) } else { None };
        let writer = self.writers.get_mut(&segment).expect("R4: it was just seen");
        if writer.machine.phase() == Phase::Over {
            return;
        }
        let Some(committed) = writer.machine.committed() else { return };
        let decision = writer.machine.decision();
        let committed_before = committed;
        let committed = match self.replicas.get(&segment) {
            Some(replica) if traps::active(Trap::PastCommitted) => committed.max(replica.machine.durable_end()),
            Some(_) | None => committed,
        };
        let publication = (writer.machine.start(), committed, decision.is_some());
        if writer.published != Some(publication) {
            writer.published = Some(publication);
            let start = writer.machine.start();
            // Before the acks: whoever asks for the end after an ack is told of it.
            out.push(Effect::Publish { segment, start, committed, decision, serves: true });
        }
        if writer.machine.gate().is_open() {
            ack_through(writer, committed_before, trace, out);
            writer.first.gate_opened.get_or_insert(now);
            if Some(committed) > writer.machine.start() {
                writer.first.commit.get_or_insert(now);
            }
        }
        self.report_gate(now, segment, out);
        if decision.is_some() {
            self.on_own_decision(now, segment, out);
        }
    }

    /// Tells metad how long the gate held this segment's first acks, and of each first moment after it.
    fn report_gate(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let writer = self.writers.get_mut(&segment).expect("R4: its commit is being driven");
        let Some(gate) = writer.first.stats() else { return };
        let (first, before) = (writer.first, writer.gate_reported);
        if writer.gate_reported == Some(gate) || writer.spec.prior.is_none() {
            return;
        }
        if writer.gate_reported.replace(gate).is_none() {
            Self::count(Counter::GateOpened, out);
            self.timers.cancel(TimerKey::Subscribe(segment));
        }
        let trace = self.trace_into(segment);
        if before.is_none() {
            self.step(trace, "successor.gate", segment, first.begun, out);
        }
        if before.is_none_or(|told| told.first_commit_us.is_none()) && first.commit.is_some() {
            self.step(trace, "successor.first_commit", segment, first.append.max(first.begun), out);
        }
        if before.is_none_or(|told| told.first_delivery_us.is_none()) && first.delivery.is_some() {
            self.step(trace, "successor.first_delivery", segment, first.commit, out);
        }
        self.report_after(now, self.settings.measures_delay_us, Report::GateOpened { segment, gate });
    }

    /// Records of this segment left for a tail, for the first time in this process.
    pub(super) fn on_delivered(&mut self, now: Tick, segment: SegmentId) {
        if let Some(writer) = self.writers.get_mut(&segment) {
            writer.first.delivery.get_or_insert(now);
            self.dirty.insert(segment);
        }
    }
}

/// `first`: the trace of the roll whose first acks these are; the first one on each stream carries it.
fn ack_through(writer: &mut Writer, committed: Offset, first: Option<TraceContext>, out: &mut Outbox) {
    let mut told = BTreeSet::new();
    if !writer.sampled.is_empty() {
        writer.sampled = writer.sampled.split_off(&committed.plus(1));
    }
    while let Some(unacked) = writer.unacked.front() {
        if unacked.end > committed {
            break;
        }
        let unacked = writer.unacked.pop_front().expect("R1: a front was just seen");
        writer.unacked_bytes -= unacked.bytes;
        let reply = FromSegd::AppendAck { seq: unacked.seq, base_offset: unacked.base };
        let trace = first.filter(|_| told.insert(unacked.stream));
        out.push(Effect::Reply { stream: unacked.stream, reply, trace });
    }
    while let Some((&(end, stream, seq), &base_offset)) = writer.duplicates.first_key_value() {
        if end > committed {
            break;
        }
        writer.duplicates.pop_first();
        let trace = first.filter(|_| told.insert(stream));
        out.push(Effect::Reply { stream, reply: FromSegd::AppendAck { seq, base_offset }, trace });
    }
}

/// Does `payload` consist of whole batches that make up `[base, next)`, and nothing else?
fn covers(payload: &Bytes, base: Offset, next: Offset) -> bool {
    let mut at = base;
    for header in batch::headers(payload) {
        match header {
            Ok(header) if header.base_offset == at => at = header.next_offset(),
            Ok(_) | Err(_) => return false,
        }
    }
    at == next
}

/// The batches from `from` on.
pub(super) fn tail_of(payload: Bytes, from: Offset) -> Bytes {
    let before = batch::headers(&payload).flatten().take_while(|header| header.next_offset() <= from);
    let skipped: usize = before.map(|header| header.length as usize).sum();
    payload.slice(skipped..)
}

/// The batches that end at or below `end`, and the offset after the last of them.
pub(super) fn head_of(payload: Bytes, base: Offset, end: Offset) -> (Bytes, Offset) {
    let within = batch::headers(&payload).flatten().take_while(|header| header.next_offset() <= end);
    let (bytes, next) =
        within.fold((0, base), |(bytes, _), header| (bytes + header.length as usize, header.next_offset()));
    (payload.slice(..bytes), next)
}

fn bad_payload(writer: seam_wire::NodeId) -> WireError {
    WireError::refused(ErrorCode::BadBatch, format!("{writer} sent batches that do not make up the offsets it named"))
}
