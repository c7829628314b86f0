//! Arguments of `loadgen roll`.

use super::common::{ClusterArgs, TopicArgs, run_name};
use super::units::size;
use crate::commands::roll::RollSettings;
use crate::measure::analyse;
use clap::Args;
use std::path::PathBuf;
use std::str::FromStr;

const EXAMPLES: &str = "\
Three topics on one cluster take turns under the same open-loop load: one that never rolls, one with reactive rolls, one
with anticipatory rolls. For each roll the longest silence between acks, and between deliveries, is compared with placebo
windows of equal length away from rolls. A roll is not felt when the two cannot be told apart.

Examples:
  loadgen roll --json roll.json --html roll.html
  loadgen roll --json roll.json --rtt-ms 0,20,60 --rolls 30 --rate 500 --record-bytes 1024
  loadgen roll --json roll.json --rtt-ms as-is --anticipation at-open --placement sticky";

/// `loadgen roll`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct RollArgs {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Where the page with the pictures goes; it stands alone.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Metadata round trips to measure at, set through the local cluster's relay; `as-is` leaves it alone.
    #[arg(long, value_name = "MS,MS,…", default_value = "0,20,60")]
    pub rtt_ms: RttArg,
    /// Records due a second, over all producers.
    #[arg(long, default_value_t = 500)]
    pub rate: u64,
    /// Size of a record's value.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1024")]
    pub record_bytes: u64,
    /// Segment size of the rolling modes [default: what fills in about 0.9 s].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub segment_bytes: Option<u64>,
    /// Rolls to measure for each rolling mode at each round trip.
    #[arg(long, default_value_t = 30)]
    pub rolls: u64,
    /// Length of a block, after which the next mode takes its turn.
    #[arg(long, value_name = "S", default_value_t = 7.5)]
    pub block_s: f64,
    /// Start of each block that is not measured.
    #[arg(long, value_name = "MS", default_value_t = 500)]
    pub settle_ms: u64,
    /// Load before the first block of a mode at each round trip: verified, not measured. Three rolls or more, so that the
    /// cluster's soft mark has met the new round trip [default: what four rolls take].
    #[arg(long, value_name = "S")]
    pub warm_up_s: Option<f64>,
    #[arg(long, default_value_t = 1)]
    pub producers: u32,
    #[arg(long, default_value_t = 1)]
    pub consumers: u32,
    #[command(flatten)]
    pub topic: TopicArgs,
    /// Random arrivals instead of evenly spaced ones.
    #[arg(long)]
    pub poisson: bool,
    /// Seed of placebo windows, bootstrap and arrivals: the same data and seed give the same report.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Do not fail when the generator itself was late for more than 1 % of the records.
    #[arg(long)]
    pub allow_late: bool,
}

/// Round trips as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RttArg {
    AsIs,
    Set(Vec<u64>),
}

impl FromStr for RttArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "as-is" {
            return Ok(RttArg::AsIs);
        }
        let number = |part: &str| part.trim().parse::<u64>().ok().filter(|ms| *ms <= 2_000);
        let all: Option<Vec<u64>> = text.split(',').map(number).collect();
        all.map(RttArg::Set).ok_or_else(|| format!("{text:?} is not as-is, nor milliseconds up to 2000 like 0,20,60"))
    }
}

impl RollArgs {
    pub fn settings(&self) -> RollSettings {
        let us = |s: f64| (s.max(0.0) * 1e6) as u64;
        let mut settings = RollSettings {
            rate_per_s: self.rate,
            record_bytes: self.record_bytes,
            segment_bytes: self.segment_bytes.unwrap_or_else(|| self.segment_for_period()),
            rolls: self.rolls,
            block_us: us(self.block_s),
            settle_us: self.settle_ms * 1_000,
            warm_up_us: 0,
            producers: self.producers,
            consumers: self.consumers,
            replicas: self.topic.replicas,
            ack_quorum: self.topic.ack_quorum,
            ack: self.topic.ack.clone(),
            placement: self.topic.placement.clone(),
            anticipation: self.topic.anticipation.clone(),
            poisson: self.poisson,
            allow_late: self.allow_late,
            run_name: run_name(),
            analysis: analyse::Settings { seed: self.seed, ..analyse::Settings::default() },
        };
        settings.warm_up_us = self.warm_up_s.map_or_else(|| 4 * settings.expected_period_us() + 300_000, us);
        settings
    }

    /// Bytes written in about 0.9 s, in whole KiB and within what a topic allows.
    fn segment_for_period(&self) -> u64 {
        let bytes = self.rate * self.record_bytes * 9 / 10 / 1024 * 1024;
        bytes.clamp(16 << 10, 1 << 30)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        assert_eq!("0,20,60".parse(), Ok(RttArg::Set(vec![0, 20, 60])));
        assert_eq!("as-is".parse(), Ok(RttArg::AsIs));
        for bad in ["", "20ms", "0,,20", "-1", "99999"] {
            assert!(bad.parse::<RttArg>().is_err(), "{bad}");
        }
    }
}
