//! Percentile curves: latency over the share of records that took longer, both logarithmic. One column a round trip.

use super::{Frame, WIDTH, class};
use crate::html::scale::{Scale, around};
use crate::html::svg::{Anchor, Svg};
use crate::report::contract::{Mode, ModeReport, Report, Run};

const LEFT: f64 = 64.0;
const GAP: f64 = 44.0;
const ROW: f64 = 246.0;
const PLOT: f64 = 176.0;
/// Shares of records beyond: where the axis has ticks, and how they are named.
const TICKS: [(f64, &str); 5] = [(1.0, "all"), (0.1, "90 %"), (0.01, "99 %"), (0.001, "99.9 %"), (0.0001, "99.99 %")];

type Curve = fn(&ModeReport) -> &Vec<(f64, u64)>;

pub fn draw(report: &Report) -> String {
    let mut svg = Svg::new(WIDTH, 2.0 * ROW + 4.0, "Percentile curves of append and tail latency in three modes");
    let rows: [(&str, Curve); 2] = [("append", |m| &m.append_curve), ("tail", |m| &m.tail_curve)];
    let columns = report.runs.len().max(1) as f64;
    let width = (WIDTH - LEFT - 26.0 - (columns - 1.0) * GAP) / columns;
    for (row, (kind, curve)) in rows.into_iter().enumerate() {
        let all = report.runs.iter().flat_map(|run| Mode::ALL.map(|mode| curve(run.modes.get(mode))));
        let all: Vec<(f64, u64)> = all.flatten().copied().collect();
        let domain = around(all.iter().map(|p| p.1));
        let deepest = all.iter().map(|p| p.0).fold(0.1, f64::min);
        for (column, run) in report.runs.iter().enumerate() {
            let left = LEFT + column as f64 * (width + GAP);
            let top = row as f64 * ROW + 28.0;
            let frame = Frame { left, top, right: left + width, bottom: top + PLOT };
            panel(&mut svg, frame, (domain, deepest), (kind, curve), run, column == 0);
        }
    }
    svg.finish()
}

fn panel(
    svg: &mut Svg,
    frame: Frame,
    (domain, deepest): ((f64, f64), f64),
    (kind, curve): (&str, Curve),
    run: &Run,
    first: bool,
) {
    let x = Scale::logarithmic((1.0, deepest), (frame.left, frame.right));
    let y = Scale::logarithmic(domain, (frame.bottom, frame.top));
    if first {
        frame.latency_grid(svg, &y);
    } else {
        y.ticks().into_iter().for_each(|t| svg.line("grid", (frame.left, y.at(t)), (frame.right, y.at(t))));
    }
    let named: Vec<&(f64, &str)> = TICKS.iter().filter(|(rest, _)| *rest >= deepest * 0.99).collect();
    let ticks: Vec<f64> = named.iter().map(|(rest, _)| *rest).collect();
    ticks.iter().for_each(|t| svg.line("grid", (x.at(*t), frame.top), (x.at(*t), frame.bottom)));
    let name = |tick: f64| named.iter().find(|t| t.0 == tick).map_or(String::new(), |t| t.1.to_owned());
    frame.bottom_axis(svg, &x, &ticks, name);
    for mode in Mode::ALL {
        let points: Vec<(f64, f64)> =
            curve(run.modes.get(mode)).iter().map(|(rest, us)| (x.at(*rest), y.at(*us as f64))).collect();
        // The lines of a good cluster lie over each other: the first is drawn broad, to show beneath the last.
        let weight = if mode == Mode::NoRolls { "broad" } else { "bold" };
        svg.polyline(&format!("trace {weight} {}", class(mode)), &points);
    }
    let title = format!("{kind}, metadata {} ms", run.metad_rtt_ms);
    svg.text("panel-name", (frame.left, frame.top - 10.0), Anchor::Start, &title);
}
