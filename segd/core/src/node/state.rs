//! What a node keeps per segment: a replica beside its producer table, and, where it is the primary, the writer around it.

use super::begin::BeginMessage;
use crate::handoff::Handoff;
use crate::io::StreamId;
use crate::marks::Marks;
use crate::primary::Primary;
use crate::recovery::Agent;
use crate::replica::{Replica, RestoredState};
use crate::table::ProducerTable;
use bytes::Bytes;
use seam_wire::batch::BatchHeader;
use seam_wire::meta::{Binder, RollReason, SegmentSpec};
use seam_wire::msg::{Pace, SealEntry};
use seam_wire::report::{AgentStats, GateStats, RollStats};
use seam_wire::table::TableSnapshot;
use seam_wire::{NodeId, Offset, SegmentId, Tick, TraceContext};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A replica as its disk has it at a restart. `table` covers everything below `state.durable_end`.
#[derive(Clone, Debug)]
pub struct RestoredReplica {
    pub spec: SegmentSpec,
    pub state: RestoredState,
    /// The producer table at the start, from the segment's header.
    pub start_table: TableSnapshot,
    pub table: ProducerTable,
    /// Of the batches it holds.
    pub bytes: u64,
}

/// How busy a node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub write_bytes_per_s: u64,
    pub open_segments: u32,
}

#[derive(Debug)]
pub(super) struct ReplicaState {
    pub spec: SegmentSpec,
    pub machine: Replica,
    /// The header is durable: it may say `Opened`, and answer agents.
    pub header_durable: bool,
    /// Whom to tell `Opened` once the header is durable.
    pub asked_open: Option<NodeId>,
    pub start_table: TableSnapshot,
    /// The producer table at the written end.
    pub table: ProducerTable,
    /// The committed bound its writer told it.
    pub committed: Offset,
    /// Of the batches written to it.
    pub bytes: u64,
    pub times: ReplicaTimes,
}

/// When steps of this replica began, for the trace of its roll.
#[derive(Debug, Default)]
pub(super) struct ReplicaTimes {
    pub assigned: Option<Tick>,
    pub sealing: Option<Tick>,
    pub fencing: Option<Tick>,
}

impl ReplicaState {
    pub fn new(spec: SegmentSpec) -> Self {
        ReplicaState {
            machine: Replica::new(spec.id),
            spec,
            header_durable: false,
            asked_open: None,
            start_table: TableSnapshot::default(),
            table: ProducerTable::default(),
            committed: Offset(0),
            bytes: 0,
            times: ReplicaTimes::default(),
        }
    }

    pub fn restored(replica: RestoredReplica) -> Self {
        ReplicaState {
            machine: Replica::restored(replica.spec.id, replica.state),
            spec: replica.spec,
            header_durable: true,
            asked_open: None,
            start_table: replica.start_table,
            table: replica.table,
            committed: replica.state.start.unwrap_or_default(),
            bytes: replica.bytes,
            times: ReplicaTimes::default(),
        }
    }

    pub fn assert_invariants(&self) {
        let replica = &self.machine;
        assert!(replica.durable_end() <= replica.written_end(), "R1: durable beyond written: {self:?}");
        if let Some(start) = replica.start() {
            assert!(start <= replica.durable_end(), "R2: ends below its start: {self:?}");
        }
    }
}

/// A follower as the primary sees it.
#[derive(Debug, Default)]
pub(super) struct Follower {
    /// The next offset to send; `None` before the start is bound.
    pub sent_next: Option<Offset>,
    /// The seal entry was sent since `sent_next` was last set back.
    pub seal_sent: bool,
    /// It answered since the start was bound: it has the start and the table.
    pub has_start: bool,
    /// (end, bytes) of messages not yet stored there.
    pub in_flight: VecDeque<(Offset, usize)>,
    pub in_flight_bytes: usize,
    /// A read from the store is under way for it.
    pub reading: bool,
    /// What it held when progress was last looked at.
    pub last_seen: Option<(Offset, bool)>,
}

#[derive(Debug)]
pub(super) struct Unacked {
    pub end: Offset,
    pub base: Offset,
    pub stream: StreamId,
    pub seq: u64,
    pub bytes: usize,
}

#[derive(Debug)]
pub(super) struct Held {
    pub stream: StreamId,
    pub seq: u64,
    pub header: BatchHeader,
    pub batch: Bytes,
    /// Of a sampled append.
    pub trace: Option<TraceContext>,
}

/// When the steps of this segment's roll happened, on this node's clock.
#[derive(Debug, Default)]
pub(super) struct RollTimes {
    pub announced: Option<Tick>,
    /// The last announcement sent, for repetition.
    pub last_announced: Option<Tick>,
    pub ready: Option<Tick>,
    pub wanted: Option<Tick>,
    pub switched: Option<Tick>,
    pub sealed: Option<Tick>,
    pub begun: Option<Tick>,
    pub stats: RollStats,
}

/// The first moments of a segment under this primary.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FirstMoments {
    pub begun: Option<Tick>,
    pub gate_opened: Option<Tick>,
    pub append: Option<Tick>,
    pub commit: Option<Tick>,
    pub delivery: Option<Tick>,
}

