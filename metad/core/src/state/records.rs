//! The records of the state as they are kept: smaller than the views that travel.

use crate::history::{Phases, RollRecord};
use seam_wire::meta::{Binder, NodeState, NodeView, Recovery, RollReason, SegmentState};
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, TopicId, TraceContext};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Node {
    pub view: NodeView,
    /// An operator's wish; outlives death and return.
    pub draining: bool,
    /// Planned, ready and open segments it is the first replica of.
    pub primaries: u32,
    /// Planned, ready and open segments it holds in any role.
    pub replicas: u32,
}

impl Node {
    pub fn is_dead(&self) -> bool {
        self.view.state == NodeState::Dead
    }

    /// The state a node that lives has.
    pub fn alive_state(draining: bool) -> NodeState {
        if draining { NodeState::Draining } else { NodeState::Live }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Topic {
    pub name: String,
    /// Every version of the settings; the last one holds. Segments point at the one they were prepared with.
    pub configs: Vec<TopicConfig>,
    pub ranges: Vec<RangeId>,
    pub deleted: bool,
}

impl Topic {
    pub fn config(&self) -> &TopicConfig {
        self.configs.last().expect("a topic is created with its settings")
    }

    pub fn config_index(&self) -> u32 {
        (self.configs.len() - 1) as u32
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Range {
    pub topic: TopicId,
    pub index: u32,
    /// The first segment of the chain, once one is open. Retention moves it on.
    pub first: Option<SegmentId>,
    /// Where the log starts: the start of `first`. Only rises.
    pub start: Offset,
    /// Of the sealed segments of the chain.
    pub sealed_bytes: u64,
    /// The newest sealed segment that has records. It and what follows it stays, whatever its age: a successor that has not
    /// begun may need the producer table at its end.
    pub last_filled: Option<SegmentId>,
    /// The open segment of the chain.
    pub head: Option<SegmentId>,
    /// First segments prepared so far; the last attempt's number.
    pub root_attempts: u32,
    /// First segments that are not chosen and not reclaimed.
    pub roots: Vec<SegmentId>,
    pub history: VecDeque<RollRecord>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Segment {
    pub topic: TopicId,
    pub range: RangeId,
    pub prior: Option<SegmentId>,
    pub attempt: u32,
    pub replicas: Vec<NodeId>,
    pub ack_quorum: u8,
    pub binder: Binder,
    /// Index into the topic's settings.
    pub config: u32,
    pub state: SegmentState,
    /// It was once in the chain. Its bytes are never deleted but by retention, or with the whole topic.
    pub chosen: bool,
    /// Of its batches, once sealed.
    pub bytes: u64,
    /// The deciding leader's wall clock, milliseconds since 1970, once sealed.
    pub sealed_at_ms: u64,
    pub primary_incarnation: Option<Incarnation>,
    pub recovery: Option<Box<Recovery>>,
    pub release_asked: bool,
    pub roll_requested: u32,
    pub roll_reason: Option<RollReason>,
    /// The trace of the roll or recovery that ends it.
    pub trace: Option<TraceContext>,
    /// Candidates prepared to follow this segment so far; the last attempt's number.
    pub attempts: u32,
    /// Candidates to follow this segment that are not chosen and not gone.
    pub candidates: Vec<SegmentId>,
    /// While reclaiming or trimmed: replicas that did not confirm yet.
    pub unconfirmed: Vec<NodeId>,
    pub phases: Phases,
}

impl Segment {
    pub fn primary(&self) -> NodeId {
        *self.replicas.first().expect("a segment is refused without replicas")
    }

    /// Replicas it must be open on before it may be chosen.
    pub fn open_quorum(&self) -> usize {
        usize::from(self.ack_quorum).max(self.recovery_quorum())
    }

    pub fn recovery_quorum(&self) -> usize {
        self.replicas.len() - usize::from(self.ack_quorum) + 1
    }

    pub fn epoch(&self) -> Epoch {
        self.recovery.as_ref().map_or(Epoch::PRIMARY, |r| r.epoch)
    }

    /// Planned or ready: it may still be chosen.
    pub fn is_candidate(&self) -> bool {
        match self.state {
            SegmentState::Planned | SegmentState::Ready { .. } => true,
            SegmentState::Open { .. }
            | SegmentState::Sealed { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => false,
        }
    }

    pub fn is_ready(&self) -> bool {
        matches!(self.state, SegmentState::Ready { .. })
    }

    pub fn open_start(&self) -> Option<Offset> {
        match self.state {
            SegmentState::Open { start } => Some(start),
            SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Sealed { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => None,
        }
    }

    /// Its replicas are to delete it.
    pub fn is_leaving(&self) -> bool {
        matches!(self.state, SegmentState::Trimmed { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed)
    }

    /// Counts towards the load of its nodes.
    pub fn is_active(&self) -> bool {
        self.is_candidate() || self.open_start().is_some()
    }

    pub fn state_name(&self) -> &'static str {
        match self.state {
            SegmentState::Planned => "planned",
            SegmentState::Ready { .. } => "ready",
            SegmentState::Open { .. } => "open",
            SegmentState::Sealed { .. } => "sealed",
            SegmentState::Trimmed { .. } => "trimmed",
            SegmentState::Reclaiming => "reclaiming",
            SegmentState::Reclaimed => "reclaimed",
        }
    }
}
