//! `loadgen roll`: is a roll felt? Three modes on one cluster, loaded in turn in blocks, at each metadata round trip.

use crate::clock::Clock;
use crate::commands::progress::Progress;
use crate::commands::rolls::{Rolls, complete};
use crate::commands::{CommandError, durability};
use crate::drive::lane::{Lane, LaneSettings, Load};
use crate::measure::analyse::{self, ModeData, analyse};
use crate::measure::lateness::Lateness;
use crate::measure::schedule::Arrivals;
use crate::measure::stats;
use crate::measure::verify::Verdict;
use crate::report::claims::{self, Expectations};
use crate::report::contract::{Config, Environment, Mode, Report, Run, SCHEMA, Throughput};
use crate::rtt::{self, RttFile};
use crate::target::{Target, TopicSpec};

/// Segments of the mode that does not roll.
const HUGE_SEGMENT_BYTES: u64 = 1 << 30;
/// Blocks beyond the expected number that are tried when rolls come more slowly than expected.
const PATIENCE_FACTOR: u64 = 3;
/// A batch of one record is about this much larger than its payload.
const RECORD_OVERHEAD_BYTES: u64 = 96;

/// Where the metadata round trip comes from.
#[derive(Debug)]
pub enum RoundTrips {
    /// Set through the relay's file, one run each.
    Set(RttFile, Vec<u64>),
    /// Whatever it is; one run, with what a committing call takes rounded to ms.
    AsIs,
}

/// Settings of `loadgen roll`; the command line explains each.
#[derive(Clone, Debug)]
pub struct RollSettings {
    pub rate_per_s: u64,
    pub record_bytes: u64,
    pub segment_bytes: u64,
    pub rolls: u64,
    pub block_us: u64,
    pub settle_us: u64,
    pub warm_up_us: u64,
    pub producers: u32,
    pub consumers: u32,
    pub replicas: u8,
    pub ack_quorum: u8,
    pub ack: String,
    pub placement: String,
    pub anticipation: String,
    pub poisson: bool,
    pub allow_late: bool,
    /// Distinguishes the topics of this run from those of earlier ones.
    pub run_name: String,
    pub analysis: analyse::Settings,
}

impl RollSettings {
    /// Time between rolls, as far as it can be told beforehand.
    pub fn expected_period_us(&self) -> u64 {
        let bytes_per_s = self.rate_per_s * (self.record_bytes + RECORD_OVERHEAD_BYTES);
        self.segment_bytes.saturating_mul(1_000_000) / bytes_per_s.max(1)
    }

    fn window_us(&self) -> u64 {
        self.analysis.shape.before_us + self.analysis.shape.after_us
    }

    /// Blocks of each mode that should hold the rolls asked for. A roll whose window would reach over an edge of its block
    /// is not measured.
    fn expected_blocks(&self) -> u64 {
        let measured_us = self.block_us.saturating_sub(self.settle_us + self.window_us()).max(1);
        (self.rolls * self.expected_period_us()).div_ceil(measured_us).max(1)
    }

    fn validate(&self) -> Result<(), CommandError> {
        let window_us = self.window_us();
        let period_us = self.expected_period_us();
        if self.rate_per_s == 0 {
            return Err(CommandError::Settings("--rate must be at least 1 record a second".to_owned()));
        }
        if period_us < 2 * window_us {
            return Err(CommandError::Settings(format!(
                "at this rate a segment fills in {} ms, which leaves no room for placebo windows beside the {} ms of a roll; use larger --segment-bytes or a lower --rate",
                period_us / 1_000,
                window_us / 1_000
            )));
        }
        if self.block_us < self.settle_us + 2 * period_us {
            return Err(CommandError::Settings(format!(
                "a block of {} ms holds fewer than two rolls, which come each {} ms; use a larger --block-s or smaller --segment-bytes",
                self.block_us / 1_000,
                period_us / 1_000
            )));
        }
        Ok(())
    }

    fn spec(&self, mode: Mode) -> TopicSpec {
        let (anticipation, segment_bytes) = match mode {
            Mode::NoRolls => (self.anticipation.clone(), HUGE_SEGMENT_BYTES),
            Mode::Reactive => ("off".to_owned(), self.segment_bytes),
            Mode::Anticipatory => (self.anticipation.clone(), self.segment_bytes),
        };
        TopicSpec {
            replicas: self.replicas,
            ack_quorum: self.ack_quorum,
            ack: self.ack.clone(),
            anticipation,
            placement: self.placement.clone(),
            segment_bytes,
        }
    }

    fn config(&self) -> Config {
        Config {
            rate_per_s: self.rate_per_s,
            record_bytes: self.record_bytes,
            segment_bytes: self.segment_bytes,
            replicas: u32::from(self.replicas),
            ack_quorum: u32::from(self.ack_quorum),
            ack: self.ack.clone(),
            producers: self.producers,
            consumers: self.consumers,
            duration_s: 0.0,
            placement: self.placement.clone(),
            anticipation: self.anticipation.clone(),
            arrivals: if self.poisson { "poisson" } else { "fixed" }.to_owned(),
            seed: self.analysis.seed,
        }
    }
}