impl FirstMoments {
    /// As metad is told; `None` before the gate opened.
    pub fn stats(&self) -> Option<GateStats> {
        let (begun, opened) = (self.begun?, self.gate_opened?);
        let after = |at: Option<Tick>| at.map(|at| at.since(begun));
        Some(GateStats {
            gate_us: opened.since(begun),
            first_append_us: after(self.append),
            first_commit_us: after(self.commit),
            first_delivery_us: after(self.delivery),
        })
    }
}

/// Where a segment starts, by the log's own word or metad's, before its start is bound.
#[derive(Debug)]
pub(super) struct Inherited {
    pub end: Offset,
    /// Known from a seal entry; metad does not know it.
    pub table_hash: Option<u64>,
}

/// A segment this node is the primary of, in this life.
#[derive(Debug)]
pub(super) struct Writer {
    pub spec: SegmentSpec,
    pub machine: Primary,
    pub marks: Marks,
    pub handoff: Handoff,
    pub followers: BTreeMap<NodeId, Follower>,
    /// (base, next, batch), contiguous, newest last.
    pub recent: VecDeque<(Offset, Offset, Bytes)>,
    pub recent_bytes: usize,
    /// Accepted and not acked, in offset order.
    pub unacked: VecDeque<Unacked>,
    pub unacked_bytes: usize,
    /// Retries of batches that are not committed yet, in order of the original's end.
    pub duplicates: BTreeMap<(Offset, StreamId, u64), Offset>,
    pub held: VecDeque<Held>,
    pub held_bytes: usize,
    /// The tables sent ahead to candidates, for the delta.
    pub tables_sent: BTreeMap<SegmentId, ProducerTable>,
    /// Unanswered pings by candidate.
    pub unanswered: BTreeMap<SegmentId, u32>,
    /// The table P sent ahead, by prior.
    pub inherited: BTreeMap<SegmentId, ProducerTable>,
    pub start_known: Option<Inherited>,
    /// A `Begin` that came before the segment was ready, and from whom.
    pub early_begin: Option<(NodeId, BeginMessage)>,
    pub times: RollTimes,
    /// The last `roll_requested` acted on.
    pub roll_acted: u32,
    pub roll_reason: RollReason,
    pub published: Option<(Option<Offset>, Offset, bool)>,
    pub last_commit_seen: Option<Offset>,
    /// What metad was told of this segment's first moments.
    pub gate_reported: Option<GateStats>,
    pub first: FirstMoments,
    /// When this node was told to be its primary, until it is ready.
    pub made: Option<Tick>,
    /// Traces of sampled appends by their end, until they are committed.
    pub sampled: BTreeMap<Offset, TraceContext>,
    pub decided_handled: bool,
    /// Rounds of asking for the producer table at its start.
    pub table_asked: u32,
}

impl Writer {
    pub fn new(spec: SegmentSpec, machine: Primary, now: Tick) -> Self {
        let followers = spec.replicas.iter().skip(1).map(|node| (*node, Follower::default())).collect();
        Writer {
            marks: Marks::new(&spec.config, now, Pace::default()),
            spec,
            machine,
            handoff: Handoff::default(),
            followers,
            recent: VecDeque::new(),
            recent_bytes: 0,
            unacked: VecDeque::new(),
            unacked_bytes: 0,
            duplicates: BTreeMap::new(),
            held: VecDeque::new(),
            held_bytes: 0,
            tables_sent: BTreeMap::new(),
            unanswered: BTreeMap::new(),
            inherited: BTreeMap::new(),
            start_known: None,
            early_begin: None,
            times: RollTimes::default(),
            roll_acted: 0,
            roll_reason: RollReason::Operator,
            published: None,
            last_commit_seen: None,
            gate_reported: None,
            first: FirstMoments::default(),
            made: Some(now),
            sampled: BTreeMap::new(),
            decided_handled: false,
            table_asked: 0,
        }
    }

    /// The seal entry, once this primary chose its end.
    pub fn seal(&self) -> Option<SealEntry> {
        use crate::primary::Phase;
        match self.machine.phase() {
            Phase::Switched(seal) | Phase::Decided(seal) => Some(seal),
            Phase::Opening | Phase::Ready | Phase::Open | Phase::Over => None,
        }
    }

    pub fn assert_invariants(&self) {
        let ends = self.unacked.iter().map(|unacked| unacked.end);
        assert!(ends.clone().zip(ends.skip(1)).all(|(a, b)| a < b), "R2: acks out of order in {}", self.spec.id);
        if let Some(committed) = self.machine.committed() {
            assert!(committed <= self.machine.assigned(), "R6: committed beyond assigned in {}", self.spec.id);
            assert!(
                self.machine.gate().is_open() || Some(committed) == self.machine.start(),
                "R4: {} commits behind its gate",
                self.spec.id
            );
        }
    }
}

#[derive(Debug)]
pub(super) struct AgentState {
    pub machine: Agent,
    /// Of its candidate.
    pub binder: Binder,
    pub told_undecidable: bool,
    pub spec: SegmentSpec,
    /// Reading from this node into the agent's own replica.
    pub fetching: bool,
    pub reported: bool,
    pub begun: bool,
    pub sending: BTreeSet<NodeId>,
    pub appointed: Tick,
    pub stats: AgentStats,
}

/// Whom a read from the store is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadFor {
    Follower {
        segment: SegmentId,
        node: NodeId,
    },
    /// An agent elsewhere fetches from this replica.
    Agent {
        segment: SegmentId,
        node: NodeId,
    },
    /// This node's agent brings another replica up to its end.
    Copy {
        segment: SegmentId,
        node: NodeId,
    },
}
