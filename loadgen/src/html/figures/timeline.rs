//! Append latency over time, the three modes under each other on one scale, with a mark at each roll.

use super::{Frame, WIDTH, class};
use crate::html::scale::{Scale, around};
use crate::html::svg::{Anchor, Svg};
use crate::report::contract::{Mode, Report, Run, Series};

const PANEL: f64 = 132.0;
const HEAD: f64 = 26.0;
const LEFT: f64 = 64.0;

/// The latencies that the pictures of a report share a scale over.
pub fn domain(report: &Report) -> (f64, f64) {
    let seen = |run: &Run, mode: Mode| {
        let series = &run.modes.get(mode).series;
        series.append_max_us.iter().chain(&series.append_p50_us).copied().collect::<Vec<_>>()
    };
    around(report.runs.iter().flat_map(|run| Mode::ALL.into_iter().flat_map(move |mode| seen(run, mode))))
}

pub fn draw(run: &Run, domain: (f64, f64)) -> String {
    let height = 3.0 * (PANEL + HEAD) + 34.0;
    let label = format!("Append latency over time in three modes at {} ms metadata round trip", run.metad_rtt_ms);
    let mut svg = Svg::new(WIDTH, height, &label);
    let longest = |mode: Mode| {
        let series = &run.modes.get(mode).series;
        series.append_max_us.len() as f64 * series.bucket_ms as f64 / 1_000.0
    };
    let seconds = Mode::ALL.into_iter().map(longest).fold(1.0, f64::max);
    for (index, mode) in Mode::ALL.into_iter().enumerate() {
        let top = index as f64 * (PANEL + HEAD) + HEAD;
        let frame = Frame { left: LEFT, top, right: WIDTH - 8.0, bottom: top + PANEL };
        let x = Scale::linear((0.0, seconds), (frame.left, frame.right));
        let y = Scale::logarithmic(domain, (frame.bottom, frame.top));
        panel(&mut svg, frame, (x, y), mode, run);
    }
    svg.text("axis-name", (WIDTH - 8.0, height - 2.0), Anchor::End, "seconds of measured load");
    svg.finish()
}

fn panel(svg: &mut Svg, frame: Frame, (x, y): (Scale, Scale), mode: Mode, run: &Run) {
    let report = run.modes.get(mode);
    let series = &report.series;
    frame.latency_grid(svg, &y);
    for at_ms in series.block_at_ms.iter().rev().skip(1) {
        let at = x.at(at_ms / 1_000.0);
        svg.line("seam", (at, frame.top), (at, frame.bottom));
    }
    for at_ms in &series.roll_at_ms {
        let at = x.at(at_ms / 1_000.0);
        svg.line("roll", (at, frame.top), (at, frame.bottom));
        svg.rect("roll-flag", (at - 2.0, frame.top - 5.0), (4.0, 5.0), "");
    }
    let (upper, lower) = (points(series, &series.append_max_us, x, y), points(series, &series.append_p50_us, x, y));
    svg.band(&format!("band {}", class(mode)), &upper, &lower);
    svg.polyline(&format!("trace {}", class(mode)), &upper);
    let last = mode == Mode::Anticipatory;
    let ticks = if last { x.ticks() } else { Vec::new() };
    frame.bottom_axis(svg, &x, &ticks, |s| format!("{s:.0}"));
    svg.text(&format!("panel-name {}", class(mode)), (frame.left, frame.top - 10.0), Anchor::Start, mode.words());
    let rolls = series.roll_at_ms.len();
    let aside = if rolls == 0 { "no roll in sight".to_owned() } else { format!("{rolls} rolls") };
    svg.text("aside", (frame.right, frame.top - 10.0), Anchor::End, &aside);
}

/// Each bucket that had records, at its middle.
fn points(series: &Series, values_us: &[u64], x: Scale, y: Scale) -> Vec<(f64, f64)> {
    let middle = |index: usize| (index as f64 + 0.5) * series.bucket_ms as f64 / 1_000.0;
    let with_records = values_us.iter().enumerate().filter(|(_, us)| **us > 0);
    with_records.map(|(index, us)| (x.at(middle(index)), y.at(*us as f64))).collect()
}
