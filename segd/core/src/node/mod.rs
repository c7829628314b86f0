//! A segd node: its replicas, the segments it writes, the recoveries it runs, composed of the sub-machines beside timers and
//! rates.
//!
//! Four verbs: `handle` decides and leaves effects in the outbox, `next_deadline` says when to come back, `load` says how
//! busy it is, `assert_invariants` holds after every call. One file a concern: `views` (what metad says), `open` (replicas
//! come to be), `forget` (and go), `gap` (what stands for an accepted loss), `write` (appends and acks), `replicate` (followers), `roll` (announce, switch, begin, gate), `recover`
//! (the agent), `peers` (who said what), `reports` (to metad), `streams` (routers).

mod begin;
mod forget;
mod found;
mod gap;
mod open;
mod peers;
mod persist;
mod recover;
mod replicate;
mod reports;
mod roll;
mod settings;
mod state;
mod streams;
mod timers;
mod trace;
mod views;
mod write;

pub use settings::Settings;
pub use state::{Load, RestoredReplica};
pub use write::claim;

use crate::io::{Counter, Effect, Input, Token};
use bytes::Bytes;
use found::Founding;
use persist::PendingWrite;
use reports::Reports;
use seam_wire::meta::{NodeView, SegmentView};
use seam_wire::msg::Peer;
use seam_wire::{Incarnation, NodeId, SegmentId, Tick, TopicId, TraceContext};
use state::{AgentState, Held, ReplicaState, Writer};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use streams::Streams;
use timers::{TimerKey, Timers};

/// Effects of one `handle`, in order.
pub type Outbox = Vec<Effect>;

pub struct Node {
    id: NodeId,
    incarnation: Incarnation,
    settings: Settings,
    views: BTreeMap<SegmentId, SegmentView>,
    nodes: BTreeMap<NodeId, NodeView>,
    /// Deleted topics: all their segments are reclaimed, those of the chain too.
    deleted: BTreeSet<TopicId>,
    founding: Founding,
    replicas: BTreeMap<SegmentId, ReplicaState>,
    /// Who asked for segments that metad has not told this node of yet; bounded.
    early_opens: BTreeMap<SegmentId, NodeId>,
    writers: BTreeMap<SegmentId, Writer>,
    agents: BTreeMap<SegmentId, AgentState>,
    streams: Streams,
    reports: Reports,
    timers: Timers,
    /// Journal writes under way, oldest first.
    persisting: VecDeque<(Token, SegmentId, PendingWrite)>,
    reads: BTreeMap<Token, state::ReadFor>,
    next_token: u64,
    /// Messages from this node to itself: a primary and its own replica may be one node, P and Q too.
    loopback: VecDeque<(SegmentId, Peer, Bytes)>,
    /// The journal failed: this disk acks nothing any more.
    failed: bool,
    /// Segments whose roll, gate or commit must be looked at before `handle` returns.
    dirty: BTreeSet<SegmentId>,
    /// The time of the input at hand, for measures.
    now: Tick,
}

impl Node {
    /// A node at the start of one life. `restored` is what its disk holds; rights to write, begin and recover are not among it.
    /// `founded` is the disk's mark (`Effect::Found`); `None` on a disk that never had one.
    pub fn new(
        id: NodeId,
        incarnation: Incarnation,
        settings: Settings,
        founded: Option<SegmentId>,
        restored: Vec<RestoredReplica>,
    ) -> Self {
        let replicas = restored.into_iter().map(|replica| (replica.spec.id, ReplicaState::restored(replica))).collect();
        Node {
            id,
            incarnation,
            settings,
            views: BTreeMap::new(),
            nodes: BTreeMap::new(),
            deleted: BTreeSet::new(),
            founding: Founding::of(founded),
            replicas,
            early_opens: BTreeMap::new(),
            writers: BTreeMap::new(),
            agents: BTreeMap::new(),
            streams: Streams::default(),
            reports: Reports::default(),
            timers: Timers::default(),
            persisting: VecDeque::new(),
            reads: BTreeMap::new(),
            next_token: 1,
            loopback: VecDeque::new(),
            failed: false,
            dirty: BTreeSet::new(),
            now: Tick::default(),
        }
    }

