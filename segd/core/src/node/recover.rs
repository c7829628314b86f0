//! The agent's side of a recovery, and what other replicas do for it.
//!
//! The right to recover ends with the process (trap V5). Nothing is truncated and no bound moves before metad decides.

use super::persist::PendingWrite;
use super::state::{AgentState, ReadFor};
use super::write::head_of;
use super::{Node, Outbox, TimerKey};
use crate::fence::Raise;
use crate::io::{Counter, Effect, Write};
use crate::recovery::Agent;
use crate::replica::WriteRequest;
use crate::traps::{self, Trap};
use bytes::Bytes;
use seam_wire::meta::{Binder, SegmentState, SegmentView};
use seam_wire::msg::{Pace, Peer, ReplicaTail};
use seam_wire::report::{AgentStats, Report};
use seam_wire::table::TableSnapshot;
use seam_wire::{Epoch, NodeId, Offset, SegmentId, Tick};
use std::collections::BTreeSet;

impl Node {
    /// metad appointed this process as the agent of a segment's recovery.
    pub(super) fn recover_if_appointed(&mut self, now: Tick, view: &SegmentView, out: &mut Outbox) {
        let Some(recovery) = &view.recovery else { return };
        let segment = view.spec.id;
        let this_life = recovery.agent_incarnation == self.incarnation || traps::active(Trap::V5AgentResumes);
        let newer = self.agents.get(&segment).is_none_or(|agent| agent.machine.epoch() < recovery.epoch);
        if newer && self.agents.remove(&segment).is_some() {
            self.timers.cancel(TimerKey::Fence(segment)); // Of an earlier epoch: it would ask for ever.
        }
        if recovery.agent != self.id || !this_life || !newer || !matches!(view.state, SegmentState::Open { .. }) {
            return;
        }
        let machine = Agent::new(&view.spec, recovery.epoch, recovery.candidate, recovery.start);
        let machine = if recovery.loss_accepted { machine.accepting_loss() } else { machine };
        let agent = AgentState {
            machine,
            binder: recovery.binder(),
            told_undecidable: false,
            spec: view.spec.clone(),
            fetching: false,
            reported: false,
            begun: false,
            sending: BTreeSet::new(),
            appointed: now,
            stats: AgentStats::default(),
        };
        self.agents.insert(segment, agent);
        Self::count(Counter::RecoveryStarted, out);
        self.ask_replicas(now, segment, out);
    }

    /// Asks again whatever is unanswered; set in motion by a timer until metad decides. Who was silent for a whole round is
    /// not waited for where others will do.
    pub(super) fn repeat_recovery(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        if let Some(agent) = self.agents.get_mut(&segment) {
            let fixed = agent.machine.give_up_on_silent().is_some();
            self.note_fixed(now, segment, fixed, out);
        }
        self.ask_replicas(now, segment, out);
    }

    fn ask_replicas(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(agent) = self.agents.get_mut(&segment) else { return };
        agent.fetching = false;
        agent.sending.clear();
        let (epoch, loss_accepted) = (agent.machine.epoch(), matches!(agent.binder, Binder::Loss(_)));
        let missing: Vec<NodeId> =
            agent.spec.replicas.iter().copied().filter(|node| !agent.machine.has_answered(*node)).collect();
        for node in missing {
            self.tell(node, segment, Peer::Fence { epoch, loss_accepted }, out);
        }
        self.timers.set(TimerKey::Fence(segment), now.after_us(self.settings.ask_retry_us));
        self.drive_agent(now, segment, out);
    }

