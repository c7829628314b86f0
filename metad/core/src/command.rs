//! Commands of the replicated log, and what came of them.
//!
//! Each names what it expects (an attempt, an epoch, a life, a nonce) and is a compare-and-set: repeating one that took
//! effect answers the same and changes nothing, a refused one changes nothing. Decisions (placement, appointments) stand
//! in the command and are never computed again.

use crate::history::{OpeningStats, RecoveryStats};
use seam_wire::meta::{NodeState, RollReason};
use seam_wire::report::{GateStats, RollStats};
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, TopicId, TraceContext};
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Who decided the end of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RollBy {
    /// Its primary's seal entry, durable on A replicas.
    Planned,
    /// The agent of this recovery epoch.
    Recovery(Epoch),
}

/// One entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Command {
    /// A node came up, or came back. Refused for a life older than the known one.
    RegisterNode { id: NodeId, name: String, addr: String, domain: String, incarnation: Incarnation },
    /// `Dead`: taken for dead in this life. `Draining` / `Live`: an operator's wish, which outlives restarts. Only
    /// `RegisterNode` brings a dead node back.
    SetNodeState { id: NodeId, incarnation: Incarnation, state: NodeState },
    /// `id` was never used; `placements` holds the replicas of each range's first segment.
    CreateTopic { id: TopicId, name: String, config: TopicConfig, placements: Vec<Vec<NodeId>> },
    /// Holds from the next prepared segment on.
    AlterTopic { topic: TopicId, expected: TopicConfig, config: TopicConfig },
    /// Reclaims every segment of the topic; its name is free again.
    DeleteTopic { topic: TopicId },
    /// Another first segment for a range whose earlier ones did not become ready.
    PrepareRoot { range: RangeId, attempt: u32, replicas: Vec<NodeId> },
    /// A candidate to follow `prior`, for `prior`'s primary to begin. `trace` holds if none of this roll is known yet.
    Prepare { prior: SegmentId, attempt: u32, replicas: Vec<NodeId>, trace: Option<TraceContext> },
    /// The candidate is open on these replicas in this life of its primary.
    MarkReady { segment: SegmentId, open_on: Vec<NodeId>, incarnation: Incarnation, opening: OpeningStats },
    /// Ask the candidate's binder to give it back.
    AskRelease { segment: SegmentId },
    /// The binder (this node in this life) will never choose the candidate.
    Released { segment: SegmentId, node: NodeId, incarnation: Incarnation },
    /// Appoint an agent in epoch `expected_epoch + 1`, with its own candidate on `replicas`. `loss_accepted`: an operator gave up
    /// what no replica that answers holds; the agent need not hold one itself.
    Recover {
        segment: SegmentId,
        agent: NodeId,
        agent_incarnation: Incarnation,
        expected_epoch: Epoch,
        replicas: Vec<NodeId>,
        trace: Option<TraceContext>,
        loss_accepted: bool,
    },
    /// The segment's end and next, for ever. In chain order; the first one wins.
    /// `bytes`: of its batches, as its primary or the agent counts them. `sealed_at_ms`: the proposing leader's wall clock,
    /// milliseconds since 1970; retention by age counts from it.
    CommitRoll {
        segment: SegmentId,
        end: Offset,
        next: SegmentId,
        by: RollBy,
        stats: Box<RollStats>,
        ready_us: u64,
        recovery: Option<Box<RecoveryStats>>,
        bytes: u64,
        sealed_at_ms: u64,
    },
    /// The log of the range starts at `keep` from now on, where it started at `first`: every segment before `keep` is to be
    /// deleted. `keep` is sealed, and a sealed segment that has records stays.
    Trim { range: RangeId, first: SegmentId, keep: SegmentId },
    /// The node holds nothing of this reclaimed or trimmed segment any more.
    ConfirmReclaimed { segment: SegmentId, node: NodeId },
    /// Ask the primary to roll: raises the nonce from `expected` by one.
    RequestRoll { segment: SegmentId, expected: u32, reason: RollReason, trace: Option<TraceContext> },
    /// How long the gate of this segment took, and what came after it so far.
    GateOpened { segment: SegmentId, gate: GateStats },
    /// How long the record of the roll into this segment took.
    RollRecorded { segment: SegmentId, record_us: u64 },
}

/// What came of a command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// It holds now (or held already).
    Done,
    /// The topic exists as asked.
    Created { topic: TopicId },
    /// The candidate exists as asked.
    Prepared { segment: SegmentId },
    /// The agent is appointed as asked.
    Appointed { epoch: Epoch, candidate: SegmentId },
    /// Nothing changed.
    Refused { why: Refusal },
}

