//! The traps by their names, and which configuration shows each.

use super::config::{self, Config};
use super::properties as p;
use segd_core::traps::Trap;

/// A way to break the protocol, where it shows, and what it breaks there at the least.
pub struct Case {
    pub name: &'static str,
    pub trap: Trap,
    pub config: &'static str,
    pub breaks: &'static [&'static str],
}

/// States generated at most in search of what a trap breaks.
pub const TRAP_BOUND: usize = 5_000_000;

pub const CASES: &[Case] = &[
    Case { name: "V1", trap: Trap::V1AnyBinder, config: "recovery", breaks: &[p::R3, p::R13] },
    Case { name: "V2", trap: Trap::V2CopiesVote, config: "two-agents-register", breaks: &[p::R4, p::R5] },
    Case { name: "V3", trap: Trap::V3SwitchBehindClosedGate, config: "chain", breaks: &[p::R1_KEPT, p::R4, p::R15] },
    Case { name: "V4", trap: Trap::V4ResumeAfterRestart, config: "crash", breaks: &[p::R1_KEPT, p::R2] },
    Case { name: "V5", trap: Trap::V5AgentResumes, config: "restart", breaks: &[p::R3, p::R5_EPOCH] },
    Case { name: "V6", trap: Trap::V6FenceNotRechecked, config: "unordered", breaks: &[p::R1_KEPT, p::R8] },
    Case { name: "V7", trap: Trap::V7LostDiskVotes, config: "lost-disk", breaks: &[p::R1_KEPT] },
    Case { name: "V8", trap: Trap::V8ReleasedIsChosen, config: "release", breaks: &[p::R10] },
    Case { name: "P2", trap: Trap::P2EarlyDuplicate, config: "recovery", breaks: &[p::R1_KEPT, p::R14] },
    Case { name: "P3", trap: Trap::P3LateAck, config: "recovery", breaks: &[p::R8] },
    Case { name: "P8", trap: Trap::P8EndShownEarly, config: "recovery", breaks: &[p::R5, p::R7] },
    Case { name: "L1", trap: Trap::L1RecoveryWaitsForAll, config: "all-ack", breaks: &[p::LIVE] },
];

impl Case {
    pub fn named(name: &str) -> Option<&'static Case> {
        CASES.iter().find(|case| case.name.eq_ignore_ascii_case(name))
    }

    pub fn config(&self) -> Config {
        config::named(self.config).expect("a case names a configuration")
    }
}