/// One mode of the run.
struct ModeLane<T: Target> {
    mode: Mode,
    topic: String,
    lane: Lane<T::Producer>,
    rolls: Rolls,
    /// The offset after the last one acked.
    end: u64,
}

/// One metadata round trip, while it is measured.
#[derive(Default)]
struct Sweep {
    /// By mode: what was measured, and where in the log warm-up and measurement began.
    data: [ModeData; 3],
    began: [u64; 3],
    measured_from: [u64; 3],
    verdicts_before: [Verdict; 3],
    errors_before: [(u64, usize); 3],
}

/// Runs the comparison. `environment` comes surveyed; the generator's figures are added.
pub async fn run<T: Target>(
    target: &T,
    settings: &RollSettings,
    round_trips: &RoundTrips,
    environment: Environment,
) -> Result<Report, CommandError> {
    settings.validate()?;
    let clock = Clock::start();
    let mut lanes = Vec::new();
    for mode in Mode::ALL {
        lanes.push(open(target, settings, clock, mode).await?);
    }
    let metadata_topic = lanes[0].topic.clone();
    let asked: Vec<Option<u64>> = match round_trips {
        RoundTrips::Set(_, all) => all.iter().copied().map(Some).collect(),
        RoundTrips::AsIs => vec![None],
    };
    let blocks = 3 * (1 + settings.expected_blocks());
    let progress = Progress::new(blocks * asked.len() as u64);
    let mut report = Report {
        schema: SCHEMA,
        command: "roll".to_owned(),
        config: settings.config(),
        environment,
        ..Report::default()
    };
    report.environment.durability = durability(&settings.ack, settings.ack_quorum.into(), settings.replicas.into());
    let mut load_us = 0;
    for rtt_ms in asked {
        let call_us = match (round_trips, rtt_ms) {
            (RoundTrips::Set(file, _), Some(ms)) => file.set(target, &metadata_topic, ms).await?,
            (RoundTrips::Set(..), None) | (RoundTrips::AsIs, _) => rtt::call_p50_us(target, &metadata_topic)
                .await
                .map_err(CommandError::target("timing a metadata call"))?,
        };
        let metad_rtt_ms = rtt_ms.unwrap_or(call_us / 1_000);
        let mut run = Run { metad_rtt_ms, metadata_call_p50_us: call_us, ..Run::default() };
        let sweep = sweep(target, settings, &mut lanes, &progress, metad_rtt_ms).await?;
        for (lane, data) in lanes.iter().zip(&sweep.data) {
            load_us += data.blocks.iter().filter_map(|b| b.span).map(|s| s.len_us()).sum::<u64>();
            *run.modes.get_mut(lane.mode) = analyse(data, settings.analysis);
        }
        report.runs.push(run);
    }
    report.environment.data_round_trip_us = data_round_trip_us(target, &metadata_topic).await?;
    finish(&mut report, &lanes, clock, load_us);
    report.claims = claims::judge(&report, Expectations { rolls: settings.rolls, allow_late: settings.allow_late });
    Ok(report)
}

async fn open<T: Target>(
    target: &T,
    settings: &RollSettings,
    clock: Clock,
    mode: Mode,
) -> Result<ModeLane<T>, CommandError> {
    let topic = format!("loadgen-{}-{}", settings.run_name, mode.key());
    let what = format!("creating topic {topic}");
    target.create_topic(&topic, &settings.spec(mode)).await.map_err(CommandError::target(what))?;
    let lane_settings = LaneSettings {
        producers: settings.producers,
        consumers: settings.consumers,
        record_bytes: settings.record_bytes as usize,
    };
    let what = format!("opening topic {topic}");
    let lane = Lane::open(target, &topic, clock, lane_settings).await.map_err(CommandError::target(what))?;
    Ok(ModeLane { mode, topic, lane, rolls: Rolls::default(), end: 0 })
}

