//! What followers are sent: everything above what they hold, in order, within a window; again when they make no progress.

use super::state::{Follower, ReadFor};
use super::{Node, Outbox, TimerKey};
use crate::io::{Counter, Effect};
use crate::primary::Phase;
use bytes::{Bytes, BytesMut};
use seam_wire::msg::{Peer, SealEntry};
use seam_wire::{Epoch, NodeId, Offset, SegmentId, Tick};

impl Node {
    /// The start is bound and `node` has the segment open: send it what there is.
    pub(super) fn start_follower(&mut self, now: Tick, segment: SegmentId, node: NodeId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let Some(start) = writer.machine.start() else { return };
        let Some(follower) = writer.followers.get_mut(&node) else { return };
        follower.sent_next.get_or_insert(start);
        self.pump(now, segment, node, out);
    }

    pub(super) fn pump_all(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(writer) = self.writers.get(&segment) else { return };
        let nodes: Vec<NodeId> = writer.followers.keys().copied().collect();
        for node in nodes {
            self.pump(now, segment, node, out);
        }
    }

    fn pump(&mut self, now: Tick, segment: SegmentId, node: NodeId, out: &mut Outbox) {
        loop {
            let Some(writer) = self.writers.get(&segment) else { return };
            let Some(follower) = writer.followers.get(&node) else { return };
            let Some(from) = follower.sent_next else { return };
            if writer.machine.phase() == Phase::Over || follower.reading {
                return;
            }
            if from >= writer.machine.assigned() && follower.has_start | follower.last_seen.is_some() {
                return self.send_seal(now, segment, node, from, out);
            }
            if follower.in_flight_bytes >= self.settings.follower_window_bytes {
                return;
            }
            match gather(&writer.recent, from, self.settings.chunk_bytes as usize) {
                Some((next, payload)) => self.send_records(now, segment, node, (from, next, payload), out),
                None if from < writer.machine.assigned() => return self.read_for(segment, node, from, out),
                None => self.send_records(now, segment, node, (from, from, Bytes::new()), out), // The start alone.
            }
        }
    }

