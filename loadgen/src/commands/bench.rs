//! `loadgen bench`: how much a topic carries (closed loop), then how long records wait at a rate (open loop).

use crate::clock::Clock;
use crate::commands::progress::Progress;
use crate::commands::rolls::Rolls;
use crate::commands::{CommandError, durability};
use crate::drive::lane::{Lane, LaneSettings, Load};
use crate::measure::analyse::Block;
use crate::measure::latency::Latencies;
use crate::measure::lateness::LATE_SHARE_MAX;
use crate::measure::sample::Sample;
use crate::measure::schedule::Arrivals;
use crate::report::contract::{Bench, Claim, Config, Environment, Report, SCHEMA, Throughput};
use crate::report::words;
use crate::target::{Target, TopicSpec};

/// Part of the closed loop's throughput that the open loop runs at unless told otherwise: busy, but with room for the
/// generator where it shares the cluster's cores.
const OPEN_LOOP_SHARE: f64 = 0.25;

/// Settings of `loadgen bench`; the command line explains each.
#[derive(Clone, Debug)]
pub struct BenchSettings {
    pub topic: String,
    pub spec: TopicSpec,
    pub record_bytes: u64,
    pub producers: u32,
    pub consumers: u32,
    pub window: u32,
    pub duration_us: u64,
    /// Left out of the figures at the start of each loop.
    pub settle_us: u64,
    /// `None`: a quarter of what the closed loop carried.
    pub rate_per_s: Option<u64>,
    pub poisson_seed: Option<u64>,
    pub allow_late: bool,
}

pub async fn run<T: Target>(
    target: &T,
    settings: &BenchSettings,
    environment: Environment,
) -> Result<Report, CommandError> {
    let clock = Clock::start();
    let topic = &settings.topic;
    let what = format!("creating topic {topic}");
    target.create_topic(topic, &settings.spec).await.map_err(CommandError::target(what))?;
    let lane_settings = LaneSettings {
        producers: settings.producers,
        consumers: settings.consumers,
        record_bytes: settings.record_bytes as usize,
    };
    let what = format!("opening topic {topic}");
    let mut lane = Lane::open(target, topic, clock, lane_settings).await.map_err(CommandError::target(what))?;
    let progress = Progress::new(2);
    progress.say(format!("closed loop, {} in flight", settings.window));
    let closed = lane.closed_loop(settings.window as usize, settings.duration_us + settings.settle_us).await;
    let throughput = carried(&closed, settings);
    progress.step(1);
    let rate_per_s = settings.rate_per_s.unwrap_or((throughput.records_per_s * OPEN_LOOP_SHARE) as u64).max(1);
    progress.say(format!("open loop, {rate_per_s} records/s"));
    let arrivals = settings.poisson_seed.map_or(Arrivals::Fixed, |seed| Arrivals::Poisson { seed });
    let duration_us = settings.duration_us + settings.settle_us;
    let open = lane.block(Load { rate_per_s, arrivals, duration_us, settle_us: settings.settle_us }).await;
    progress.step(1);
    let mut rolls = Rolls::default();
    let what = format!("reading the rolls of {topic}");
    rolls.settle(target, topic).await.map_err(CommandError::target(what))?;
    let (append, tail) = (latencies(&open, &open.appends), latencies(&open, &open.tails));
    let bench = Bench {
        window: settings.window,
        closed_loop: latencies(&closed, &closed.appends).summary(),
        open_loop_rate_per_s: rate_per_s,
        append: append.summary(),
        tail: tail.summary(),
        append_curve: append.curve(),
        tail_curve: tail.curve(),
        rolls: rolls.between(0, u64::MAX).len() as u64,
        errors_seen_by_application: lane.error_count,
        verdict: lane.verdict(),
        errors: lane.errors.clone(),
    };
    let mut report = Report {
        schema: SCHEMA,
        command: "bench".to_owned(),
        config: config(settings, rate_per_s),
        environment,
        throughput,
        ..Report::default()
    };
    let spec = &settings.spec;
    report.environment.durability = durability(&spec.ack, spec.ack_quorum.into(), spec.replicas.into());
    report.environment.generator = lane.lateness;
    report.environment.generator_late_share = lane.lateness.share();
    report.environment.generator_priority = lane.priority;
    report.config.duration_s = clock.now_us() as f64 / 1e6;
    report.claims = claims(&report, &bench, settings.allow_late);
    report.bench = Some(bench);
    Ok(report)
}

