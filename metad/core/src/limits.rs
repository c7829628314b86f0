//! The named settings of metad: those of the replicated state and those of its leader.

use serde::{Deserialize, Serialize};

/// Bounds of the replicated state. Part of the state and of its snapshot: every member must start with the same ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Limits {
    /// Candidates of one prior, for its primary, that may be planned or ready at once. Default 4.
    pub candidates: u32,
    /// Candidates of one prior whose files may still lie on disks (planned, ready or being reclaimed). Default 16.
    pub unreclaimed: u32,
    /// Roll records kept per range, the newest. Default 256.
    pub history: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { candidates: 4, unreclaimed: 16, history: 256 }
    }
}

/// The leader's patience. Soft: members may differ, though there is no reason to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How often a node is told to send a heartbeat. Default 500.
    pub node_heartbeat_ms: u64,
    /// Silence after which a node is taken for dead. Default 3000.
    pub node_suspect_ms: u64,
    /// How long a node whose session broke may take to open another before it is taken for dead. Longer for a node with a
    /// long round trip: see `session_grace_us`. Default 150.
    pub session_grace_ms: u64,
    /// How long a candidate may stay planned before the next attempt; doubled for each one waiting, up to 8 times. Default 2000.
    pub ready_timeout_ms: u64,
    /// How long an agent may take before another is appointed; doubled at each appointment, up to 16 times. Default 3000.
    pub recovery_patience_ms: u64,
    /// Recoveries that run at once. Default 16.
    pub recoveries: u32,
    /// How often every range is looked at even if nothing called for it. Default 1000.
    pub sweep_ms: u64,
    /// How long a proposal may stay unanswered before its askers are told to try again. Default 5000.
    pub propose_timeout_ms: u64,
}

impl Default for Timing {
    fn default() -> Self {
        Timing {
            node_heartbeat_ms: 500,
            node_suspect_ms: 3000,
            session_grace_ms: 150,
            ready_timeout_ms: 2000,
            recovery_patience_ms: 3000,
            recoveries: 16,
            sweep_ms: 1000,
            propose_timeout_ms: 5000,
        }
    }
}

/// Round trips that a new session takes (TCP, TLS, the call, its first heartbeat), and as many again to spare.
const SESSION_ROUND_TRIPS: u64 = 8;

impl Timing {
    /// The grace of a node with this round trip.
    pub(crate) fn session_grace_us(&self, round_trip_us: u64) -> u64 {
        (self.session_grace_ms * 1000)
            .max(round_trip_us.saturating_mul(SESSION_ROUND_TRIPS))
            .min(self.node_suspect_ms * 1000)
    }

    /// Silence after which a node gets no new segments and no recoveries, though it is not dead yet.
    pub(crate) fn quiet_ms(&self) -> u64 {
        (self.node_suspect_ms / 2).max(self.node_heartbeat_ms * 2)
    }

    /// A jump of our own clock by more than this means that we were paused, not that others were silent.
    pub(crate) fn pause_us(&self) -> u64 {
        self.node_heartbeat_ms * 4 * 1000
    }
}
