//! What administration answers, as plain data. Durations in microseconds unless the name says otherwise.

use seam_wire::topic::{Anticipation, Placement, TopicConfig};
use serde::{Deserialize, Serialize};

/// Settings to change; `None` keeps the value. They hold from the next prepared segment on, those of retention at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlterTopic {
    pub placement: Option<Placement>,
    pub anticipation: Option<Anticipation>,
    pub segment_bytes: Option<u64>,
    pub segment_records: Option<u64>,
    pub max_age_ms: Option<u64>,
    pub retention_bytes: Option<u64>,
    pub retention_ms: Option<u64>,
}

/// A topic with its ranges and their chains of segments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicInfo {
    pub id: u64,
    pub name: String,
    pub config: TopicConfig,
    pub ranges: Vec<RangeInfo>,
}

/// A range: its chain in order, then its candidates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeInfo {
    pub id: u64,
    pub index: u32,
    /// The earliest offset: where the log starts. Retention moves it.
    pub start: u64,
    /// Bytes of the sealed segments that are kept.
    pub sealed_bytes: u64,
    /// Why nothing can be written: no answer can decide the end of its head. Names the replicas and what to do.
    pub stuck: Option<String>,
    pub segments: Vec<SegmentInfo>,
}

/// A segment as metad knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    pub id: u64,
    /// `planned`, `ready`, `open`, `sealed`, `trimmed`, `reclaiming` or `reclaimed`.
    pub state: String,
    pub start: Option<u64>,
    /// The offset after the last record.
    pub end: Option<u64>,
    pub next: Option<u64>,
    pub prior: Option<u64>,
    /// Node ids, the primary first.
    pub replicas: Vec<u32>,
    pub ack_quorum: u32,
    pub attempt: u32,
    /// Its latest recovery, at work while it is open: its primary is dead, or was complained about.
    pub recovery: Option<RecoveryInfo>,
    /// Of its batches, once sealed.
    pub bytes: u64,
    /// When it was sealed, by the metad leader's wall clock: milliseconds since 1970; 0: not sealed.
    pub sealed_at_ms: u64,
}

/// A recovery of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryInfo {
    /// Fences everybody of a lower epoch.
    pub epoch: u64,
    /// Node id of the agent.
    pub agent: u32,
    /// The segment that follows, unless a seal entry names another.
    pub candidate: u64,
    /// An operator gave up what no replica that answers holds.
    pub loss_accepted: bool,
}

/// What became of an accepted loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptedLoss {
    /// Of the recovery that fixes the end by those replicas that answer.
    pub epoch: u64,
    /// The segment that follows, behind a gap entry.
    pub candidate: u64,
}

/// A segd node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeInfo {
    pub id: u32,
    pub name: String,
    pub addr: String,
    /// Failure domain.
    pub domain: String,
    pub state: String,
    pub incarnation: u64,
    pub free_bytes: u64,
    pub write_bytes_per_s: u64,
    /// Segments it writes.
    pub primaries: u32,
    /// Segments it holds a copy of.
    pub replicas: u32,
    pub heartbeat_age_ms: u64,
    /// Its disk is full or broken: it takes no writes until that is mended and it is started again.
    pub disk_failed: bool,
}

/// One roll of a range. Durations of metad are on its leader's clock, the rest on the primaries'.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollRecord {
    pub range: u64,
    pub segment: u64,
    pub next: u64,
    pub start: u64,
    /// The offset after the last of `segment`: the start of `next`.
    pub end: u64,
    pub by_recovery: bool,
    /// No successor was ready at the hard cap.
    pub not_ready: bool,
    pub appends_waited: u64,
    pub overrun_bytes: u64,
    pub soft_mark_bytes: u64,
    pub bytes: u64,
    pub rate_bytes_per_s: u64,
    pub announce_us: u64,
    pub commit_us: u64,
    pub open_us: u64,
    pub ready_us: u64,
    pub slack_us: u64,
    pub switch_us: u64,
    pub seal_us: u64,
    pub begin_us: u64,
    pub gate_us: u64,
    pub record_us: u64,
    pub announce_to_ready_us: u64,
    /// The part of `commit_us` before `Prepare` was proposed.
    pub placement_us: u64,
    /// From the seal's decision to the report of it.
    pub record_after_us: u64,
    /// From `Begin` received, at the successor; `None` where it has not happened.
    pub first_append_us: Option<u64>,
    pub first_commit_us: Option<u64>,
    pub first_delivery_us: Option<u64>,
    /// `bytes`, `records`, `age`, `operator`, `drain` or `replica-lost`; empty after a recovery.
    pub switched_by: String,
    pub announced: Option<RollAnnouncement>,
    pub recovery: Option<RollRecovery>,
    /// 32 hex digits; empty where it was not traced.
    pub trace_id: String,
}

/// Why a roll was announced when it was. In bytes, in records where the cause is `records`, in milliseconds where it is
/// `age`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollAnnouncement {
    /// As [`RollRecord::switched_by`].
    pub cause: String,
    /// `lead`, `floor`, `unmeasured`, `at-open` or `off`.
    pub basis: String,
    pub hard: u64,
    pub mark: u64,
    pub fill: u64,
    /// Rate times latency times safety.
    pub lead: u64,
    pub rate_per_s: u64,
    pub roll_latency_us: u64,
    pub safety: u64,
}

/// How a recovery went.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollRecovery {
    pub epoch: u64,
    pub agent: u32,
    /// `silent`, `restarted`, `disk-failed` or `stalled`; empty where the metad leader that knew is gone.
    pub cause: String,
    /// Last heard of, to taken for dead.
    pub detect_us: u64,
    /// Taken for dead, to the deciding appointment proposed.
    pub wait_us: u64,
    /// Proposed to committed.
    pub appoint_us: u64,
    /// Committed, to the agent's word received.
    pub work_us: u64,
    /// On the agent's clock, from its appointment: until its quorum had promised, ...
    pub fence_us: u64,
    /// ... until it began its candidate, ...
    pub begin_us: Option<u64>,
    /// ... until the end was safe.
    pub safe_us: u64,
    pub promised: u32,
    pub copied_records: u64,
}

/// What a metad member says of itself and the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The member that answered.
    pub name: String,
    /// Empty while there is none.
    pub leader: String,
    pub term: u64,
    pub version: u64,
    pub log_bytes: u64,
    pub candidates_made: u64,
    pub candidates_used: u64,
    pub candidates_reclaimed: u64,
    pub candidates_open: u64,
    pub members: Vec<String>,
}
