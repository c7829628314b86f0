//! Known ways to get the protocol wrong, to be put back one by one so that the checks can be seen to catch them.
//!
//! Without the feature `traps` every question answers `false` at compile time: release binaries hold none of this.
//! One trap is active per process (a test process, or `sim --trap`).

/// The traps of the roll protocol's design, by their names there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Trap {
    None = 0,
    /// A candidate may be begun by anybody, not by its one binder alone.
    V1AnyBinder,
    /// An agent copies seal entries, and the gate counts the copies.
    V2CopiesVote,
    /// A primary switches behind its own closed gate.
    V3SwitchBehindClosedGate,
    /// A restarted primary resumes its segment.
    V4ResumeAfterRestart,
    /// A restarted agent goes on under its old epoch.
    V5AgentResumes,
    /// The fence is a flag that a write in flight overtakes: its completion still acks.
    V6FenceNotRechecked,
    /// A replica that lost its disk answers as if it were empty.
    V7LostDiskVotes,
    /// A candidate is released, and chosen all the same.
    V8ReleasedIsChosen,
    /// A duplicate is answered from the table before its original is committed.
    P2EarlyDuplicate,
    /// The end is shown to tails at the switch, before it is decided.
    P8EndShownEarly,
    /// Recovery waits for A copies, reachable or not.
    L1RecoveryWaitsForAll,
}

#[cfg(feature = "traps")]
mod state {
    use std::sync::atomic::{AtomicU8, Ordering};
    static ACTIVE: AtomicU8 = AtomicU8::new(0);

    /// Activates one trap for the whole process.
    pub fn activate(trap: super::Trap) {
        ACTIVE.store(trap as u8, Ordering::SeqCst);
    }

    pub(crate) fn active(trap: super::Trap) -> bool {
        ACTIVE.load(Ordering::Relaxed) == trap as u8
    }
}

#[cfg(feature = "traps")]
pub use state::activate;
#[cfg(feature = "traps")]
pub(crate) use state::active;

#[cfg(not(feature = "traps"))]
pub(crate) const fn active(_trap: Trap) -> bool {
    false
}
