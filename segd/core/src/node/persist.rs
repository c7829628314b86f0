//! Journal writes and what their completion allows: replies leave only after what they rely on is durable.

use super::{Node, Outbox, TimerKey};
use crate::io::{Durability, Effect, Token, Write};
use crate::traps::{self, Trap};
use seam_wire::msg::Peer;
use seam_wire::{Epoch, NodeId, Offset, SegmentId, Tick};

/// What waits for a journal write.
#[derive(Clone, Copy, Debug)]
pub(super) enum PendingWrite {
    Header,
    Records { epoch: Epoch, to: Offset, seal: bool, writer: NodeId },
    Promise { epoch: Epoch },
    Decided,
}

impl PendingWrite {
    /// Whatever waits for `self` may be told when `later` is durable.
    fn is_covered_by(&self, later: &PendingWrite) -> bool {
        match (self, later) {
            (
                PendingWrite::Records { epoch, to, seal: _, writer },
                PendingWrite::Records { epoch: later_epoch, to: later_to, seal: _, writer: later_writer },
            ) => epoch == later_epoch && writer == later_writer && to <= later_to,
            (_, _) => false,
        }
    }
}

impl Node {
    pub(super) fn persist(&mut self, segment: SegmentId, writes: Vec<Write>, pending: PendingWrite, out: &mut Outbox) {
        let token = self.token();
        let durability = match pending {
            PendingWrite::Records { .. } if traps::active(Trap::AckBeforeSync) => Durability::Received,
            PendingWrite::Records { seal: false, .. } => {
                self.replicas.get(&segment).map_or(Durability::Synced, |state| state.spec.config.ack.into())
            }
            PendingWrite::Header
            | PendingWrite::Records { seal: true, .. }
            | PendingWrite::Promise { .. }
            | PendingWrite::Decided => Durability::Synced,
        };
        self.persisting.push_back((token, segment, pending));
        out.push(Effect::Persist { token, segment, writes, durability });
    }

    /// A write that goes into the journal with the one before it, where that is of the same segment and still in `out`:
    /// the seal entry does not wait for a sync of its own behind the last batch.
    pub(super) fn persist_with_last(
        &mut self,
        segment: SegmentId,
        write: Write,
        pending: PendingWrite,
        out: &mut Outbox,
    ) {
        if let Some((last, of, before)) = self.persisting.back_mut()
            && *of == segment
            && before.is_covered_by(&pending)
            && let Some(Effect::Persist { writes, durability, .. }) =
                out.iter_mut().rev().find(|effect| matches!(effect, Effect::Persist { token, .. } if token == last))
        {
            writes.push(write);
            *durability = Durability::Synced;
            *before = pending;
        } else {
            self.persist(segment, vec![write], pending, out);
        }
    }

    pub(super) fn on_persisted(&mut self, now: Tick, token: Token, out: &mut Outbox) {
        while self.persisting.front().is_some_and(|(pending, _, _)| *pending <= token) {
            let (_, segment, pending) = self.persisting.pop_front().expect("R1: a front was just seen");
            self.on_written(now, segment, pending, out);
        }
    }

    fn on_written(&mut self, now: Tick, segment: SegmentId, pending: PendingWrite, out: &mut Outbox) {
        match pending {
            PendingWrite::Header => self.on_header_durable(now, segment, out),
            PendingWrite::Records { epoch, to, seal, writer } => {
                self.on_records_durable(now, segment, (epoch, to, seal), writer, out);
            }
            PendingWrite::Promise { epoch } => self.on_promise_durable(segment, epoch, out),
            PendingWrite::Decided => {}
        }
    }

    fn on_records_durable(
        &mut self,
        now: Tick,
        segment: SegmentId,
        (epoch, to, seal): (Epoch, Offset, bool),
        writer: NodeId,
        out: &mut Outbox,
    ) {
        let Some(replica) = self.replicas.get_mut(&segment) else { return };
        // Persist before sending: the writer hears of it, and the gate counts it, only now.
        let stored = replica.machine.persisted(epoch, to, seal);
        if let Some(stored) = stored {
            let msg = Peer::Stored { epoch, durable_end: stored.durable_end, sealed: stored.sealed };
            self.tell(writer, segment, msg, out);
        }
        if seal {
            let sealing = self.replicas.get_mut(&segment).and_then(|replica| replica.times.sealing.take());
            self.step(self.trace_of(segment), "replica.seal", segment, sealing, out);
            self.push_votes(segment, out);
        }
        self.publish_if_complete(segment, out);
        self.agent_own_progress(now, segment, out);
    }

    fn on_promise_durable(&mut self, segment: SegmentId, epoch: Epoch, out: &mut Outbox) {
        let Some(replica) = self.replicas.get_mut(&segment) else { return };
        let fencing = replica.times.fencing.take();
        if let Some((agent, tail)) = replica.machine.promised(epoch) {
            self.step(self.trace_of(segment), "replica.promise", segment, fencing, out);
            self.tell(agent, segment, Peer::Promised { epoch, tail }, out);
        }
        if let Some(writer) = self.writers.get_mut(&segment) {
            writer.machine.end(); // R8: this node's own replica is fenced; its primary is over.
            self.timers.cancel(TimerKey::Roll(segment));
        }
    }

    /// Tells every subscribed successor's primary that this replica holds the seal entry, if it may say so.
    pub(super) fn push_votes(&mut self, segment: SegmentId, out: &mut Outbox) {
        let Some(replica) = self.replicas.get(&segment) else { return };
        let Some(seal) = replica.machine.vote() else { return };
        let watchers: Vec<NodeId> = replica.machine.watchers().map(|(node, _)| node).collect();
        for node in watchers {
            self.tell(node, segment, Peer::SealHeld { seal }, out);
        }
    }

    /// A replica that holds the decided end serves reads.
    pub(super) fn publish_if_complete(&mut self, segment: SegmentId, out: &mut Outbox) {
        if self.writers.contains_key(&segment) {
            return; // The primary publishes as it commits.
        }
        let Some(replica) = self.replicas.get(&segment) else { return };
        if let Some((start, end)) = replica.machine.complete() {
            let decision = replica.machine.decision();
            out.push(Effect::Publish { segment, start: Some(start), committed: end, decision, serves: true });
        }
    }
}
