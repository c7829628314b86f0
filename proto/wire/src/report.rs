//! What a segd node reports to the metad leader. Each is repeated until answered and idempotent.

use crate::meta::RollReason;
use crate::{Epoch, Incarnation, NodeId, Offset, SegmentId, TraceContext};
use serde::{Deserialize, Serialize};

/// A report. Every one names the segment and what it expects; a repeated one changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Report {
    /// The segment's fill crossed its soft mark: prepare a successor. Repeated until a candidate is seen in the watch stream.
    /// `trace` is that of the roll, drawn by the node's shell where metad has not named one.
    SoftMark {
        segment: SegmentId,
        bytes: u64,
        end: Offset,
        rate_bytes_per_s: u64,
        soft_mark_bytes: u64,
        attempt: u32,
        trace: Option<TraceContext>,
    },
    /// The candidate is open on these replicas (at least A, the primary among them); repeated when more have it.
    Ready { segment: SegmentId, open_on: Vec<NodeId>, incarnation: Incarnation },
    /// The primary's segment is decided: record it.
    Sealed { segment: SegmentId, start: Offset, end: Offset, next: SegmentId, stats: RollStats },
    /// The successor's gate opened; again when its first records are committed, and delivered.
    GateOpened { segment: SegmentId, gate: GateStats },
    /// The binder, alive and not yet switched, gives the candidate back: it will never choose it.
    Released { segment: SegmentId },
    /// This node deleted its replica of a reclaimed or trimmed segment (or never had one).
    Reclaimed { segment: SegmentId, node: NodeId },
    /// A segment cannot make progress: its quorum is out of reach, or its prior stays undecided past `gate_patience`.
    Stalled { segment: SegmentId },
    /// The agent of this epoch can get no end fixed: too many replicas said that they cannot answer, `mute`, for those that
    /// are left to make a recovery quorum. It goes on asking.
    Undecidable { segment: SegmentId, epoch: Epoch, mute: Vec<NodeId> },
    /// The agent fixed the end in its epoch.
    Recovered { segment: SegmentId, epoch: Epoch, end: Offset, next: SegmentId, stats: AgentStats },
}

/// What makes a roll due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RollCause {
    /// The segment's bytes.
    Bytes,
    /// The segment's records.
    Records,
    /// The segment's age.
    Age,
    /// Somebody asked for it.
    Asked(RollReason),
}

/// What the soft mark was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum MarkBasis {
    /// Rate times the measured roll latency, times the safety factor.
    Lead,
    /// The least lead, a tenth of the hard cap: the computed one was smaller.
    Floor,
    /// As `Floor` or `Lead`, but no roll was measured yet: a latency is assumed.
    Unmeasured,
    /// `anticipation = at-open`: announced when the segment opened.
    AtOpen,
    /// `anticipation = off`: announced at the hard cap.
    Off,
}

/// Why a roll was announced when it was, as the old primary saw it then. `hard`, `mark`, `fill`, `lead` and `rate_per_s` are
/// in bytes, in records where the cause is `Records`, and in milliseconds where it is `Age`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Announcement {
    pub cause: RollCause,
    pub basis: MarkBasis,
    pub hard: u64,
    /// The soft mark.
    pub mark: u64,
    /// How full the segment was.
    pub fill: u64,
    /// What rate, latency and safety alone would have kept between the mark and the hard cap.
    pub lead: u64,
    pub rate_per_s: u64,
    /// Announce-to-ready, as earlier rolls had it or as assumed. Microseconds.
    pub roll_latency_us: u64,
    /// By how much the latency is multiplied.
    pub safety: u64,
}

/// The first moments of a successor, on its primary's clock, in microseconds from its begin; `None` where it has not happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GateStats {
    /// The gate opened: what came before is decided.
    pub gate_us: u64,
    /// The first append was taken; 0: it waited for the begin.
    pub first_append_us: Option<u64>,
    /// The first records were committed, and so acked.
    pub first_commit_us: Option<u64>,
    /// The first records left for a tail.
    pub first_delivery_us: Option<u64>,
}

/// What an agent measured of its recovery. Microseconds on its own clock, from its appointment as it saw it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AgentStats {
    /// Until so many replicas had promised that the end was fixed.
    pub fence_us: u64,
    /// Until `Begin` was first sent to the candidate; `None` where the agent had not to begin it.
    pub begin_us: Option<u64>,
    /// Until the end was safe, and reported.
    pub safe_us: u64,
    /// Replicas that had promised by then.
    pub promised: u8,
    /// Records that were brought to replicas which lacked them.
    pub copied_records: u64,
    /// Of the batches its own replica holds.
    pub bytes: u64,
}

/// What the old primary measured of one roll. Durations in microseconds on its own clock; 0 where a phase did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RollStats {
    /// From the first `SoftMark` sent to the candidate seen ready.
    pub announce_to_ready_us: u64,
    /// From seen ready to the switch: the slack that anticipation bought.
    pub ready_to_switch_us: u64,
    /// From wanting to switch (hard cap, age, hand) to switching; 0 when a ready successor stood by.
    pub switch_wait_us: u64,
    /// From the switch to the seal entry durable on A replicas.
    pub seal_us: u64,
    /// From the switch to `Begun`.
    pub begin_us: u64,
    /// The hard cap was reached with no successor ready.
    pub not_ready: bool,
    /// Appends held back because no successor was ready.
    pub appends_waited: u64,
    /// Bytes written past the hard cap.
    pub overrun_bytes: u64,
    pub soft_mark_bytes: u64,
    pub bytes: u64,
    pub rate_bytes_per_s: u64,
    /// From decided to `Sealed` sent: it is in no hurry, and gives way to the successor's first records.
    pub record_after_us: u64,
    /// Why it was announced then; `None` where the segment was decided without one.
    pub announced: Option<Announcement>,
    /// Why the head switched.
    pub switched_by: Option<RollCause>,
}
