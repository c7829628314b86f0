//! What goes into the driver and what comes out. The shell carries these; it decides nothing.

use crate::command::{Command, Outcome};
use crate::tick::Tick;
use seam_wire::error::WireError;
use seam_wire::report::Report;
use seam_wire::topic::{Anticipation, Placement, TopicConfig};
use seam_wire::{Epoch, Incarnation, NodeId, SegmentId, TopicId, TraceContext};

/// A caller who waits for an answer; the shell draws it, unique among those unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplyId(pub u64);

/// A proposal of this driver; comes back with `Applied`, or with `Lost`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u64);

/// One stream of heartbeats from a node to this leader, numbered by the shell and never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Settings to change; `None` keeps the value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TopicPatch {
    pub placement: Option<Placement>,
    pub anticipation: Option<Anticipation>,
    pub segment_bytes: Option<u64>,
    pub segment_records: Option<u64>,
    pub max_age_ms: Option<u64>,
    pub retention_bytes: Option<u64>,
    pub retention_ms: Option<u64>,
}

impl TopicPatch {
    pub(super) fn applied_to(&self, config: &TopicConfig) -> TopicConfig {
        TopicConfig {
            placement: self.placement.unwrap_or(config.placement),
            anticipation: self.anticipation.unwrap_or(config.anticipation),
            segment_bytes: self.segment_bytes.unwrap_or(config.segment_bytes),
            segment_records: self.segment_records.unwrap_or(config.segment_records),
            max_age_ms: self.max_age_ms.unwrap_or(config.max_age_ms),
            retention_bytes: self.retention_bytes.unwrap_or(config.retention_bytes),
            retention_ms: self.retention_ms.unwrap_or(config.retention_ms),
            ..config.clone()
        }
    }
}

/// An operator's request that changes something. Those that only read are answered from `Meta` by the shell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admin {
    CreateTopic {
        name: String,
        config: TopicConfig,
    },
    AlterTopic {
        name: String,
        patch: TopicPatch,
    },
    DeleteTopic {
        name: String,
    },
    /// One range of the topic, or all of them.
    RollTopic {
        name: String,
        range_index: Option<u32>,
    },
    DrainNode {
        node: NodeId,
        drain: bool,
    },
    /// What no replica that answers holds of this open segment, the head of the range, is given up. Refused while an answer
    /// may still decide its end.
    AcceptLoss {
        name: String,
        range_index: u32,
        segment: SegmentId,
    },
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// This member leads, and its state holds every command committed before its term.
    BecameLeader,
    /// It does not lead any more. Every caller is told so.
    LostLeadership,
    /// Time passed; call at `next_deadline` at the latest.
    Tick,
    Register {
        id: NodeId,
        name: String,
        addr: String,
        domain: String,
        incarnation: Incarnation,
        reply: ReplyId,
    },
    Heartbeat {
        node: NodeId,
        incarnation: Incarnation,
        free_bytes: u64,
        write_bytes_per_s: u64,
        open_segments: u32,
        disk_failed: bool,
        /// The stream it came on.
        session: SessionId,
        /// Of the heartbeat before, as the node measured it; 0: not known yet.
        round_trip_us: u64,
        reply: ReplyId,
    },
    /// The stream of heartbeats broke or ended, and not by our own doing.
    SessionBroken {
        session: SessionId,
    },
    Report {
        node: NodeId,
        incarnation: Incarnation,
        report: Report,
        reply: ReplyId,
    },
    Admin {
        request: Admin,
        reply: ReplyId,
    },
    /// The next command of the log was applied to the `Meta` that comes with this call; `token` if this driver proposed
    /// it in this term. On the leader every applied command comes in, in order.
    Applied {
        token: Option<Token>,
        command: Command,
        outcome: Outcome,
    },
    /// The log refused the proposal, or nobody knows what became of it.
    Lost {
        token: Token,
    },
}

/// An answer to a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Ask another member: this one does not lead.
    NotLeader,
    /// `known: false`: register (again).
    Heartbeat {
        known: bool,
    },
    Registered {
        version: u64,
        heartbeat_ms: u32,
        /// Every segment planned before this registration has a lower id.
        next_segment: SegmentId,
    },
    /// `done: false`: try again later. `why` is for people; empty when all is well.
    Report {
        done: bool,
        why: String,
    },
    /// The topic was created or altered.
    Topic(TopicId),
    Deleted,
    Drained,
    /// The head segments that were asked to roll.
    Rolling(Vec<SegmentId>),
    /// The loss is accepted: this agent fixes the end by those that answer, and this candidate follows behind a gap entry.
    LossAccepted {
        epoch: Epoch,
        candidate: SegmentId,
    },
    /// It did not happen, or may have, as the error says.
    Failed(WireError),
}

/// What the shell is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Append to the log; report back with `Applied` or `Lost`.
    Propose {
        token: Token,
        command: Command,
    },
    Reply {
        id: ReplyId,
        answer: Answer,
    },
    /// A step of a traced roll or recovery is over.
    Step(Step),
}

/// A step of a traced roll or recovery, on this leader's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub trace: TraceContext,
    pub name: &'static str,
    pub segment: SegmentId,
    pub from: Tick,
    pub to: Tick,
}