fn config(settings: &BenchSettings, rate_per_s: u64) -> Config {
    Config {
        rate_per_s,
        record_bytes: settings.record_bytes,
        segment_bytes: settings.spec.segment_bytes,
        replicas: settings.spec.replicas.into(),
        ack_quorum: settings.spec.ack_quorum.into(),
        ack: settings.spec.ack.clone(),
        producers: settings.producers,
        consumers: settings.consumers,
        placement: settings.spec.placement.clone(),
        anticipation: settings.spec.anticipation.clone(),
        arrivals: if settings.poisson_seed.is_some() { "poisson" } else { "fixed" }.to_owned(),
        seed: settings.poisson_seed.unwrap_or(0),
        duration_s: 0.0,
    }
}

/// Records acked each second of the closed loop, once settled.
fn carried(block: &Block, settings: &BenchSettings) -> Throughput {
    let Some(span) = block.span else { return Throughput::default() };
    let from_us = span.start_us + settings.settle_us;
    let within = |s: &&Sample| s.ok && (from_us..span.end_us).contains(&s.done_us);
    let records = block.appends.iter().filter(within).count() as f64;
    let records_per_s = records / (span.end_us.saturating_sub(from_us).max(1) as f64 / 1e6);
    Throughput { records_per_s, mib_per_s: records_per_s * settings.record_bytes as f64 / f64::from(1 << 20) }
}

fn latencies(block: &Block, samples: &[Sample]) -> Latencies {
    let mut latencies = Latencies::default();
    let measured = |s: &&Sample| s.ok && block.span.is_some_and(|w| w.contains(s.due_us));
    latencies.extend(samples.iter().filter(measured).map(Sample::latency_us));
    latencies
}

fn claims(report: &Report, bench: &Bench, allow_late: bool) -> Vec<Claim> {
    let v = bench.verdict;
    let share = report.environment.generator_late_share;
    let claim = |name: &str, holds: bool, evidence: String| Claim {
        name: name.to_owned(),
        metad_rtt_ms: None,
        holds,
        inconclusive: false,
        evidence,
    };
    vec![
        claim(
            "verified",
            v.clean() && v.records_acked > 0 && bench.errors_seen_by_application == 0,
            format!(
                "{} acked, {} read, {} lost, {} duplicated, {} out of order, {} gaps, {} corrupt, {} errors",
                v.records_acked,
                v.records_read,
                v.lost,
                v.duplicated,
                v.out_of_order,
                v.gaps,
                v.corrupt,
                bench.errors_seen_by_application
            ),
        ),
        claim(
            "generator_on_time",
            allow_late || share <= LATE_SHARE_MAX,
            format!("{:.2} % handed over more than 1 ms late", share * 100.0),
        ),
    ]
}

/// The result as printed.
pub fn render(report: &Report, bench: &Bench) -> String {
    let t = report.throughput;
    let row = |name: &str, s: &crate::measure::latency::Summary| {
        format!(
            "  {name:<28}{:>12}{:>12}{:>12}{:>12}\n",
            words::duration(s.p50_us),
            words::duration(s.p99_us),
            words::duration(s.p999_us),
            words::duration(s.max_us)
        )
    };
    let mut out = format!(
        "Closed loop, {} in flight: {:.0} records/s, {:.2} MiB/s\n  {:<28}{:>12}{:>12}{:>12}{:>12}\n",
        bench.window, t.records_per_s, t.mib_per_s, "", "p50", "p99", "p99.9", "max"
    );
    out.push_str(&row("append (closed loop)", &bench.closed_loop));
    out.push_str(&format!("Open loop, {} records/s\n", bench.open_loop_rate_per_s));
    out.push_str(&row("append, from due to ack", &bench.append));
    out.push_str(&row("tail, from due to delivery", &bench.tail));
    for claim in &report.claims {
        out.push_str(&format!(
            "  {}  {}: {}\n",
            if claim.holds { "holds" } else { "FAILS" },
            claim.name,
            claim.evidence
        ));
    }
    out
}