    /// An agent asks this node's replica for its promise.
    pub(super) fn on_fence(
        &mut self,
        from: NodeId,
        segment: SegmentId,
        (epoch, loss_accepted): (Epoch, bool),
        out: &mut Outbox,
    ) {
        let Some(replica) = self.replicas.get_mut(&segment).filter(|replica| replica.header_durable) else {
            let answer = if traps::active(Trap::V7LostDiskVotes) {
                Peer::Promised { epoch, tail: ReplicaTail { start: None, durable_end: Offset(0), seal: None } }
            } else {
                Peer::CannotAnswer { epoch }
            };
            return self.tell(from, segment, answer, out);
        };
        if traps::active(Trap::UnfencedRead) {
            let tail = replica.machine.tail();
            return self.tell(from, segment, Peer::Promised { epoch, tail }, out);
        }
        let raise = if loss_accepted {
            replica.machine.fence_accepting_loss(epoch, from)
        } else {
            replica.machine.fence(epoch, from)
        };
        match raise {
            None => self.tell(from, segment, Peer::CannotAnswer { epoch }, out),
            Some(Raise::Persist) => {
                replica.times.fencing = Some(self.now);
                if traps::active(Trap::EpochAfterReply) {
                    let tail = replica.machine.tail();
                    self.tell(from, segment, Peer::Promised { epoch, tail }, out);
                }
                self.persist(segment, vec![Write::Promise(epoch)], PendingWrite::Promise { epoch }, out);
            }
            Some(Raise::Answer) => {
                let tail = replica.machine.tail();
                self.tell(from, segment, Peer::Promised { epoch, tail }, out);
            }
            Some(Raise::Wait) => {}
            Some(Raise::Refused(promised)) => self.tell(from, segment, Peer::Fenced { promised }, out),
        }
    }

    pub(super) fn on_promised(
        &mut self,
        now: Tick,
        from: NodeId,
        segment: SegmentId,
        epoch: Epoch,
        tail: ReplicaTail,
        out: &mut Outbox,
    ) {
        let Some(agent) = self.agents.get_mut(&segment).filter(|agent| agent.machine.epoch() == epoch) else { return };
        let fixed = agent.machine.promised(from, tail).is_some();
        self.note_fixed(now, segment, fixed, out);
        self.drive_agent(now, segment, out);
    }

    /// The end is fixed: measures and the trace are told how long that took.
    fn note_fixed(&mut self, now: Tick, segment: SegmentId, fixed: bool, out: &mut Outbox) {
        let Some(agent) = self.agents.get_mut(&segment).filter(|_| fixed) else { return };
        agent.stats.fence_us = now.since(agent.appointed);
        agent.stats.promised = u8::try_from(agent.machine.promises()).unwrap_or(u8::MAX);
        let appointed = agent.appointed;
        self.step(self.trace_of(segment), "agent.fence", segment, Some(appointed), out);
    }

    /// A replica lost its disk, or does not know where its tail ends: it is not waited for.
    pub(super) fn on_cannot_answer(
        &mut self,
        now: Tick,
        from: NodeId,
        segment: SegmentId,
        epoch: Epoch,
        out: &mut Outbox,
    ) {
        let Some(agent) = self.agents.get_mut(&segment).filter(|agent| agent.machine.epoch() == epoch) else { return };
        let fixed = agent.machine.cannot_answer(from).is_some();
        if let Some(mute) = agent.machine.undecidable().filter(|_| !agent.told_undecidable) {
            agent.told_undecidable = true;
            self.report(now, Report::Undecidable { segment, epoch, mute }, out);
        }
        self.note_fixed(now, segment, fixed, out);
        self.drive_agent(now, segment, out);
    }

    /// A replica promised a higher epoch to another: this agent's recovery is over.
    pub(super) fn on_agent_fenced(&mut self, segment: SegmentId, promised: Epoch) {
        if self.agents.get(&segment).is_some_and(|agent| agent.machine.epoch() < promised) {
            self.agents.remove(&segment);
            self.timers.cancel(TimerKey::Fence(segment));
        }
    }

