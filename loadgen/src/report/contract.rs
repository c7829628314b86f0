//! The JSON report. A contract: keys stay, new ones may come (`schema` changes when a meaning does). Durations in
//! microseconds. Every figure of the page and of the table is read from here, so that all three say the same.

use crate::drive::priority::Priority;
use crate::measure::latency::Summary;
use crate::measure::lateness::Lateness;
use crate::measure::verify::Verdict;
use crate::report::verify::Verify;
use crate::target::Roll;
use serde::{Deserialize, Serialize};

pub const SCHEMA: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    pub schema: u32,
    /// `roll`, `bench`, `replay` or `verify`.
    pub command: String,
    pub config: Config,
    pub environment: Environment,
    /// One per metadata round trip; empty but for `roll`.
    pub runs: Vec<Run>,
    pub throughput: Throughput,
    /// What was claimed of this run, and whether it held.
    #[serde(default)]
    pub claims: Vec<Claim>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub bench: Option<Bench>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub replay: Option<Replay>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verify: Option<Verify>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    pub rate_per_s: u64,
    pub record_bytes: u64,
    pub segment_bytes: u64,
    pub replicas: u32,
    pub ack_quorum: u32,
    pub ack: String,
    pub producers: u32,
    pub consumers: u32,
    /// Wall time of the whole run.
    pub duration_s: f64,
    pub placement: String,
    /// The anticipatory mode's setting: `soft` or `at-open`.
    pub anticipation: String,
    pub arrivals: String,
    pub seed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Environment {
    pub file_system: String,
    pub fdatasync_p50_us: u64,
    pub fdatasync_p99_us: u64,
    pub cores: u32,
    pub cpu: String,
    pub kernel: String,
    pub generator_late_share: f64,
    pub generator: Lateness,
    /// `real-time`, `raised` or `ordinary`: what the generator's thread was given.
    pub generator_priority: Priority,
    /// What an ack meant in this run.
    pub durability: String,
    /// One router-segd round trip: half of a query that goes client, router, segd and back. The least difference worth a name.
    pub data_round_trip_us: u64,
    pub version: String,
    /// Seconds since 1970 at the start of the run.
    pub started_unix_s: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// What was asked for.
    pub metad_rtt_ms: u64,
    /// What a committing metadata call took while it was in force (median).
    pub metadata_call_p50_us: u64,
    pub modes: Modes,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Modes {
    pub anticipatory: ModeReport,
    pub reactive: ModeReport,
    pub no_rolls: ModeReport,
}

/// The three modes, in the order people read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    NoRolls,
    Reactive,
    Anticipatory,
}

impl Mode {
    pub const ALL: [Mode; 3] = [Mode::NoRolls, Mode::Reactive, Mode::Anticipatory];

    /// As in the JSON, and in topic names.
    pub fn key(self) -> &'static str {
        match self {
            Mode::NoRolls => "no_rolls",
            Mode::Reactive => "reactive",
            Mode::Anticipatory => "anticipatory",
        }
    }

    pub fn words(self) -> &'static str {
        match self {
            Mode::NoRolls => "no rolls",
            Mode::Reactive => "reactive rolls",
            Mode::Anticipatory => "anticipatory rolls",
        }
    }

    pub fn rolls(self) -> bool {
        match self {
            Mode::NoRolls => false,
            Mode::Reactive | Mode::Anticipatory => true,
        }
    }
}

impl Modes {
    pub fn get(&self, mode: Mode) -> &ModeReport {
        match mode {
            Mode::NoRolls => &self.no_rolls,
            Mode::Reactive => &self.reactive,
            Mode::Anticipatory => &self.anticipatory,
        }
    }

