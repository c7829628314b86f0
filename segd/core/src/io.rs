//! What goes into a node and what comes out of it. The shell (or the simulator) receives, carries out, and decides nothing.
//!
//! An effect that persists completes, as `Input::Persisted`, before any reply that depends on it leaves: the node holds such
//! replies back itself. Effects of one call are carried out in order; journal writes keep their order over all calls.

use bytes::Bytes;
use seam_wire::batch::BatchHeader;
use seam_wire::error::WireError;
use seam_wire::meta::{MetaUpdate, SegmentSpec};
use seam_wire::msg::{Decision, FromSegd, Peer, SealEntry};
use seam_wire::report::Report;
use seam_wire::table::TableSnapshot;
use seam_wire::topic::AckMode;
use seam_wire::{Epoch, NodeId, Offset, RangeId, SegmentId, Tick, TraceContext};

/// An append stream, numbered by the shell; never reused in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Names a persist or read effect until its completion; rises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// Names a report until its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportId(pub u64);

#[derive(Clone, Debug)]
pub enum Input {
    /// metad's views, from the watch stream.
    Meta(MetaUpdate),
    /// metad's leader knows this life. Every segment planned before that has an id below `next_segment`.
    Registered { next_segment: SegmentId },
    /// The disk is marked, as `Effect::Found` asked.
    Founded { first: SegmentId },
    /// A connection to this peer stands (again): what was sent before may be lost.
    PeerUp(NodeId),
    /// A message from another node, about `segment`.
    Peer { from: NodeId, segment: SegmentId, msg: Peer, payload: Bytes, trace: Option<TraceContext> },
    /// A router opens an append stream to a segment.
    StreamOpen { stream: StreamId, segment: SegmentId },
    /// One batch on an append stream; the shell parsed the header and checked the batch's checksum.
    Append { stream: StreamId, seq: u64, header: BatchHeader, batch: Bytes, trace: Option<TraceContext> },
    /// The append stream is gone; what it sent and was accepted goes on.
    StreamClosed { stream: StreamId },
    /// All journal writes up to and including `token` are durable (received, where `Durability::Received` was asked).
    Persisted { token: Token },
    /// Records of this segment left for a tail, the first since the process began.
    Delivered { segment: SegmentId },
    /// The journal failed: nothing on this disk is ever acked again.
    JournalFailed,
    /// Answer to `Effect::Read`: batches `[base, next)` back to back; `next == base` when the store cannot give them.
    ReadDone { token: Token, base: Offset, next: Offset, payload: Bytes },
    /// metad answered a report; `done: false` means "not yet, again later".
    ReportAnswered { id: ReportId, done: bool },
    /// The deadline the node asked for has come.
    Tick,
}

/// What an ack needs of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Durability {
    /// Synced.
    Synced,
    /// In the journal's hands (`ack = replicated`); the sync follows.
    Received,
}

impl From<AckMode> for Durability {
    fn from(mode: AckMode) -> Self {
        match mode {
            AckMode::Durable => Durability::Synced,
            AckMode::Replicated => Durability::Received,
        }
    }
}

/// One journal entry of a segment, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// The replica exists: its durable header. Everything else of a segment follows it.
    Header {
        spec: SegmentSpec,
    },
    /// The start is bound; `table` is the producer table there.
    Start {
        start: Offset,
        table: TableSnapshot,
    },
    /// Batches `[base, next)`, back to back, base offsets stamped.
    Records {
        epoch: Epoch,
        base: Offset,
        next: Offset,
        payload: Bytes,
    },
    Seal(SealEntry),
    Promise(Epoch),
    Decided(Decision),
}

#[derive(Clone, Debug)]
pub enum Effect {
    /// Journal these, in order. Completion: `Input::Persisted` with this token or a later one.
    Persist { token: Token, segment: SegmentId, writes: Vec<Write>, durability: Durability },
    /// Mark the disk, durably: it can hold no segment below `first`, for that was planned before this disk came into use.
    /// Completion: `Input::Founded`.
    Found { first: SegmentId },
    /// Read batches from `from` on, up to `max_bytes` (at least one batch), not beyond what was persisted.
    Read { token: Token, segment: SegmentId, from: Offset, max_bytes: u32 },
    /// Send to another node, on the stream of (node, segment); in order per such stream.
    Send { to: NodeId, segment: SegmentId, msg: Peer, payload: Bytes, trace: Option<TraceContext> },
    /// Answer on an append stream. `trace`: of the roll it is a part of, where it is.
    Reply { stream: StreamId, reply: FromSegd, trace: Option<TraceContext> },
    /// Nothing comes on this append stream any more, in either direction, once what was replied has left.
    CloseStream { stream: StreamId },
    /// What tails of this segment may see: records in `[start, committed)`, and the end once decided.
    /// `serves`: this node may serve it (its primary, or a replica that holds the decided end).
    Publish { segment: SegmentId, start: Option<Offset>, committed: Offset, decision: Option<Decision>, serves: bool },
    /// The log of this range starts at `start` now: whoever reads below is told so. Comes before what lies there is forgotten.
    LogStart { range: RangeId, start: Offset },
    /// The segment is gone by metad's word: delete its files, end its tails; its id stays refused. `log_start`: it was in the
    /// chain, and the log starts there now.
    Forget { segment: SegmentId, log_start: Option<Offset> },
    /// Tell the metad leader; answered by `Input::ReportAnswered`.
    Report { id: ReportId, report: Report, trace: Option<TraceContext> },
    /// The segment was begun in a roll of this trace: the first records to a tail carry it.
    Fresh { segment: SegmentId, trace: TraceContext },
    /// A step of a traced roll or recovery is over.
    Step(Step),
    /// Something worth counting.
    Count(Counter),
    /// An error that concerns no single stream; logged by the shell.
    Note { segment: SegmentId, error: WireError },
}

/// A step of a traced roll or recovery, on this node's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub trace: TraceContext,
    pub name: &'static str,
    pub segment: SegmentId,
    pub from: Tick,
    pub to: Tick,
}

/// Events the shell counts as metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counter {
    Switched,
    SwitchedNotReady,
    AppendsWaited,
    Duplicates,
    OutOfSequence,
    ProducerFenced,
    WritesFenced,
    GateOpened,
    GateElsewhere,
    Resends,
    Overloaded,
    RecoveryStarted,
    RecoveryDone,
}
