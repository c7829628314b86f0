//! Arguments of `loadgen verify`.

use super::common::{ClusterArgs, TopicArgs, run_name};
use super::units::size;
use crate::commands::verify::VerifySettings;
use crate::verify::faults::{Kind, parse_kinds};
use clap::Args;
use seam_history::Limits;
use std::path::PathBuf;
use std::time::Duration;

const EXAMPLES: &str = "\
Producers and tails write down all they did and were told, over many rolls; at the end everything is read back and ten
checks judge the history: nothing acked is lost, nothing is there twice, no reader misses or repeats an offset, the chain
has no gap. A run in which too little happened fails: it proves nothing.

With --fault processes of the local cluster are killed, frozen and started again meanwhile, one fault after another:
kill-primary, kill-follower, kill-ready-successor, kill-begun-successor, kill-agent, kill-metad-leader, kill-router,
kill-all, pause-primary, or all. After each the run waits until the cluster is whole again.

Examples:
  loadgen verify --json verify.json
  loadgen verify --json verify.json --fault kill-primary --rounds 30
  loadgen verify --json verify.json --fault all --pause-s 30
  loadgen verify --json verify.json --rate 2000 --segment-bytes 1MiB --duration-s 120 --min-rolls 100";

/// Seconds of load that fill a segment, unless its size is given.
const SEGMENT_S: u64 = 2;

/// `loadgen verify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Faults to play, in this order.
    #[arg(long = "fault", value_name = "KIND[,KIND…]", value_parser = parse_kinds)]
    pub faults: Vec<Vec<Kind>>,
    /// How often the faults are gone through.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// How long pause-primary freezes it.
    #[arg(long, value_name = "S", default_value_t = 30.0)]
    pub pause_s: f64,
    /// How long the cluster may take to be whole again after a fault, and tails to get to the end.
    #[arg(long, value_name = "S", default_value_t = 60)]
    pub patience_s: u64,
    /// Records due a second, over all producers.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,
    /// Size of a record's value.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "512")]
    pub record_bytes: u64,
    /// Segment size [default: what fills in about 2 s].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub segment_bytes: Option<u64>,
    /// Length of the load, at least; faults may make it longer.
    #[arg(long, value_name = "S", default_value_t = 20.0)]
    pub duration_s: f64,
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub producers: u32,
    /// Of the producers, how many have a short deadline: faults leave them in doubt, and they go on under a new epoch.
    #[arg(long, default_value_t = 1)]
    pub impatient: u32,
    /// Their deadline.
    #[arg(long, value_name = "MS", default_value_t = 300)]
    pub impatient_deadline_ms: u64,
    /// Tails; all but the first leave and come back now and then.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub tails: u32,
    #[command(flatten)]
    pub topic: TopicArgs,
    /// Fail as vacuous with fewer records acked [default: a second's worth].
    #[arg(long)]
    pub min_acks: Option<u64>,
    /// Fail as vacuous with fewer rolls.
    #[arg(long, default_value_t = 3)]
    pub min_rolls: u64,
    /// How much later than its deadline an append may have its outcome.
    #[arg(long, value_name = "S", default_value_t = 5.0)]
    pub lateness_s: f64,
    /// Fail when nothing is acked, or delivered, for so long while something waits, away from faults [default: any time].
    #[arg(long, value_name = "S")]
    pub max_silence_s: Option<f64>,
    /// The same, while a fault is at work [default: any time].
    #[arg(long, value_name = "S")]
    pub max_fault_silence_s: Option<f64>,
    /// Keep the whole history, as JSON.
    #[arg(long, value_name = "FILE")]
    pub history: Option<PathBuf>,
}

impl VerifyArgs {
    pub fn settings(&self) -> VerifySettings {
        let us = |s: f64| (s.max(0.0) * 1e6) as u64;
        let filled = (self.rate * self.record_bytes * SEGMENT_S / 1024 * 1024).clamp(64 << 10, 1 << 30);
        let has_faults = !self.faults.is_empty();
        VerifySettings {
            topic: format!("loadgen-{}-verify", run_name()),
            spec: self.topic.spec(self.segment_bytes.unwrap_or(filled)),
            record_bytes: self.record_bytes,
            rate_per_s: self.rate,
            producers: self.producers,
            impatient: if self.producers > 1 { self.impatient.min(self.producers - 1) } else { 0 },
            deadline: self.cluster.producer().deadline.max(Duration::from_secs(if has_faults { 120 } else { 1 })),
            impatient_deadline: Duration::from_millis(self.impatient_deadline_ms.max(1)),
            tails: self.tails,
            duration: Duration::from_micros(us(self.duration_s)),
            rounds: self.rounds,
            faults: self.faults.concat(),
            pause: Duration::from_micros(us(self.pause_s)),
            patience: Duration::from_secs(self.patience_s.max(1)),
            limits: Limits {
                acks_min: self.min_acks.unwrap_or(self.rate),
                rolls_min: self.min_rolls,
                faults_min: 0,
                crossings_min: self.min_rolls,
                queries_min: 10,
                chains_min: 2.min(self.min_rolls + 1),
                lateness_us: Some(us(self.lateness_s)),
                silence_us: self.max_silence_s.map(us),
                fault_silence_us: self.max_fault_silence_s.map(us),
            },
            history: self.history.clone(),
        }
    }
}
