//! What a segd node reports to the metad leader. Each is repeated until answered and idempotent.

use crate::{Epoch, Incarnation, NodeId, Offset, SegmentId};
use serde::{Deserialize, Serialize};

/// A report. Every one names the segment and what it expects; a repeated one changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Report {
    /// The segment's fill crossed its soft mark: prepare a successor. Repeated until a candidate is seen in the watch stream.
    SoftMark { segment: SegmentId, bytes: u64, end: Offset, rate_bytes_per_s: u64, soft_mark_bytes: u64, attempt: u32 },
    /// The candidate is open on these replicas (at least A, the primary among them); repeated when more have it.
    Ready { segment: SegmentId, open_on: Vec<NodeId>, incarnation: Incarnation },
    /// The primary's segment is decided: record it.
    Sealed { segment: SegmentId, start: Offset, end: Offset, next: SegmentId, stats: RollStats },
    /// The successor's gate opened (durations on its primary's clock).
    GateOpened { segment: SegmentId, gate_us: u64, first_commit_us: u64 },
    /// The binder, alive and not yet switched, gives the candidate back: it will never choose it.
    Released { segment: SegmentId },
    /// This node deleted its replica of a reclaimed segment (or never had one).
    Reclaimed { segment: SegmentId, node: NodeId },
    /// A segment cannot make progress: its quorum is out of reach, or its prior stays undecided past `gate_patience`.
    Stalled { segment: SegmentId },
    /// The agent fixed the end in its epoch.
    Recovered { segment: SegmentId, epoch: Epoch, end: Offset, next: SegmentId },
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
}
