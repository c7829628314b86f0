//! What is kept of each roll: who, where, and how long each phase took. For people and for the adaptive mark; no decision reads it.

use seam_wire::report::RollStats;
use seam_wire::{Offset, RangeId, SegmentId};
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
    /// Soft mark received to `Prepare` committed, on the leader's clock.
    pub commit_us: u64,
    /// `Prepare` committed to `Ready` received, on the leader's clock.
    pub open_us: u64,
    /// `Ready` received to committed, on the leader's clock.
    pub ready_us: u64,
    /// `Sealed` received to `CommitRoll` committed, on the leader's clock.
    pub record_us: u64,
    /// `Begin` received to gate open, on the new primary's clock.
    pub gate_us: u64,
    /// `Begin` received to the first commit, on the new primary's clock.
    pub first_commit_us: u64,
}

impl RollRecord {
    /// The network's share of the announcement: what the old primary waited beyond what the leader can account for.
    pub fn announce_us(&self) -> u64 {
        self.stats.announce_to_ready_us.saturating_sub(self.commit_us + self.open_us + self.ready_us)
    }
}

/// Phases of a candidate, kept until its roll is recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Phases {
    pub commit_us: u64,
    pub open_us: u64,
    pub gate_us: u64,
    pub first_commit_us: u64,
}
