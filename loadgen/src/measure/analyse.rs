//! From samples and rolls of one mode to its part of the report. Pure: the same data and seed give the same report.

use crate::measure::latency::{Latencies, Summary};
use crate::measure::sample::{Sample, completions};
use crate::measure::stats::{self, Difference};
use crate::measure::verify::Verdict;
use crate::measure::window::{self, Boundary, Window, WindowShape};
use crate::measure::{placebo, series, silence};
use crate::report::contract::{ModeReport, Phases, RollRow, Silence, Silences, Split, Stall};
use crate::target::Roll;
use rand::SeedableRng;
use rand::rngs::StdRng;

/// One stretch of uninterrupted load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The part that is measured: after the block settled, up to its last due time.
    pub span: Option<Window>,
    /// Sorted by due time.
    pub appends: Vec<Sample>,
    pub tails: Vec<Sample>,
}

/// Everything seen of one mode at one metadata round trip.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModeData {
    pub blocks: Vec<Block>,
    /// Rolls after the warm-up, oldest first.
    pub rolls: Vec<Roll>,
    pub warm_up_rolls: Vec<Roll>,
    pub rolls_without_phases: u64,
    pub errors: Vec<String>,
    pub error_count: u64,
    pub verdict: Verdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    pub shape: WindowShape,
    pub seed: u64,
    /// Placebo windows for each measured roll, where there is room.
    pub placebos_per_roll: usize,
    /// Placebo windows of a mode that does not roll, and for want of rolls.
    pub placebos_without_rolls: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { shape: WindowShape::default(), seed: 1, placebos_per_roll: 2, placebos_without_rolls: 60 }
    }
}

/// A roll found in the samples, with its windows as appends and as deliveries felt it.
struct Found {
    roll: Roll,
    append: Boundary,
    tail: Boundary,
    measured: bool,
}

impl Found {
    fn both(&self) -> Window {
        self.append.window.union(&self.tail.window)
    }
}

/// Longest silence of each window of one kind, boundary and placebo.
struct Compared {
    boundary: Vec<u64>,
    placebo: Vec<u64>,
    placebo_windows: Vec<Window>,
}

pub fn analyse(data: &ModeData, settings: Settings) -> ModeReport {
    let spans: Vec<Window> = data.blocks.iter().filter_map(|b| b.span).collect();
    let found = find(data, settings.shape);
    let measured: Vec<&Found> = found.iter().filter(|f| f.measured).collect();
    let taken: Vec<Window> = found.iter().map(Found::both).collect();
    let mut rng = StdRng::seed_from_u64(settings.seed);
    let mut compare = |samples: fn(&Block) -> &[Sample], window: fn(&Found) -> Window| {
        let done = completions(&data.blocks.iter().flat_map(samples).copied().collect::<Vec<_>>());
        let windows: Vec<Window> = measured.iter().map(|f| window(f)).collect();
        let lengths = placebo_lengths(&windows, settings);
        let placebo_windows: Vec<Window> =
            placebo::place(&mut rng, &spans, &taken, &lengths).into_iter().flatten().collect();
        let longest = |windows: &[Window]| windows.iter().map(|w| silence::longest(&done, *w)).collect();
        Compared { boundary: longest(&windows), placebo: longest(&placebo_windows), placebo_windows }
    };
    let append = compare(|b| &b.appends, |f| f.append.window);
    let tail = compare(|b| &b.tails, |f| f.tail.window);

    let appends = measured_samples(data, |b| &b.appends);
    let tails = measured_samples(data, |b| &b.tails);
    let append_windows: Vec<Window> = found.iter().map(|f| f.append.window).collect();
    let tail_windows: Vec<Window> = found.iter().map(|f| f.tail.window).collect();
    let boundaries: Vec<Boundary> = found.iter().map(|f| f.append).collect();
    let blocks: Vec<&[Sample]> = data.blocks.iter().map(|b| b.appends.as_slice()).collect();
    let axis = series::Axis::new(&spans);
    let append_split = split(&appends, &append_windows);
    let steady_us = append_split.steady.p50_us;
    let firsts: Vec<u64> = measured.iter().map(|f| f.append.first_latency_us).collect();
    ModeReport {
        rolls: data.rolls.len() as u64,
        rolls_not_ready: not_ready(&data.rolls),
        appends_waited_for_roll: data.rolls.iter().map(|r| r.appends_waited).sum(),
        overrun_bytes: data.rolls.iter().map(|r| r.overrun_bytes).sum(),
        append: append_split,
        tail: split(&tails, &tail_windows),
        silence: Silences {
            append: judge(&append, &appends, &append_windows, settings.seed),
            tail: judge(&tail, &tails, &tail_windows, settings.seed),
        },
        errors_seen_by_application: data.error_count,
        verdict: data.verdict,
        roll_phases_us: phases(&data.rolls),
        rolls_measured: measured.len() as u64,
        rolls_undrained: measured.iter().filter(|f| f.append.undrained || f.tail.undrained).count() as u64,
        rolls_in_warm_up: data.warm_up_rolls.len() as u64,
        rolls_not_ready_in_warm_up: not_ready(&data.warm_up_rolls),
        rolls_without_phases: data.rolls_without_phases,
        stall: Stall {
            measured: Summary::exact(&firsts.iter().map(|us| us.saturating_sub(steady_us)).collect::<Vec<_>>()),
            traced: Summary::exact(&measured.iter().map(|f| f.roll.switch_us + f.roll.gate_us).collect::<Vec<_>>()),
        },
        first_append: Summary::exact(&firsts),
        append_curve: curve(&appends),
        tail_curve: curve(&tails),
        series: series::series(&spans, &blocks, &boundaries),
        per_roll: measured
            .iter()
            .zip(append.boundary.iter().zip(&tail.boundary))
            .map(|(f, (append_silence_us, tail_silence_us))| RollRow {
                at_ms: axis.at(f.append.first_due_us).unwrap_or(0) as f64 / 1_000.0,
                window_ms: f.append.window.len_us() as f64 / 1_000.0,
                append_silence_us: *append_silence_us,
                tail_silence_us: *tail_silence_us,
                first_append_us: f.append.first_latency_us,
                roll: f.roll,
            })
            .collect(),
        placebo_append_us: append.placebo,
        placebo_tail_us: tail.placebo,
        errors: data.errors.clone(),
    }
}