/// Why a command was refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, Error)]
pub enum Refusal {
    #[error("{0} never registered")]
    UnknownNode(NodeId),
    #[error("{0} does not exist")]
    UnknownTopic(TopicId),
    #[error("{0} does not exist")]
    UnknownRange(RangeId),
    #[error("{0} does not exist; it is refused, never created")]
    UnknownSegment(SegmentId),
    #[error("{topic} is deleted")]
    TopicDeleted { topic: TopicId },
    #[error("{node} lives in {current}, not in {given}: register again with a larger incarnation")]
    StaleIncarnation { node: NodeId, current: Incarnation, given: Incarnation },
    #[error("{node} is taken for dead: register again")]
    NodeDead { node: NodeId },
    #[error("node name {name:?} belongs to {holder}: give each node its own id and name")]
    NodeName { name: String, holder: NodeId },
    #[error("topic {name:?} exists already")]
    TopicExists { name: String },
    #[error("topic id {given} is not free, the next free one is {next}: try again")]
    StaleTopicId { given: TopicId, next: TopicId },
    #[error("{0}")]
    BadConfig(String),
    #[error("the settings of {topic} changed meanwhile: read them and try again")]
    StaleConfig { topic: TopicId },
    #[error("the number of ranges of a topic is fixed at {0}")]
    RangesFixed(u32),
    #[error("bad replica set: {0}")]
    BadReplicas(String),
    #[error("the next attempt is {expected}, not {given}")]
    WrongAttempt { expected: u32, given: u32 },
    #[error("{prior} has {limit} candidates that are not reclaimed; one must be released first")]
    TooManyCandidates { prior: SegmentId, limit: u32 },
    #[error("{range} is open already at {head}")]
    RangeOpen { range: RangeId, head: SegmentId },
    #[error("{segment} is {state}")]
    WrongState { segment: SegmentId, state: String },
    #[error("{segment} is not in the chain yet: the roll before it is not recorded; try again")]
    NotInChain { segment: SegmentId },
    #[error("{segment} is decided: end {end}, next {next}")]
    Decided { segment: SegmentId, end: Offset, next: SegmentId },
    #[error("the log of {range} starts at {current:?}, not at {given}")]
    WrongFirst { range: RangeId, current: Option<SegmentId>, given: SegmentId },
    #[error("{range} cannot begin at {keep}: {why}")]
    NotTrimmable { range: RangeId, keep: SegmentId, why: String },
    #[error("{next} was not prepared to follow {segment}")]
    NotACandidate { segment: SegmentId, next: SegmentId },
    #[error("{next} is not open on a quorum of its replicas yet; try again")]
    NotReady { next: SegmentId },
    #[error("{next} may not be begun by the one who chose it")]
    WrongBinder { next: SegmentId },
    #[error("end {end} of {segment} lies below its start {start}")]
    EndBelowStart { segment: SegmentId, start: Offset, end: Offset },
    #[error("{segment} is in {current}, not in {given}")]
    WrongEpoch { segment: SegmentId, current: Epoch, given: Epoch },
    #[error("an operator accepted the loss of what nobody can tell of {segment}: that is not taken back")]
    LossAccepted { segment: SegmentId },
    #[error("{agent} holds no replica of {segment}")]
    NotAReplica { segment: SegmentId, agent: NodeId },
    #[error("the release of {segment} was not asked for")]
    NotAsked { segment: SegmentId },
    #[error("the roll nonce of {segment} is {current}, not {expected}")]
    WrongNonce { segment: SegmentId, current: u32, expected: u32 },
}

impl Refusal {
    /// Whether the same wish may succeed later, once others have moved.
    pub fn is_retryable(&self) -> bool {
        use Refusal::*;
        match self {
            // A life not yet known: its registration is on the way.
            StaleIncarnation { current, given, .. } => given > current,
            UnknownNode(_)
            | StaleTopicId { .. }
            | StaleConfig { .. }
            | WrongAttempt { .. }
            | TooManyCandidates { .. }
            | NotInChain { .. }
            | WrongFirst { .. }
            | NotReady { .. }
            | WrongNonce { .. }
            | NodeDead { .. }
            | BadReplicas(_) => true,
            UnknownTopic(_)
            | UnknownRange(_)
            | UnknownSegment(_)
            | TopicDeleted { .. }
            | NodeName { .. }
            | TopicExists { .. }
            | BadConfig(_)
            | RangesFixed(_)
            | RangeOpen { .. }
            | WrongState { .. }
            | Decided { .. }
            | NotTrimmable { .. }
            | NotACandidate { .. }
            | WrongBinder { .. }
            | EndBelowStart { .. }
            | WrongEpoch { .. }
            | LossAccepted { .. }
            | NotAReplica { .. }
            | NotAsked { .. } => false,
        }
    }
}