    /// What this node's own replica of the segment now holds, for its agent.
    pub(super) fn agent_own_progress(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(replica) = self.replicas.get(&segment) else { return };
        let Some(agent) = self.agents.get_mut(&segment) else { return };
        if agent.machine.has_answered(self.id) && replica.machine.epoch() == agent.machine.epoch() {
            agent.machine.holds(self.id, replica.machine.durable_end());
            self.drive_agent(now, segment, out);
        }
    }

    fn drive_agent(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let Some(agent) = self.agents.get_mut(&segment) else { return };
        let Some(decision) = agent.machine.decision() else { return };
        let epoch = agent.machine.epoch();
        let own = agent.machine.held_by(self.id);
        // From what was handed to the journal on: what is not durable yet is on its way, and need not come again.
        let written = self.replicas.get(&segment).and_then(|r| r.machine.start().map(|_| r.machine.written_end()));
        let from = written.unwrap_or(agent.machine.start());
        if own.is_some()
            && from < decision.end
            && !agent.fetching
            && let Some(source) = agent.machine.source(from)
        {
            agent.fetching = true;
            self.tell(source, segment, Peer::RecoveryFetch { epoch, from }, out);
        }
        if own.is_some_and(|held| held >= decision.end) {
            let behind = self.agents[&segment].machine.behind();
            for (node, held) in behind {
                self.copy_from(segment, node, held, out);
            }
            self.begin_candidate(now, segment, out);
        }
        let bytes = self.replicas.get(&segment).map_or(0, |replica| replica.bytes);
        let Some(agent) = self.agents.get_mut(&segment) else { return };
        if let Some(decision) = agent.machine.safe()
            && !agent.reported
        {
            agent.reported = true;
            Self::count(Counter::RecoveryDone, out);
            agent.stats.safe_us = now.since(agent.appointed);
            agent.stats.bytes = bytes;
            let (end, next, stats) = (decision.end, decision.next, agent.stats);
            let fenced = agent.appointed.after_us(stats.fence_us);
            self.step(self.trace_of(segment), "agent.copy", segment, Some(fenced), out);
            let report = Report::Recovered { segment, epoch, end, next, stats };
            self.report(now, report, out);
        }
    }

    /// The agent's own candidate begins at once; its gate stays shut until metad decides.
    fn begin_candidate(&mut self, now: Tick, segment: SegmentId, out: &mut Outbox) {
        let agent = &self.agents[&segment];
        let Some(decision) = agent.machine.decision() else { return };
        let candidate = agent.machine.candidate();
        if decision.next != candidate || agent.begun {
            return;
        }
        let Some(view) = self.views.get(&candidate) else { return };
        let Some(replica) = self.replicas.get(&segment) else { return };
        if !replica.machine.start_written() || replica.machine.written_end() != decision.end {
            // It holds more than was decided, or never learnt its start and so has no table: once metad has decided, the
            // candidate's primary asks those who have one.
            return;
        }
        let msg = Peer::Begin {
            prior: segment,
            binder: agent.binder,
            end: decision.end,
            delta: replica.table.snapshot(),
            removed: Vec::new(),
            table_hash: replica.table.stable_hash(),
            pace: Pace::default(),
        };
        let to = view.spec.primary();
        if let Some(agent) = self.agents.get_mut(&segment) {
            agent.stats.begin_us.get_or_insert(now.since(agent.appointed));
        }
        self.tell(to, candidate, msg, out);
    }

    pub(super) fn on_recovery_begun(&mut self, candidate: SegmentId) {
        for agent in self.agents.values_mut().filter(|agent| agent.machine.candidate() == candidate) {
            agent.begun = true;
        }
    }

    /// Another node's agent reads from this replica.
    pub(super) fn on_recovery_fetch(
        &mut self,
        from: NodeId,
        segment: SegmentId,
        epoch: Epoch,
        at: Offset,
        out: &mut Outbox,
    ) {
        let Some(replica) = self.replicas.get(&segment) else { return };
        if replica.machine.epoch() != epoch {
            return;
        }
        self.read(segment, at, ReadFor::Agent { segment, node: from }, out);
    }

