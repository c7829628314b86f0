//! The claims: what must be true of a run for "a roll is not felt" to be said. Judged on the report alone.
//!
//! 1. Every acked record was delivered once, in order, in every mode, and no application saw an error.
//! 2. No anticipatory roll found its successor not ready, and no append waited for one.
//! 3. Silence at anticipatory rolls cannot be told from placebo (p > 0.05), or its median is less than one router-segd round
//!    trip above it; appends and deliveries alike.
//! 4. Silence at anticipatory rolls does not grow with the metadata round trip, in the same sense.
//! 5. The reactive stall equals its traced phases within 10 %, and grows by at least three metadata round trips.
//!    Where a run could not have seen a roll that is felt, 3 and 4 are inconclusive instead of held: too few rolls were measured, or
//!    the reactive rolls of the same run, which are felt by design, cannot be told from placebo either.
//! 6. At most 1 % of the records were handed over more than 1 ms late.

use crate::measure::lateness::LATE_SHARE_MAX;
use crate::measure::stats;
use crate::report::contract::{Claim, Mode, ModeReport, Report, Run, Silence};
use crate::report::words;

/// Chance of a false alarm that a test accepts.
pub const SIGNIFICANCE: f64 = 0.05;
/// Part by which the reactive stall may differ from its traced phases.
const STALL_TOLERANCE: f64 = 0.10;
/// Metadata round trips that a reactive stall must at least hold.
const STALL_ROUND_TRIPS: u64 = 3;

/// What the judge is told that the report does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expectations {
    /// Measured rolls that each rolling mode must have at each round trip.
    pub rolls: u64,
    pub allow_late: bool,
}

/// Judges a `roll` report.
pub fn judge(report: &Report, expect: Expectations) -> Vec<Claim> {
    let mut claims = vec![generator_on_time(report, expect.allow_late)];
    for run in &report.runs {
        claims.extend(Mode::ALL.map(|mode| verified(run, mode)));
        claims.extend([Mode::Reactive, Mode::Anticipatory].map(|mode| enough_rolls(run, mode, expect.rolls)));
        claims.push(always_ready(run));
        let floor_us = report.environment.data_round_trip_us;
        claims.push(not_felt(run, "append", |mode| &mode.silence.append, floor_us, expect.rolls));
        claims.push(not_felt(run, "tail", |mode| &mode.silence.tail, floor_us, expect.rolls));
        claims.push(stall_explained(run, report.config.rate_per_s));
    }
    let base = report.runs.iter().min_by_key(|r| r.metad_rtt_ms);
    for run in report.runs.iter().filter(|r| base.is_some_and(|b| r.metad_rtt_ms > b.metad_rtt_ms)) {
        if let Some(base) = base {
            claims.push(stall_grows(base, run));
            claims.push(boundary_does_not_grow(base, run, report.environment.data_round_trip_us, expect.rolls));
        }
    }
    claims
}

fn claim(name: impl Into<String>, run: Option<&Run>, holds: bool, evidence: String) -> Claim {
    Claim { name: name.into(), metad_rtt_ms: run.map(|r| r.metad_rtt_ms), holds, inconclusive: false, evidence }
}

/// A claim that nothing was seen, unless this run was blind.
fn unseen(claim: Claim, blind: Option<String>) -> Claim {
    match blind {
        Some(why) if claim.holds => {
            Claim { holds: false, inconclusive: true, evidence: format!("{}; {why}", claim.evidence), ..claim }
        }
        Some(_) | None => claim,
    }
}

/// Why this run could not have seen that a roll is felt.
fn blindness(run: &Run, kind: &str, silence: impl Fn(&ModeReport) -> &Silence, wanted: u64) -> Option<String> {
    let modes = [Mode::Reactive, Mode::Anticipatory];
    if let Some(short) = modes.into_iter().find(|mode| run.modes.get(*mode).rolls_measured < wanted) {
        let measured = run.modes.get(short).rolls_measured;
        return Some(format!("{measured} of the {wanted} {} wanted were measured: too few to tell", short.words()));
    }
    let reactive = silence(&run.modes.reactive);
    let seen = reactive.p_value.is_some_and(|p| p <= SIGNIFICANCE) && reactive.median_diff_us > 0;
    let p = words::p_value(reactive.p_value);
    (!seen).then(|| {
        format!("the {kind} silence at reactive rolls is not told from chance either ({p}): this run sees no stalls")
    })
}

fn generator_on_time(report: &Report, allow_late: bool) -> Claim {
    let share = report.environment.generator_late_share;
    let evidence = format!(
        "{:.2} % of {} records handed over more than 1 ms late, the worst by {}{}",
        share * 100.0,
        report.environment.generator.records,
        words::duration(report.environment.generator.worst_us),
        if allow_late { " (allowed)" } else { "" },
    );
    claim("generator_on_time", None, allow_late || share <= LATE_SHARE_MAX, evidence)
}

