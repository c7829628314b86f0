//! The faults that a plan may hold. What each does is in `faults`.

use super::event::Proc;
use serde::{Deserialize, Serialize};

/// A moment of a roll or a recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moment {
    Switched,
    GateOpened,
    RecoveryStarted,
    RecoveryDone,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fault {
    /// At the next such moment, and so long after it: the node where it happens (or all of them, of a power loss) is struck.
    At {
        moment: Moment,
        after_us: u64,
        then: Then,
    },
    /// The process ends; at once, or within its next effects (so many are still carried out).
    Crash {
        who: Proc,
        down_us: u64,
        after_effects: Option<usize>,
    },
    /// It stops and goes on later as if nothing had been: a zombie.
    Pause {
        who: Proc,
        for_us: u64,
    },
    /// No way from any of `from` to any of `to`; back as well unless `one_way`.
    Cut {
        from: Vec<Proc>,
        to: Vec<Proc>,
        one_way: bool,
        for_us: u64,
    },
    /// An operator empties a node, and changes his mind later.
    Drain {
        node: u8,
        for_us: u64,
    },
    /// All segd nodes lose power at once; each comes back on its own.
    PowerLoss {
        down_us: u64,
    },
    /// The process ends and its disk is gone; it comes back with an empty one.
    LoseDisk {
        node: u8,
        down_us: u64,
    },
    /// A sync fails: the disk is out of service until, at the healing, it is replaced by an empty one.
    FailDisk {
        node: u8,
    },
    /// An operation on the disk fails; the journal with it, until the process is started anew. Needs sectors.
    DiskError {
        node: u8,
        after_operations: u64,
        full: bool,
    },
    /// Bits turn over where nothing moves, then the process ends. Counts as a lost disk. Needs sectors.
    Rot {
        node: u8,
        bits: u8,
        down_us: u64,
    },
    /// A write lands beside its place; later the process ends. Counts as a lost disk. Needs sectors.
    Misdirect {
        node: u8,
        after_operations: u64,
        down_us: u64,
    },
    SlowDisk {
        node: u8,
        factor: u64,
        for_us: u64,
    },
    /// The leader of metad's log is lost; nobody leads for a while. In doubt, proposals are committed in so many percent.
    Leaderless {
        for_us: u64,
        kept_percent: u32,
        zombie_us: u64,
    },
    SlowMetad {
        by_us: u64,
        for_us: u64,
    },
    BreakLink {
        a: u8,
        b: u8,
    },
    BreakPipes {
        who: Proc,
        percent: u32,
    },
}

/// What strikes a node at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    Crash {
        down_us: u64,
    },
    Pause {
        for_us: u64,
    },
    /// It and all the others.
    PowerLoss {
        down_us: u64,
    },
    /// Not the node: metad's leader.
    Leaderless {
        for_us: u64,
    },
}