/// Every roll whose first record is in a block.
fn find(data: &ModeData, shape: WindowShape) -> Vec<Found> {
    let mut found = Vec::new();
    for block in &data.blocks {
        let Some(span) = block.span else { continue };
        let Some(first_offset) = block.appends.iter().filter(|s| s.ok).map(|s| s.offset).min() else { continue };
        let ordinary_append = window::ordinary_us(&block.appends);
        let ordinary_tail = window::ordinary_us(&block.tails);
        for roll in data.rolls.iter().filter(|r| r.boundary > first_offset) {
            let append = window::boundary(&block.appends, roll.boundary, ordinary_append, shape);
            let tail = window::boundary(&block.tails, roll.boundary, ordinary_tail, shape);
            let (Some(append), Some(tail)) = (append, tail) else { continue };
            let measured = span.holds(&append.window) && span.holds(&tail.window);
            found.push(Found { roll: *roll, append, tail, measured });
        }
    }
    found
}

fn placebo_lengths(windows: &[Window], settings: Settings) -> Vec<u64> {
    let nominal_us = settings.shape.before_us + settings.shape.after_us;
    if windows.is_empty() {
        return vec![nominal_us; settings.placebos_without_rolls];
    }
    // Round after round, so that where room is short each roll has had its first before any has a second.
    (0..settings.placebos_per_roll).flat_map(|_| windows.iter().map(Window::len_us)).collect()
}

fn measured_samples(data: &ModeData, samples: fn(&Block) -> &[Sample]) -> Vec<Sample> {
    let within = |b: &Block| {
        let span = b.span;
        samples(b)
            .iter()
            .filter(move |s| s.ok && span.is_some_and(|w| w.contains(s.due_us)))
            .copied()
            .collect::<Vec<_>>()
    };
    data.blocks.iter().flat_map(within).collect()
}

fn in_any(windows: &[Window], t_us: u64) -> bool {
    windows.iter().any(|w| w.contains(t_us))
}

fn split(samples: &[Sample], windows: &[Window]) -> Split {
    let (mut steady, mut boundary) = (Latencies::default(), Latencies::default());
    for sample in samples {
        let side = if in_any(windows, sample.due_us) { &mut boundary } else { &mut steady };
        side.record(sample.latency_us());
    }
    Split { steady: steady.summary(), boundary: boundary.summary() }
}

fn curve(samples: &[Sample]) -> Vec<(f64, u64)> {
    let mut latencies = Latencies::default();
    latencies.extend(samples.iter().map(Sample::latency_us));
    latencies.curve()
}

fn judge(compared: &Compared, samples: &[Sample], boundary_windows: &[Window], seed: u64) -> Silence {
    let (a, b) = (&compared.boundary, &compared.placebo);
    let median = stats::difference(a, b, stats::median, seed);
    let p99 = stats::difference(a, b, |sorted| stats::nearest_rank(sorted, 0.99) as f64, seed);
    let due_in = |windows: &[Window]| {
        let mut latencies = Latencies::default();
        latencies.extend(samples.iter().filter(|s| in_any(windows, s.due_us)).map(Sample::latency_us));
        latencies.summary()
    };
    let (boundary, placebo) = (due_in(boundary_windows), due_in(&compared.placebo_windows));
    let comparable = boundary.count > 0 && placebo.count > 0;
    let minus = |a: u64, b: u64| if comparable { a as i64 - b as i64 } else { 0 };
    let interval = |d: Difference| (d.low.round() as i64, d.high.round() as i64);
    Silence {
        boundary: Summary::exact(a),
        placebo: Summary::exact(b),
        p_value: stats::mann_whitney(a, b),
        median_diff_us: median.value.round() as i64,
        median_diff_ci95_us: interval(median),
        p99_diff_us: p99.value.round() as i64,
        p99_diff_ci95_us: interval(p99),
        latency_median_diff_us: minus(boundary.p50_us, placebo.p50_us),
        latency_p99_diff_us: minus(boundary.p99_us, placebo.p99_us),
    }
}

fn not_ready(rolls: &[Roll]) -> u64 {
    rolls.iter().filter(|r| r.not_ready).count() as u64
}

fn phases(rolls: &[Roll]) -> Phases {
    let of = |phase: fn(&Roll) -> u64| Summary::exact(&rolls.iter().map(phase).collect::<Vec<_>>());
    Phases {
        announce: of(|r| r.announce_us),
        commit: of(|r| r.commit_us),
        open: of(|r| r.open_us),
        ready: of(|r| r.ready_us),
        slack: of(|r| r.slack_us),
        switch: of(|r| r.switch_us),
        seal: of(|r| r.seal_us),
        begin: of(|r| r.begin_us),
        gate: of(|r| r.gate_us),
        record: of(|r| r.record_us),
        announce_to_ready: of(|r| r.announce_to_ready_us),
    }
}