    pub(super) fn send_records(
        &mut self,
        now: Tick,
        segment: SegmentId,
        node: NodeId,
        (base, next, payload): (Offset, Offset, Bytes),
        out: &mut Outbox,
    ) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let Some(follower) = writer.followers.get_mut(&node) else { return };
        let needs_table = !follower.has_start;
        follower.sent_next = Some(next);
        follower.in_flight.push_back((next, payload.len()));
        follower.in_flight_bytes += payload.len();
        follower.last_seen.get_or_insert((base, false));
        // The seal entry rides in the last message where there is one.
        let seal = writer.seal().filter(|seal| seal.end == next);
        writer.followers.get_mut(&node).expect("R1: it was just seen").seal_sent = seal.is_some();
        self.replicate(segment, node, (base, next, payload), seal, needs_table, out);
        self.timers.set_if_unset(TimerKey::Resend(segment, node), now.after_us(self.settings.resend_us));
    }

    fn send_seal(&mut self, now: Tick, segment: SegmentId, node: NodeId, at: Offset, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let Some(seal) = writer.seal() else { return };
        let Some(follower) = writer.followers.get_mut(&node) else { return };
        if follower.seal_sent {
            return;
        }
        follower.seal_sent = true;
        let needs_table = !follower.has_start;
        self.replicate(segment, node, (at, at, Bytes::new()), Some(seal), needs_table, out);
        self.timers.set_if_unset(TimerKey::Resend(segment, node), now.after_us(self.settings.resend_us));
    }

    fn replicate(
        &mut self,
        segment: SegmentId,
        node: NodeId,
        (base, next, payload): (Offset, Offset, Bytes),
        seal: Option<SealEntry>,
        needs_table: bool,
        out: &mut Outbox,
    ) {
        let writer = &self.writers[&segment];
        let start = writer.machine.start().expect("R3: only a begun segment replicates");
        let committed = writer.machine.committed().unwrap_or(start);
        let table = needs_table.then(|| self.replicas[&segment].start_table.clone());
        let sampled = writer.sampled.range(base.plus(1)..=next.max(base.plus(1))).next().map(|(_, trace)| *trace);
        let msg = Peer::Replicate { epoch: Epoch::PRIMARY, start, base, next, committed, seal, table };
        let trace = self.frame_trace(segment, &msg).or(sampled);
        self.send_traced(node, segment, msg, payload, trace, out);
    }

    fn read_for(&mut self, segment: SegmentId, node: NodeId, from: Offset, out: &mut Outbox) {
        let token = self.token();
        let writer = self.writers.get_mut(&segment).expect("R1: it was just seen");
        writer.followers.get_mut(&node).expect("R1: it was just seen").reading = true;
        self.reads.insert(token, ReadFor::Follower { segment, node });
        out.push(Effect::Read { token, segment, from, max_bytes: self.settings.chunk_bytes });
    }

    pub(super) fn on_read_done(
        &mut self,
        now: Tick,
        token: crate::io::Token,
        base: Offset,
        next: Offset,
        payload: Bytes,
        out: &mut Outbox,
    ) {
        match self.reads.remove(&token) {
            Some(ReadFor::Follower { segment, node }) => {
                let Some(writer) = self.writers.get_mut(&segment) else { return };
                let Some(follower) = writer.followers.get_mut(&node) else { return };
                follower.reading = false;
                if next > base && follower.sent_next == Some(base) {
                    self.send_records(now, segment, node, (base, next, payload), out);
                }
                self.pump(now, segment, node, out);
            }
            Some(ReadFor::Agent { segment, node }) => self.send_to_agent(segment, node, (base, next, payload), out),
            Some(ReadFor::Copy { segment, node }) => self.send_copy(segment, node, (base, next, payload), out),
            None => {}
        }
    }

    pub(super) fn on_stored(
        &mut self,
        now: Tick,
        from: NodeId,
        segment: SegmentId,
        epoch: Epoch,
        (durable_end, sealed): (Offset, bool),
        out: &mut Outbox,
    ) {
        if epoch != Epoch::PRIMARY {
            return self.on_copied(now, from, segment, epoch, durable_end, out);
        }
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.machine.phase() == Phase::Over || writer.machine.start().is_none() {
            return;
        }
        writer.machine.stored(from, durable_end, sealed);
        if let Some(follower) = writer.followers.get_mut(&from) {
            follower.has_start = true;
            stored_through(follower, durable_end);
        }
        self.forget_recent(segment);
        self.pump(now, segment, from, out);
        self.dirty.insert(segment);
        if sealed {
            self.retire_if_done(segment, out);
        }
    }

    /// Records that every follower holds, or that are too many to keep, leave memory; the store has them.
    fn forget_recent(&mut self, segment: SegmentId) {
        let limit = self.settings.recent_bytes;
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let held = |node: &NodeId| writer.machine.quorum().held_by(*node).unwrap_or_default();
        let everywhere = writer.followers.keys().map(held).min().unwrap_or(writer.machine.assigned());
        while let Some((_, next, batch)) = writer.recent.front() {
            if *next > everywhere && writer.recent_bytes <= limit {
                return;
            }
            writer.recent_bytes -= batch.len();
            writer.recent.pop_front();
        }
    }

    pub(super) fn on_resend(
        &mut self,
        now: Tick,
        from: NodeId,
        segment: SegmentId,
        epoch: Epoch,
        at: Offset,
        out: &mut Outbox,
    ) {
        if epoch != Epoch::PRIMARY {
            return self.copy_from(segment, from, at, out);
        }
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let Some(start) = writer.machine.start() else { return };
        let Some(follower) = writer.followers.get_mut(&from) else { return };
        if at <= start {
            follower.has_start = false;
        }
        set_back(follower, at.max(start));
        Self::count(Counter::Resends, out);
        self.pump(now, segment, from, out);
    }

    /// What was sent to this peer before may be lost: begin again from what it is known to hold.
    pub(super) fn on_peer_up(&mut self, now: Tick, peer: NodeId, out: &mut Outbox) {
        let segments: Vec<SegmentId> = self.writers.keys().copied().collect();
        for segment in segments {
            self.resend_from_held(now, segment, peer, out);
        }
        self.resubscribe_to(now, peer, out);
    }

    fn resend_from_held(&mut self, now: Tick, segment: SegmentId, node: NodeId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        let Some(start) = writer.machine.start() else { return };
        let held = writer.machine.quorum().held_by(node);
        let Some(follower) = writer.followers.get_mut(&node) else { return };
        if follower.sent_next.is_none() {
            return;
        }
        set_back(follower, held.unwrap_or(start));
        follower.last_seen = None;
        Self::count(Counter::Resends, out);
        self.pump(now, segment, node, out);
    }

    /// The resend timer of one follower: still behind, and no further than last time? Send again.
    pub(super) fn check_follower(&mut self, now: Tick, segment: SegmentId, node: NodeId, out: &mut Outbox) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if writer.machine.phase() == Phase::Over {
            return;
        }
        let held = writer.machine.quorum().held_by(node).unwrap_or_default();
        let sealed = writer.machine.quorum().seal_held_by(node);
        let behind = held < writer.machine.assigned()
            || (writer.seal().is_some() && !sealed)
            || writer.followers.get(&node).is_some_and(|follower| !follower.has_start);
        let Some(follower) = writer.followers.get_mut(&node) else { return };
        if !behind || follower.sent_next.is_none() {
            return;
        }
        let stuck = follower.last_seen == Some((held, sealed));
        if stuck {
            self.resend_from_held(now, segment, node, out);
        }
        let writer = self.writers.get_mut(&segment).expect("R1: it was just seen");
        if let Some(follower) = writer.followers.get_mut(&node) {
            follower.last_seen = Some((held, sealed));
        }
        self.timers.set(TimerKey::Resend(segment, node), now.after_us(self.settings.resend_us));
    }

    /// A follower promised an agent: it takes nothing from this primary any more.
    pub(super) fn on_follower_fenced(&mut self, from: NodeId, segment: SegmentId) {
        let Some(writer) = self.writers.get_mut(&segment) else { return };
        if let Some(follower) = writer.followers.get_mut(&from) {
            follower.sent_next = None;
        }
    }
}

