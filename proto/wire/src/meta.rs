//! What metad tells the others: views of its state, sent as upserts over the watch stream.
//!
//! Views are levels, not edges: a receiver that missed updates reads the newest view and knows all it needs.
//! They hold decisions only; nobody recomputes them.

use crate::topic::TopicConfig;
use crate::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, TopicId, TraceContext};
use serde::{Deserialize, Serialize};

/// Who alone may begin a candidate (fix its start).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Binder {
    /// The first segment of a range: it starts at offset 0 and has no prior.
    Root,
    /// The primary of the prior segment, at its switch.
    Primary,
    /// One recovery epoch of the prior segment.
    Recovery(Epoch),
    /// One recovery epoch of the prior segment, behind a gap entry: an operator accepted the loss of what nobody could tell of.
    Loss(Epoch),
}

/// What `Prepare` fixed for ever: identity, place and quorum of a segment.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentSpec {
    pub id: SegmentId,
    pub topic: TopicId,
    pub range: RangeId,
    /// The segment this one was prepared to follow; `None` for the first of a range.
    pub prior: Option<SegmentId>,
    /// 1 for the first candidate of `prior`, then counted up.
    pub attempt: u32,
    /// The first is the primary. Distinct nodes.
    pub replicas: Vec<NodeId>,
    pub ack_quorum: u8,
    pub binder: Binder,
    /// The topic's settings when the segment was prepared.
    pub config: TopicConfig,
}

impl SegmentSpec {
    /// The only writer the segment ever has.
    pub fn primary(&self) -> NodeId {
        *self.replicas.first().expect("Prepare is refused without replicas")
    }

    /// Replicas on which it must be open before it may be chosen: A to write, R - A + 1 to be recovered if it must be.
    pub fn open_quorum(&self) -> usize {
        usize::from(self.ack_quorum).max(self.recovery_quorum())
    }

    /// Replicas that recovery must hear: R - A + 1, so that it meets every ack quorum.
    pub fn recovery_quorum(&self) -> usize {
        self.replicas.len() - usize::from(self.ack_quorum) + 1
    }
}

/// Where a segment stands in metad's committed state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SegmentState {
    /// Placed; its replicas are opening it.
    Planned,
    /// Open on at least an open quorum of replicas, empty, start not bound as far as metad knows.
    Ready { open_on: Vec<NodeId> },
    /// In the chain: its start is decided.
    Open { start: Offset },
    /// Its end and next are decided, for ever.
    Sealed { start: Offset, end: Offset, next: SegmentId },
    /// Sealed, and below the log's start since retention moved it to `log_start`: replicas delete it and confirm.
    Trimmed { start: Offset, end: Offset, next: SegmentId, log_start: Offset },
    /// Not chosen, or of a deleted topic; replicas delete it and confirm.
    Reclaiming,
    /// The last word on a segment: every replica confirmed (or left the cluster), and metad's state holds it no more. The id
    /// stays refused.
    Reclaimed,
}

/// A recovery of a segment, as metad appointed it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Recovery {
    pub epoch: Epoch,
    pub agent: NodeId,
    /// The agent's life when it was appointed: its right ends with it.
    pub agent_incarnation: Incarnation,
    /// The agent's own candidate.
    pub candidate: SegmentId,
    /// The start of the recovered segment, where metad knows it (it is in the chain).
    pub start: Offset,
    /// An operator accepted the loss of what no reachable replica holds: the agent decides by those that answer. Its candidate
    /// has `binder == Loss(epoch)`.
    pub loss_accepted: bool,
}

impl Recovery {
    /// Who may begin the candidate.
    pub fn binder(&self) -> Binder {
        if self.loss_accepted { Binder::Loss(self.epoch) } else { Binder::Recovery(self.epoch) }
    }
}

/// A segment as metad sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SegmentView {
    pub spec: SegmentSpec,
    pub state: SegmentState,
    /// The life of the primary's process that reported `Ready`; only that process may write.
    pub primary_incarnation: Option<Incarnation>,
    /// The latest recovery of this segment, if any.
    pub recovery: Option<Recovery>,
    /// metad wants this candidate back: its binder answers `Released` if it is alive and has not switched to it.
    pub release_asked: bool,
    /// An operator's roll, a drain or a dead follower asks the primary to roll; compare with the last one acted on.
    pub roll_requested: u32,
    /// Why it was last asked to.
    pub roll_reason: Option<RollReason>,
    /// The trace of the roll, or of the latest recovery, that ends this segment; its successors take theirs from here.
    pub trace: Option<TraceContext>,
}

impl SegmentView {
    /// It was decided, or is to be, by an accepted loss: metad's word may differ from what its own nodes had decided.
    pub fn lost(&self) -> bool {
        let recovery = self.recovery.as_ref().filter(|recovery| recovery.loss_accepted);
        recovery.is_some_and(|recovery| match self.state {
            SegmentState::Sealed { next, .. } | SegmentState::Trimmed { next, .. } => next == recovery.candidate,
            SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Open { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => false,
        })
    }

    /// Where it starts, if that is decided.
    pub fn start(&self) -> Option<Offset> {
        match self.state {
            SegmentState::Open { start } | SegmentState::Sealed { start, .. } | SegmentState::Trimmed { start, .. } => {
                Some(start)
            }
            SegmentState::Planned | SegmentState::Ready { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed => {
                None
            }
        }
    }
}

/// Why metad asks a primary to roll.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RollReason {
    /// An operator, by hand.
    Operator,
    /// One of its nodes is to be emptied.
    Drain,
    /// One of its nodes is dead, or its disk failed.
    ReplicaLost,
}

/// Liveness and policy of a segd node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeState {
    Live,
    /// Takes no new segments; its primaries roll away.
    Draining,
    Dead,
}

/// A segd node as metad sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeView {
    pub id: NodeId,
    /// The name in its certificate, e.g. `segd-3`.
    pub name: String,
    /// QUIC address, `host:port`.
    pub addr: String,
    /// Failure domain; replicas spread over domains where there are enough.
    pub domain: String,
    pub incarnation: Incarnation,
    pub state: NodeState,
}

/// A topic as metad sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TopicView {
    pub id: TopicId,
    pub name: String,
    pub config: TopicConfig,
    pub ranges: Vec<RangeId>,
    pub deleted: bool,
}

/// One upsert of the watch stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MetaItem {
    Topic(TopicView),
    Segment(SegmentView),
    Node(NodeView),
    /// Only in a full snapshot: every id below was given out. One of those that is not among the segments of the snapshot is
    /// gone for ever: no chain needs it, and who still holds files of it deletes them.
    Ids {
        next_segment: SegmentId,
    },
}

/// What changed at one version of metad's state. `reset` is true for a full snapshot: forget what you knew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetaUpdate {
    pub version: u64,
    pub reset: bool,
    pub items: Vec<MetaItem>,
}