    fn read(&mut self, segment: SegmentId, from: Offset, whom: ReadFor, out: &mut Outbox) {
        let token = self.token();
        self.reads.insert(token, whom);
        out.push(Effect::Read { token, segment, from, max_bytes: self.settings.chunk_bytes });
    }

    pub(super) fn send_to_agent(
        &mut self,
        segment: SegmentId,
        node: NodeId,
        (base, next, payload): (Offset, Offset, Bytes),
        out: &mut Outbox,
    ) {
        let Some(replica) = self.replicas.get(&segment) else { return };
        let Some(start) = replica.machine.start() else { return };
        let epoch = replica.machine.epoch();
        let table = (base == start).then(|| replica.start_table.clone());
        self.send(node, segment, Peer::RecoveryData { epoch, base, next, table, start }, payload, out);
    }

    pub(super) fn on_recovery_data(
        &mut self,
        now: Tick,
        (segment, epoch): (SegmentId, Epoch),
        (start, base): (Offset, Offset),
        table: Option<TableSnapshot>,
        payload: Bytes,
        out: &mut Outbox,
    ) {
        let Some(agent) = self.agents.get_mut(&segment).filter(|agent| agent.machine.epoch() == epoch) else { return };
        let Some(decision) = agent.machine.decision() else { return };
        // A source that answered late may hold more than the end that was fixed.
        let (payload, next) = head_of(payload, base, decision.end);
        if next == base {
            return; // It had nothing: another is asked when the timer says so.
        }
        agent.stats.copied_records += base.until(next);
        let written = |node: &Node| node.replicas.get(&segment).map(|replica| replica.machine.written_end());
        let before = written(self);
        let request = WriteRequest { epoch, start, base, next, seal: None };
        self.accept_write(self.id, segment, request, table, payload, out);
        if written(self) > before
            && let Some(agent) = self.agents.get_mut(&segment)
        {
            agent.fetching = false;
            self.drive_agent(now, segment, out);
        }
    }

    /// Brings a replica up to the end, from this node's own replica.
    pub(super) fn copy_from(&mut self, segment: SegmentId, node: NodeId, at: Offset, out: &mut Outbox) {
        let Some(agent) = self.agents.get_mut(&segment) else { return };
        if agent.machine.decision().is_none() || node == self.id || !agent.sending.insert(node) {
            return;
        }
        let from = at.max(agent.machine.start());
        self.read(segment, from, ReadFor::Copy { segment, node }, out);
    }

    pub(super) fn send_copy(
        &mut self,
        segment: SegmentId,
        node: NodeId,
        (base, _, payload): (Offset, Offset, Bytes),
        out: &mut Outbox,
    ) {
        let Some(agent) = self.agents.get_mut(&segment) else { return };
        agent.sending.remove(&node);
        let Some(decision) = agent.machine.decision() else { return };
        let Some(replica) = self.replicas.get(&segment) else { return };
        let start = agent.machine.start();
        let (payload, next) = head_of(payload, base, decision.end);
        let seal =
            if traps::active(Trap::V2CopiesVote) && next == decision.end { replica.machine.tail().seal } else { None };
        if next == base && seal.is_none() {
            return;
        }
        let table = (base == start).then(|| replica.start_table.clone());
        agent.stats.copied_records += base.until(next);
        let epoch = agent.machine.epoch();
        let msg = Peer::Replicate { epoch, start, base, next, committed: start, seal, table };
        self.send(node, segment, msg, payload, out);
    }

    pub(super) fn on_copied(
        &mut self,
        now: Tick,
        from: NodeId,
        segment: SegmentId,
        epoch: Epoch,
        durable_end: Offset,
        out: &mut Outbox,
    ) {
        let Some(agent) = self.agents.get_mut(&segment).filter(|agent| agent.machine.epoch() == epoch) else { return };
        agent.machine.holds(from, durable_end);
        self.drive_agent(now, segment, out);
    }
}
