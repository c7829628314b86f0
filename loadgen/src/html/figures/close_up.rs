//! A roll seen close: append latency by the time a record was due around the boundary, all rolls laid over each other.

use super::{Frame, WIDTH, class};
use crate::html::scale::Scale;
use crate::html::svg::{Anchor, Svg};
use crate::report::contract::{CloseUp, Mode, Run};

const HEIGHT: f64 = 268.0;
const LEFT: f64 = 64.0;
const GAP: f64 = 72.0;

pub fn draw(run: &Run, domain: (f64, f64)) -> String {
    let label = format!("Append latency around a roll at {} ms metadata round trip", run.metad_rtt_ms);
    let mut svg = Svg::new(WIDTH, HEIGHT, &label);
    let modes = [Mode::Reactive, Mode::Anticipatory];
    let width = (WIDTH - 2.0 * LEFT - GAP + LEFT - 8.0) / 2.0;
    for (index, mode) in modes.into_iter().enumerate() {
        let left = LEFT + index as f64 * (width + GAP);
        let frame = Frame { left, top: 28.0, right: left + width, bottom: HEIGHT - 38.0 };
        panel(&mut svg, frame, domain, mode, run);
    }
    svg.finish()
}

fn panel(svg: &mut Svg, frame: Frame, domain: (f64, f64), mode: Mode, run: &Run) {
    let report = run.modes.get(mode);
    let close_up = &report.series.close_up;
    let (from, to) = (close_up.from_ms as f64, close_up.from_ms as f64 + span_ms(close_up));
    let x = Scale::linear((from, to.max(from + 1.0)), (frame.left, frame.right));
    let y = Scale::logarithmic(domain, (frame.bottom, frame.top));
    frame.latency_grid(svg, &y);
    svg.line("roll strong", (x.at(0.0), frame.top), (x.at(0.0), frame.bottom));
    let middle = |index: usize| from + (index as f64 + 0.5) * close_up.bin_ms as f64;
    let points = |values_us: &[u64]| -> Vec<(f64, f64)> {
        let with_records = values_us.iter().enumerate().filter(|(_, us)| **us > 0);
        with_records.map(|(index, us)| (x.at(middle(index)), y.at(*us as f64))).collect()
    };
    let (max, p90, p50) = (points(&close_up.max_us), points(&close_up.p90_us), points(&close_up.p50_us));
    svg.band(&format!("band {}", class(mode)), &max, &p50);
    svg.polyline(&format!("trace thin {}", class(mode)), &p90);
    svg.polyline(&format!("trace bold {}", class(mode)), &p50);
    frame.bottom_axis(svg, &x, &x.ticks(), |ms| format!("{ms:.0}"));
    let name = format!("{}, {} laid over each other", mode.words(), report.series.roll_at_ms.len());
    svg.text(&format!("panel-name {}", class(mode)), (frame.left, frame.top - 10.0), Anchor::Start, &name);
    svg.text("axis-name", (frame.right, frame.bottom + 34.0), Anchor::End, "ms from the first record in the successor");
}

fn span_ms(close_up: &CloseUp) -> f64 {
    close_up.p50_us.len() as f64 * close_up.bin_ms as f64
}
