//! What `verify` reports, beside the keys that all commands share. Times in microseconds; those of the run count from its
//! start.

use crate::measure::latency::Summary;
use crate::target::Recovering;
use crate::verify::faults::Kind;
use seam_history::{Figures, Vacuity, Violation};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verify {
    pub topic: String,
    /// The ten checks, in order.
    pub checks: Vec<CheckRow>,
    /// The first violations of each check, as data; `violations_in_words` says the same.
    pub violations: Vec<Violation>,
    pub violations_in_words: Vec<String>,
    /// Of what there was too little: with any, the run proves nothing.
    pub vacuous: Vec<Vacuity>,
    pub figures: Figures,
    pub records_acked: u64,
    pub records_read: u64,
    pub lost: u64,
    pub duplicated: u64,
    pub out_of_order: u64,
    pub gaps: u64,
    /// By those whose deadline faults must not reach; doubt at the impatient ones is counted in `figures`.
    pub errors_seen_by_application: u64,
    pub errors: Vec<String>,
    pub rolls: u64,
    pub rolls_by_recovery: u64,
    pub appends_waited_for_roll: u64,
    pub overrun_bytes: u64,
    /// Questions for ends and chains, and openings of tails, that nobody answered: to be expected while nobody is there.
    pub questions_unanswered: u64,
    pub append: Summary,
    pub faults: Vec<FaultRow>,
    /// By the name of the fault.
    pub by_fault: BTreeMap<String, FaultSummary>,
    /// Over all kills of a primary.
    pub recovery: RecoveryPhases,
    /// Over all kills of metad's leader.
    pub metad_crash: MetadCrash,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckRow {
    /// From 1.
    pub check: u8,
    pub name: String,
    pub words: String,
    pub violations: u64,
}

/// One fault as it was played.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultRow {
    pub fault: Kind,
    /// Of this kind, from 1.
    pub round: u32,
    pub at_us: u64,
    pub victims: Vec<String>,
    /// Written when the fault began.
    pub segment: Option<u64>,
    /// From the signal to the first ack of a record that was sent once the victim was gone.
    pub next_ack_us: Option<u64>,
    /// From the signal until metad was seen to have appointed an agent; asked every few milliseconds.
    pub appointed_us: Option<u64>,
    /// From the signal until the end of the segment was seen to be decided.
    pub decided_us: Option<u64>,
    /// From the signal until the cluster was whole, the victim back in it.
    pub whole_us: Option<u64>,
    pub appends_waited_for_roll: u64,
    pub overrun_bytes: u64,
    /// The recovery of `segment`, by the cluster's own record.
    pub recovery: Option<Recovering>,
    pub notes: Vec<String>,
    /// What did not come about; empty when the fault was survived.
    pub failures: Vec<String>,
}

/// All faults of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultSummary {
    pub count: u64,
    pub failed: u64,
    pub next_ack: Summary,
    pub whole: Summary,
}

/// From the kill of a primary to the next ack. `appointed` and `appointed_to_decided` were seen from outside, by asking metad;
/// `phases` are what the cluster itself recorded of those recoveries: `detection`, `appointment`, `fence`, `copy`, `decision`
/// and `first_commit`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecoveryPhases {
    pub next_ack: Summary,
    pub appointed: Summary,
    pub appointed_to_decided: Summary,
    pub phases: BTreeMap<String, Summary>,
}

/// What metad's absence cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MetadCrash {
    pub count: u64,
    /// 0: metad is on nobody's way to an ack.
    pub appends_waited_for_roll: u64,
    /// Written past the hard cap while no successor could be had.
    pub overrun_bytes: u64,
}
