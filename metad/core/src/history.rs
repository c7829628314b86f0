//! What is kept of each roll: who, where, and how long each phase took. For people and for the adaptive mark; no decision reads it.
//!
//! Every duration is measured on one clock and travels in a command; moments of different machines are never compared. Phases
//! chain causally (one begins with the message that ends another), which is how `seam roll explain` puts them on one timeline.

use seam_wire::report::{AgentStats, GateStats, RollStats};
use seam_wire::{Epoch, NodeId, Offset, RangeId, SegmentId};
use serde::{Deserialize, Serialize};

/// One roll of a range. Durations in microseconds, 0 where unknown (the leader changed) or where the phase did not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RollRecord {
    pub range: RangeId,
    pub segment: SegmentId,
    pub next: SegmentId,
    pub start: Offset,
    /// Exclusive.
    pub end: Offset,
    pub by_recovery: bool,
    /// The old primary's measurements.
    pub stats: RollStats,
    /// How the successor came to be.
    pub opening: OpeningStats,
    /// `Ready` received to committed, on the leader's clock.
    pub ready_us: u64,
    /// `Sealed` received to `CommitRoll` committed, on the leader's clock.
    pub record_us: u64,
    /// The new primary's measurements.
    pub gate: GateStats,
    /// How the old primary was missed and replaced, where it was.
    pub recovery: Option<RecoveryStats>,
}

impl RollRecord {
    /// The network's share of the announcement: what the old primary waited beyond what the leader can account for.
    pub fn announce_us(&self) -> u64 {
        let accounted = self.opening.commit_us + self.opening.open_us + self.ready_us;
        self.stats.announce_to_ready_us.saturating_sub(accounted)
    }
}

/// How a candidate was made and opened, on the leader's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpeningStats {
    /// Soft mark received to `Prepare` proposed: placement, and whatever had to be waited for before.
    pub placement_us: u64,
    /// Soft mark received to `Prepare` committed: placement, and then the log.
    pub commit_us: u64,
    /// `Prepare` committed to `Ready` received.
    pub open_us: u64,
}

/// Why a segment was recovered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RecoveryCause {
    /// Its primary's node was not heard of for too long.
    Silent,
    /// Its primary's process is another one now.
    Restarted,
    /// Its primary's disk failed.
    DiskFailed,
    /// Somebody complained that it makes no progress.
    Stalled,
    /// Its primary's node lost its session with the leader, and opened no other within the grace.
    SessionBroken,
}

/// How a recovery went. Durations on the leader's clock but for those of the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecoveryStats {
    /// Appointments up to the one that decided.
    pub epoch: Epoch,
    pub agent: NodeId,
    /// `None`: the leader that knew is gone.
    pub cause: Option<RecoveryCause>,
    /// The primary last heard of (or the complaint) to the verdict that it is over.
    pub detect_us: u64,
    /// The verdict to the deciding appointment's proposal: pacing, and appointments that failed.
    pub wait_us: u64,
    /// That proposal to its commit.
    pub appoint_us: u64,
    /// Appointed to `Recovered` received: the agent's work and two trips.
    pub work_us: u64,
    pub stats: AgentStats,
}

/// Phases of a candidate, kept until its roll is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Phases {
    pub opening: OpeningStats,
    pub gate: GateStats,
}