fn verified(run: &Run, mode: Mode) -> Claim {
    let report = run.modes.get(mode);
    let v = report.verdict;
    let evidence = format!(
        "{}: {} acked, {} read, {} lost, {} duplicated, {} out of order, {} gaps, {} corrupt, {} errors",
        mode.words(),
        v.records_acked,
        v.records_read,
        v.lost,
        v.duplicated,
        v.out_of_order,
        v.gaps,
        v.corrupt,
        report.errors_seen_by_application,
    );
    let holds = v.clean() && v.records_acked > 0 && report.errors_seen_by_application == 0;
    claim(format!("verified_{}", mode.key()), Some(run), holds, evidence)
}

fn enough_rolls(run: &Run, mode: Mode, wanted: u64) -> Claim {
    let got = run.modes.get(mode).rolls_measured;
    let evidence = format!("{}: {got} rolls measured, {wanted} wanted", mode.words());
    claim(format!("enough_rolls_{}", mode.key()), Some(run), got >= wanted, evidence)
}

fn always_ready(run: &Run) -> Claim {
    let m: &ModeReport = &run.modes.anticipatory;
    let evidence = format!(
        "of {} anticipatory rolls {} found no successor ready, {} appends waited",
        m.rolls, m.rolls_not_ready, m.appends_waited_for_roll
    );
    claim("successor_always_ready", Some(run), m.rolls_not_ready == 0 && m.appends_waited_for_roll == 0, evidence)
}

fn not_felt(run: &Run, kind: &str, of: impl Fn(&ModeReport) -> &Silence, floor_us: u64, wanted: u64) -> Claim {
    let silence = of(&run.modes.anticipatory);
    let told_apart = silence.p_value.is_none_or(|p| p <= SIGNIFICANCE);
    let small = silence.boundary.count > 0 && silence.placebo.count > 0 && silence.median_diff_us < floor_us as i64;
    let evidence = format!(
        "longest {kind} silence {} at {} rolls, {} in {} placebo windows, {}, medians differ by {} (one round trip: {})",
        words::duration(silence.boundary.p50_us),
        silence.boundary.count,
        words::duration(silence.placebo.p50_us),
        silence.placebo.count,
        words::p_value(silence.p_value),
        words::difference(silence.median_diff_us),
        words::duration(floor_us),
    );
    let judged = claim(format!("{kind}_roll_not_felt"), Some(run), !told_apart || small, evidence);
    unseen(judged, blindness(run, kind, of, wanted))
}

fn stall_explained(run: &Run, rate_per_s: u64) -> Claim {
    let stall = run.modes.reactive.stall;
    let (measured, traced) = (stall.measured.p50_us, stall.traced.p50_us);
    // That record came up to one spacing after the stall began: it cannot be measured finer.
    let spacing_us = 1_000_000 / rate_per_s.max(1);
    let allowed_us = ((traced as f64 * STALL_TOLERANCE) as u64).max(spacing_us);
    let evidence = format!(
        "reactive stall {} by the first record of the successor, {} by its traced phases ({} allowed between them)",
        words::duration(measured),
        words::duration(traced),
        words::duration(allowed_us),
    );
    let holds = stall.measured.count > 0 && traced > 0 && measured.abs_diff(traced) <= allowed_us;
    claim("reactive_stall_explained", Some(run), holds, evidence)
}

fn stall_grows(base: &Run, run: &Run) -> Claim {
    let of = |r: &Run| r.modes.reactive.stall.measured.p50_us;
    let grown_us = of(run) as i64 - of(base) as i64;
    let more_ms = run.metad_rtt_ms - base.metad_rtt_ms;
    let evidence = format!(
        "reactive stall {} at {} ms, {} at {} ms: {:.1} round trips more",
        words::duration(of(base)),
        base.metad_rtt_ms,
        words::duration(of(run)),
        run.metad_rtt_ms,
        grown_us as f64 / (more_ms * 1_000) as f64,
    );
    claim("reactive_stall_grows", Some(run), grown_us >= (STALL_ROUND_TRIPS * more_ms * 1_000) as i64, evidence)
}

fn boundary_does_not_grow(base: &Run, run: &Run, floor_us: u64, wanted: u64) -> Claim {
    let of = |r: &Run| r.modes.anticipatory.per_roll.iter().map(|row| row.append_silence_us).collect::<Vec<_>>();
    let p = stats::mann_whitney(&of(run), &of(base));
    let median = |r: &Run| r.modes.anticipatory.silence.append.boundary.p50_us;
    let grown_us = median(run) as i64 - median(base) as i64;
    let evidence = format!(
        "anticipatory boundary {} at {} ms, {} at {} ms, {}",
        words::duration(median(base)),
        base.metad_rtt_ms,
        words::duration(median(run)),
        run.metad_rtt_ms,
        words::p_value(p),
    );
    let holds = p.is_some_and(|p| p > SIGNIFICANCE || grown_us < floor_us as i64);
    let blind = |run| blindness(run, "append", |mode| &mode.silence.append, wanted);
    unseen(claim("anticipatory_boundary_does_not_grow", Some(run), holds, evidence), blind(run).or_else(|| blind(base)))
}