fn set_back(follower: &mut Follower, to: Offset) {
    follower.sent_next = Some(to);
    follower.seal_sent = false;
    follower.in_flight.clear();
    follower.in_flight_bytes = 0;
}

fn stored_through(follower: &mut Follower, durable_end: Offset) {
    while let Some((next, bytes)) = follower.in_flight.front() {
        if *next > durable_end {
            return;
        }
        follower.in_flight_bytes -= bytes;
        follower.in_flight.pop_front();
    }
}

/// Whole batches from `from` on, up to `max_bytes` (at least one); `None` if they are not in memory.
fn gather(
    recent: &std::collections::VecDeque<(Offset, Offset, Bytes)>,
    from: Offset,
    max_bytes: usize,
) -> Option<(Offset, Bytes)> {
    let first = recent.partition_point(|(base, _, _)| *base < from);
    let (base, next, batch) = recent.get(first)?;
    if *base != from {
        return None;
    }
    let mut next = *next;
    let mut count = 1;
    let mut bytes = batch.len();
    for (_, end, batch) in recent.iter().skip(first + 1) {
        if bytes + batch.len() > max_bytes {
            break;
        }
        bytes += batch.len();
        next = *end;
        count += 1;
    }
    if count == 1 {
        return Some((next, batch.clone()));
    }
    let mut payload = BytesMut::with_capacity(bytes);
    recent.iter().skip(first).take(count).for_each(|(_, _, batch)| payload.extend_from_slice(batch));
    Some((next, payload.freeze()))
}