/// Warm-up and blocks at one round trip, until both rolling modes have their rolls.
async fn sweep<T: Target>(
    target: &T,
    settings: &RollSettings,
    lanes: &mut [ModeLane<T>],
    progress: &Progress,
    rtt_ms: u64,
) -> Result<Sweep, CommandError> {
    let mut sweep = Sweep::default();
    for (index, lane) in lanes.iter_mut().enumerate() {
        sweep.began[index] = lane.end;
        sweep.verdicts_before[index] = lane.lane.verdict();
        sweep.errors_before[index] = (lane.lane.error_count, lane.lane.errors.len());
        progress.say(format!("metadata {rtt_ms} ms: warming up, {}", lane.mode.words()));
        // Warm-up teaches the cluster's soft mark the new round trip; it is verified, but not measured.
        load(target, settings, lane, settings.warm_up_us, rtt_ms, 0).await?;
        sweep.measured_from[index] = lane.end;
        progress.step(1);
    }
    let expected = settings.expected_blocks();
    for round in 0..expected * PATIENCE_FACTOR {
        let short = |sweep: &Sweep, mode: Mode| {
            let report = analyse(&sweep.data[mode as usize], settings.analysis);
            report.rolls_measured < settings.rolls
        };
        if round >= expected && ![Mode::Reactive, Mode::Anticipatory].into_iter().any(|mode| short(&sweep, mode)) {
            break;
        }
        if round >= expected {
            progress.extend(3);
        }
        for turn in 0..lanes.len() {
            let index = (turn + round as usize) % lanes.len();
            let lane = &mut lanes[index];
            progress.say(format!("metadata {rtt_ms} ms: block {} of {expected}, {}", round + 1, lane.mode.words()));
            let block = load(target, settings, lane, settings.block_us, rtt_ms, round + 1).await?;
            let data = &mut sweep.data[index];
            data.blocks.push(block);
            data.rolls = lane.rolls.between(sweep.measured_from[index], lane.end);
            progress.step(1);
        }
    }
    for (index, lane) in lanes.iter_mut().enumerate() {
        let what = format!("reading the rolls of {}", lane.topic);
        lane.rolls.settle(target, &lane.topic).await.map_err(CommandError::target(what))?;
        conclude(&mut sweep, index, lane);
    }
    Ok(sweep)
}

/// One block on one lane, and the rolls it brought.
async fn load<T: Target>(
    target: &T,
    settings: &RollSettings,
    lane: &mut ModeLane<T>,
    duration_us: u64,
    rtt_ms: u64,
    round: u64,
) -> Result<analyse::Block, CommandError> {
    // A schedule of its own for each block, the same in every run with this seed.
    let seed = settings.analysis.seed ^ (rtt_ms << 32) ^ (round << 8) ^ lane.mode as u64;
    let arrivals = if settings.poisson { Arrivals::Poisson { seed } } else { Arrivals::Fixed };
    let load =
        Load { rate_per_s: settings.rate_per_s, arrivals, duration_us, settle_us: settings.settle_us.min(duration_us) };
    let block = lane.lane.block(load).await;
    let last = block.appends.iter().filter(|s| s.ok).map(|s| s.offset + 1).max();
    lane.end = last.unwrap_or(lane.end).max(lane.end);
    let what = format!("reading the rolls of {}", lane.topic);
    lane.rolls.update(target, &lane.topic).await.map_err(CommandError::target(what))?;
    Ok(block)
}

/// Rolls, errors and verification of one mode at one round trip, once the load has stopped.
fn conclude<T: Target>(sweep: &mut Sweep, index: usize, lane: &ModeLane<T>) {
    let data = &mut sweep.data[index];
    data.warm_up_rolls = lane.rolls.between(sweep.began[index], sweep.measured_from[index]);
    data.rolls = lane.rolls.between(sweep.measured_from[index], lane.end);
    data.rolls_without_phases = data.rolls.iter().filter(|r| !complete(r)).count() as u64;
    let (count, kept) = sweep.errors_before[index];
    data.error_count = lane.lane.error_count - count;
    data.errors = lane.lane.errors[kept..].to_vec();
    data.verdict = lane.lane.verdict().since(&sweep.verdicts_before[index]);
}

/// One round trip between router and segd: half of a query that goes through both.
async fn data_round_trip_us<T: Target>(target: &T, topic: &str) -> Result<u64, CommandError> {
    let mut halves_us = Vec::new();
    for _ in 0..50 {
        let took = target.data_round_trip(topic).await.map_err(CommandError::target("timing the data path"))?;
        halves_us.push((took.as_micros() / 2) as u64);
    }
    halves_us.sort_unstable();
    Ok(stats::nearest_rank(&halves_us, 0.5))
}

fn finish<T: Target>(report: &mut Report, lanes: &[ModeLane<T>], clock: Clock, load_us: u64) {
    let mut lateness = Lateness::default();
    lanes.iter().for_each(|l| lateness.add(&l.lane.lateness));
    report.environment.generator = lateness;
    report.environment.generator_late_share = lateness.share();
    report.environment.generator_priority = lanes.first().map_or_else(Default::default, |l| l.lane.priority);
    report.config.duration_s = clock.now_us() as f64 / 1e6;
    let measured = |m: &crate::report::contract::ModeReport| m.append.steady.count + m.append.boundary.count;
    let records: u64 = report.runs.iter().flat_map(|r| Mode::ALL.map(|mode| measured(r.modes.get(mode)))).sum();
    let records_per_s = records as f64 / (load_us.max(1) as f64 / 1e6);
    let mib_per_s = records_per_s * report.config.record_bytes as f64 / f64::from(1 << 20);
    report.throughput = Throughput { records_per_s, mib_per_s };
}
