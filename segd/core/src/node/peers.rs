//! Messages from other nodes (and from this node to itself), to the file that knows what to do.

use super::begin::BeginMessage;
use super::{Node, Outbox};
use crate::replica::WriteRequest;
use bytes::Bytes;
use seam_wire::msg::Peer;
use seam_wire::{NodeId, SegmentId, Tick};

impl Node {
    pub(super) fn on_peer(
        &mut self,
        now: Tick,
        from: NodeId,
        segment: SegmentId,
        msg: Peer,
        payload: Bytes,
        out: &mut Outbox,
    ) {
        match msg {
            Peer::Open => self.on_open(from, segment, out),
            Peer::Opened => self.on_opened(now, from, segment, out),
            Peer::Replicate { epoch, start, base, next, committed, seal, table } => {
                let request = WriteRequest { epoch, start, base, next, seal };
                self.accept_write(from, segment, request, table, payload, out);
                if let Some(replica) = self.replicas.get_mut(&segment) {
                    replica.committed = replica.committed.max(committed);
                }
            }
            Peer::Stored { epoch, durable_end, sealed } => {
                self.on_stored(now, from, segment, epoch, (durable_end, sealed), out);
            }
            Peer::Resend { epoch, from: at } => self.on_resend(now, from, segment, epoch, at, out),
            Peer::Fenced { promised } => {
                self.on_follower_fenced(from, segment);
                self.on_agent_fenced(segment, promised);
            }
            Peer::Ping { nonce } => {
                if self.writers.contains_key(&segment) {
                    self.tell(from, segment, Peer::Pong { nonce }, out);
                }
            }
            Peer::Pong { nonce } => self.on_pong(segment, nonce),
            Peer::Table { prior, end, snapshot } => self.on_table(now, segment, prior, end, &snapshot, out),
            Peer::TableRequest { prior } => self.on_table_request(from, segment, prior, out),
            Peer::Begin { prior, binder, end, delta, removed, table_hash, pace } => {
                let begin = BeginMessage { prior, binder, end, delta, removed, table_hash, pace };
                self.on_begin(now, from, segment, begin, out);
            }
            Peer::Begun { start: _ } => {
                self.on_begun(now, segment, out);
                self.on_recovery_begun(segment);
            }
            Peer::SubscribeSeal { watcher } => self.on_subscribe(from, segment, watcher, out),
            Peer::SealHeld { seal } => self.on_seal_held(now, from, segment, seal, out),
            Peer::Decided { decision } => self.decide_replica(segment, decision, out),
            Peer::Fence { epoch, loss_accepted } => self.on_fence(from, segment, (epoch, loss_accepted), out),
            Peer::Promised { epoch, tail } => self.on_promised(now, from, segment, epoch, tail, out),
            Peer::CannotAnswer { epoch } => self.on_cannot_answer(now, from, segment, epoch, out),
            Peer::RecoveryFetch { epoch, from: at } => self.on_recovery_fetch(from, segment, epoch, at, out),
            Peer::RecoveryData { epoch, base, next: _, table, start } => {
                self.on_recovery_data(now, (segment, epoch), (start, base), table, payload, out);
            }
        }
    }
}