    /// Takes one input; what is to be done about it goes to `out`.
    pub fn handle(&mut self, now: Tick, input: Input, out: &mut Outbox) {
        if self.failed {
            return;
        }
        self.now = now;
        match input {
            Input::Meta(update) => self.on_meta(now, update, out),
            Input::Registered { next_segment } => self.on_registered(next_segment, out),
            Input::Founded { first } => self.on_founded(now, first, out),
            Input::PeerUp(peer) => self.on_peer_up(now, peer, out),
            Input::Peer { from, segment, msg, payload, trace } => {
                if trace.is_some() {
                    self.learn_trace(segment, &msg, trace);
                }
                self.on_peer(now, from, segment, msg, payload, out);
            }
            Input::StreamOpen { stream, segment } => self.on_stream_open(stream, segment, out),
            Input::Append { stream, seq, header, batch, trace } => {
                self.on_append(now, Held { stream, seq, header, batch, trace }, out);
            }
            Input::StreamClosed { stream } => self.streams.close(stream),
            Input::Persisted { token } => self.on_persisted(now, token, out),
            Input::Delivered { segment } => self.on_delivered(now, segment),
            Input::JournalFailed => self.on_journal_failed(out),
            Input::ReadDone { token, base, next, payload } => self.on_read_done(now, token, base, next, payload, out),
            Input::ReportAnswered { id, done } => self.on_report_answered(now, id, done),
            Input::Tick => {}
        }
        self.run_timers(now, out);
        self.settle(now, out);
    }

    /// When `Input::Tick` is due, if nothing else comes before.
    pub fn next_deadline(&self) -> Option<Tick> {
        // Out of service, nothing is due any more: a deadline that is never met would be asked for again at once, for ever.
        if self.failed { None } else { self.timers.next() }
    }

    /// Loopback messages and segments marked dirty, until nothing is left to do.
    fn settle(&mut self, now: Tick, out: &mut Outbox) {
        loop {
            if let Some((segment, msg, payload)) = self.loopback.pop_front() {
                self.on_peer(now, self.id, segment, msg, payload, out);
            } else if let Some(segment) = self.dirty.pop_first() {
                self.drive_commit(now, segment, out);
                self.drive_roll(now, segment, out);
                self.pump_all(now, segment, out);
            } else {
                return;
            }
        }
    }

    fn on_journal_failed(&mut self, out: &mut Outbox) {
        self.failed = true;
        for writer in self.writers.values_mut() {
            writer.machine.end();
        }
        for stream in self.streams.all() {
            out.push(Effect::CloseStream { stream });
        }
    }

    fn send(&mut self, to: NodeId, segment: SegmentId, msg: Peer, payload: Bytes, out: &mut Outbox) {
        let trace = self.frame_trace(segment, &msg);
        self.send_traced(to, segment, msg, payload, trace, out);
    }

    fn send_traced(
        &mut self,
        to: NodeId,
        segment: SegmentId,
        msg: Peer,
        payload: Bytes,
        trace: Option<TraceContext>,
        out: &mut Outbox,
    ) {
        if to == self.id {
            self.loopback.push_back((segment, msg, payload));
        } else {
            out.push(Effect::Send { to, segment, msg, payload, trace });
        }
    }

    fn tell(&mut self, to: NodeId, segment: SegmentId, msg: Peer, out: &mut Outbox) {
        self.send(to, segment, msg, Bytes::new(), out);
    }

    fn token(&mut self) -> Token {
        let token = Token(self.next_token);
        self.next_token += 1;
        token
    }

    fn count(counter: Counter, out: &mut Outbox) {
        out.push(Effect::Count(counter));
    }

    /// Every invariant a snapshot of one node can refute. Called by the simulator after every event.
    pub fn assert_invariants(&self) {
        for (id, writer) in &self.writers {
            writer.assert_invariants();
            let replica = &self.replicas[id];
            if let (Some(own), Some(start)) = (replica.machine.start(), writer.machine.start()) {
                assert_eq!(own, start, "R3: {id} has one start on its primary and its own replica");
            }
        }
        for replica in self.replicas.values() {
            replica.assert_invariants();
        }
    }

    /// How busy this node is, for heartbeats.
    pub fn load(&self, now: Tick) -> Load {
        let open = |writer: &&Writer| writer.machine.phase() == crate::primary::Phase::Open;
        let rates = self.writers.values().filter(open).map(|writer| writer.marks.pace(now).rate_bytes_per_s);
        let open = self.replicas.values().filter(|replica| replica.machine.decision().is_none()).count();
        Load { write_bytes_per_s: rates.sum(), open_segments: u32::try_from(open).unwrap_or(u32::MAX) }
    }

    /// Replicas that answer nobody, since the end on their disk may not be the end that was acked. The next life must know.
    pub fn unknown_tails(&self) -> BTreeSet<SegmentId> {
        let unknown = |(_, state): &(&SegmentId, &ReplicaState)| !state.machine.tail_known();
        self.replicas.iter().filter(unknown).map(|(id, _)| *id).collect()
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    pub fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// For tests and tools: the replica of a segment held here.
    pub fn replica(&self, segment: SegmentId) -> Option<&crate::replica::Replica> {
        self.replicas.get(&segment).map(|state| &state.machine)
    }

    /// For tests and tools: the segment's primary, if this node is it in this life.
    pub fn primary(&self, segment: SegmentId) -> Option<&crate::primary::Primary> {
        self.writers.get(&segment).map(|writer| &writer.machine)
    }
}
