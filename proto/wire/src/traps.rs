//! Known ways to get the protocol wrong, to be put back one by one so that the checks can be seen to catch them.
//!
//! Without the feature `traps` every question answers `false` at compile time: release binaries hold none of this.
//! One trap is active per process (a test process, or `sim --trap`).

/// The traps of the roll protocol's design by their names there, then other faults. `sim::traps` says what each breaks.
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
    /// The fence is a flag that a write in flight overtakes: its completion acks, and its seal entry votes.
    V6FenceNotRechecked,
    /// A replica that lost its disk answers as if it were empty.
    V7LostDiskVotes,
    /// A candidate is released, and chosen all the same.
    V8ReleasedIsChosen,
    /// A duplicate is answered from the table before its original is committed.
    P2EarlyDuplicate,
    /// A group commit that completes after the fence acks.
    P3LateAck,
    /// The end of an empty first segment is counted inclusively: it has no offset before it.
    P4InclusiveEnd,
    /// The end is shown to tails at the switch, before it is decided.
    P8EndShownEarly,
    /// Recovery waits for A copies, reachable or not.
    L1RecoveryWaitsForAll,
    /// `Begin` is said once, and nothing else stands for it.
    L2BeginOnce,
    /// A primary never releases a candidate.
    L3NoRelease,
    /// A replica says `Stored` before the sync.
    AckBeforeSync,
    /// A replica answers an agent, and promises nothing.
    UnfencedRead,
    /// An agent fixes the end by the first answer.
    EndFromOne,
    /// A shut gate lets through.
    GateIgnored,
    /// metad takes a candidate back when it asks for its release, not when its binder gave it.
    EarlyReclaim,
    /// The lowest free segment id is given out again.
    IdReused,
    /// Tails are shown what one replica holds.
    PastCommitted,
    /// The producer table is not handed over.
    TableDropped,
    /// A promise is answered before it is durable.
    EpochAfterReply,
    /// `Begin` names the offset after the end.
    OffByOneStart,
    /// A producer sends what may be in the log again under a new sequence.
    RetriedAsNew,
    /// metad's state decides a placement by something that stands in no command.
    PlacementInApply,
    /// Segments leave the chain, and the log's start stays.
    TrimBeforeStart,
    /// A candidate is chosen before it is open anywhere.
    BeforeReady,
    /// After an unclean stop a replica takes what it finds for what it had.
    CleanStopBelieved,
    /// A replica forgets its promise with its process.
    PromiseForgotten,
    /// A router says of an append in doubt that it did not happen.
    DoubtSaidDefinite,
    /// A reader resumes at the last offset it had, and hands it on again.
    TailRepeats,
    /// One copy fewer than A commits.
    ShortQuorum,
    /// An agent reports the end before it was copied.
    NoCopies,
    /// A replica that lacks records of a decided segment serves it.
    IncompleteServes,
    /// A producer's earlier epoch still writes.
    OldEpochWrites,
}

#[cfg(feature = "traps")]
mod state {
    use super::Trap;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU8, Ordering};

    static ACTIVE: AtomicU8 = AtomicU8::new(0);
    /// `deploy/tidy` looks for these bytes in what is shipped, and for their presence in `sim`.
    static MARKER: &[u8] = b"seamlog: built with known ways to break it";

    thread_local! {
        static PRIVATE: Cell<usize> = const { Cell::new(0) };
    }

    /// Activates one trap for the whole process.
    pub fn activate(trap: Trap) {
        std::hint::black_box(MARKER);
        ACTIVE.store(trap as u8, Ordering::SeqCst);
    }

    pub fn active(trap: Trap) -> bool {
        ACTIVE.load(Ordering::Relaxed) == trap as u8
    }

    /// A number that stands in no command: how often this thread has asked since `begin_run`.
    pub fn private_number() -> usize {
        PRIVATE.replace(PRIVATE.get() + 1)
    }

    /// A simulated world begins on this thread: its run depends on nothing before it.
    pub fn begin_run() {
        PRIVATE.set(0);
    }
}

#[cfg(feature = "traps")]
pub use state::{activate, active, begin_run, private_number};

#[cfg(not(feature = "traps"))]
pub const fn active(_trap: Trap) -> bool {
    false
}

#[cfg(not(feature = "traps"))]
pub const fn private_number() -> usize {
    0
}