    pub fn get_mut(&mut self, mode: Mode) -> &mut ModeReport {
        match mode {
            Mode::NoRolls => &mut self.no_rolls,
            Mode::Reactive => &mut self.reactive,
            Mode::Anticipatory => &mut self.anticipatory,
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ModeReport {
    /// Rolls after the warm-up, whether or not their window lies wholly in a measured stretch.
    pub rolls: u64,
    pub rolls_not_ready: u64,
    pub appends_waited_for_roll: u64,
    pub overrun_bytes: u64,
    pub append: Split,
    pub tail: Split,
    pub silence: Silences,
    pub errors_seen_by_application: u64,
    #[serde(flatten)]
    pub verdict: Verdict,
    pub roll_phases_us: Phases,

    /// Rolls whose boundary window lies wholly in a measured stretch: those that `silence` is about.
    pub rolls_measured: u64,
    /// Backlogs that had not drained when their block ended.
    pub rolls_undrained: u64,
    /// Rolls of the warm-up, left out of all figures but verification.
    pub rolls_in_warm_up: u64,
    pub rolls_not_ready_in_warm_up: u64,
    /// Rolls that the cluster no longer remembered, or had not finished recording, when asked.
    pub rolls_without_phases: u64,
    pub stall: Stall,
    /// Latency of the first record of each successor.
    pub first_append: Summary,
    /// Latency at `1 - q`, for the percentile curves: `[1 - q, us]`.
    pub append_curve: Vec<(f64, u64)>,
    pub tail_curve: Vec<(f64, u64)>,
    pub series: Series,
    pub per_roll: Vec<RollRow>,
    /// Longest ack silence of each placebo window, and longest delivery silence.
    pub placebo_append_us: Vec<u64>,
    pub placebo_tail_us: Vec<u64>,
    /// The first few errors the application saw.
    pub errors: Vec<String>,
}

/// Records due in a boundary window, and all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Split {
    pub steady: Summary,
    pub boundary: Summary,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Silences {
    pub append: Silence,
    pub tail: Silence,
}

/// Longest silence per window: at rolls, and in placebo windows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Silence {
    pub boundary: Summary,
    pub placebo: Summary,
    /// Mann-Whitney, two-sided; `null` when a side is empty.
    pub p_value: Option<f64>,
    /// Boundary minus placebo.
    pub median_diff_us: i64,
    pub median_diff_ci95_us: (i64, i64),
    pub p99_diff_us: i64,
    pub p99_diff_ci95_us: (i64, i64),
    /// Latency of records due in boundary windows minus those due in placebo windows.
    pub latency_median_diff_us: i64,
    pub latency_p99_diff_us: i64,
}

/// Phases of the rolls, as the cluster traced them (see `seam` roll history).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    pub announce: Summary,
    pub commit: Summary,
    pub open: Summary,
    pub ready: Summary,
    pub slack: Summary,
    pub switch: Summary,
    pub seal: Summary,
    pub begin: Summary,
    pub gate: Summary,
    pub record: Summary,
    pub announce_to_ready: Summary,
}

/// How long appends stood still at a roll: from outside (what the first record of the successor took above the steady
/// median) and as traced (from wanting to switch to switching, and then until the successor's gate opened).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Stall {
    pub measured: Summary,
    pub traced: Summary,
}

/// Latency over time, on the axis of measured time: the blocks of this mode put end to end.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Series {
    pub bucket_ms: u64,
    /// Largest append latency of the records due in each bucket; 0 where none was due.
    pub append_max_us: Vec<u64>,
    pub append_p50_us: Vec<u64>,
    pub roll_at_ms: Vec<f64>,
    /// Where one block ends and the next begins.
    pub block_at_ms: Vec<f64>,
    pub close_up: CloseUp,
}

/// Append latency around a roll, all rolls laid over each other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CloseUp {
    pub from_ms: i64,
    pub bin_ms: i64,
    pub p50_us: Vec<u64>,
    pub p90_us: Vec<u64>,
    pub max_us: Vec<u64>,
}

/// One measured roll.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RollRow {
    pub at_ms: f64,
    pub window_ms: f64,
    pub append_silence_us: u64,
    /// Latency of the first record in the successor, the one that waits longest.
    pub first_append_us: u64,
    pub tail_silence_us: u64,
    #[serde(flatten)]
    pub roll: Roll,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    pub records_per_s: f64,
    pub mib_per_s: f64,
}

/// One statement about the run, judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Stable name.
    pub name: String,
    /// `null`: of the run as a whole.
    pub metad_rtt_ms: Option<u64>,
    pub holds: bool,
    /// Nothing speaks against it, but this run could not have seen it fail: `holds` is then false too.
    #[serde(default)]
    pub inconclusive: bool,
    /// The evidence, for people.
    pub evidence: String,
}

/// What `bench` measured. `throughput` is that of the closed loop.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bench {
    pub window: u32,
    pub closed_loop: Summary,
    pub open_loop_rate_per_s: u64,
    pub append: Summary,
    pub tail: Summary,
    pub append_curve: Vec<(f64, u64)>,
    pub tail_curve: Vec<(f64, u64)>,
    pub rolls: u64,
    pub errors_seen_by_application: u64,
    #[serde(flatten)]
    pub verdict: Verdict,
    pub errors: Vec<String>,
}

/// What `replay` found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replay {
    pub topic: String,
    pub input_bytes: u64,
    pub output_bytes: u64,
    pub records: u64,
    pub rolls: u64,
    pub identical: bool,
    /// Byte position of the first difference.
    pub first_difference: Option<u64>,
    pub input_crc32c: String,
    pub output_crc32c: String,
    pub errors_seen_by_application: u64,
    pub errors: Vec<String>,
}
