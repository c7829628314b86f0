//! Arguments of `loadgen bench`.

use super::common::{ClusterArgs, TopicArgs, run_name};
use super::units::size;
use crate::commands::bench::BenchSettings;
use clap::Args;

const EXAMPLES: &str = "\
First a closed loop, which tells what the topic carries; then an open loop at a rate, which tells how long records wait.
Everything acked is read back and compared.

Examples:
  loadgen bench --json bench.json
  loadgen bench --json bench.json --window 64 --record-bytes 1024 --duration-s 20
  loadgen bench --json bench.json --rate 1000 --poisson --segment-bytes 16MiB";

/// `loadgen bench`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Appends in flight in the closed loop, over all producers.
    #[arg(long, default_value_t = 256)]
    pub window: u32,
    /// Length of each loop.
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub duration_s: f64,
    /// Records due a second in the open loop [default: a quarter of what the closed loop carried].
    #[arg(long)]
    pub rate: Option<u64>,
    /// Size of a record's value.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1024")]
    pub record_bytes: u64,
    /// Segment size.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "64MiB")]
    pub segment_bytes: u64,
    #[arg(long, default_value_t = 1)]
    pub producers: u32,
    #[arg(long, default_value_t = 1)]
    pub consumers: u32,
    #[command(flatten)]
    pub topic: TopicArgs,
    /// Random arrivals instead of evenly spaced ones.
    #[arg(long)]
    pub poisson: bool,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Do not fail when the generator itself was late for more than 1 % of the records.
    #[arg(long)]
    pub allow_late: bool,
}

impl BenchArgs {
    pub fn settings(&self) -> BenchSettings {
        BenchSettings {
            topic: format!("loadgen-{}-bench", run_name()),
            spec: self.topic.spec(self.segment_bytes),
            record_bytes: self.record_bytes,
            producers: self.producers,
            consumers: self.consumers,
            window: self.window,
            duration_us: (self.duration_s.max(0.1) * 1e6) as u64,
            settle_us: 1_000_000,
            rate_per_s: self.rate,
            poisson_seed: self.poisson.then_some(self.seed),
            allow_late: self.allow_late,
        }
    }
}
