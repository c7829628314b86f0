//! The reactive stall against the metadata round trip, its traced phases stacked, with the anticipatory boundary beside it.

use super::{Frame, WIDTH};
use crate::html::scale::Scale;
use crate::html::svg::{Anchor, Svg};
use crate::measure::latency::Summary;
use crate::report::contract::{Phases, Report, Run};
use crate::report::words;

const BAR: f64 = 26.0;
const GROUP: f64 = 84.0;
const LEFT: f64 = 190.0;
const RIGHT: f64 = 96.0;

type Phase = fn(&Phases) -> &Summary;

/// The phases an append waits through when nothing was prepared, in order, with their class.
const PHASES: [(&str, &str, Phase); 5] = [
    ("announce", "phase-1", |p| &p.announce),
    ("commit the plan", "phase-2", |p| &p.commit),
    ("open the replicas", "phase-3", |p| &p.open),
    ("commit ready", "phase-4", |p| &p.ready),
    ("gate", "phase-5", |p| &p.gate),
];

pub fn draw(report: &Report) -> String {
    let height = report.runs.len() as f64 * GROUP + 86.0;
    let mut svg = Svg::new(WIDTH, height, "The reactive stall and its phases against the metadata round trip");
    legend(&mut svg);
    let widest = |run: &Run| {
        let m = &run.modes;
        let phases: u64 = PHASES.iter().map(|(_, _, of)| of(&m.reactive.roll_phases_us).p50_us).sum();
        phases.max(m.reactive.silence.append.boundary.p50_us).max(m.anticipatory.silence.append.boundary.p50_us)
    };
    let most_ms = report.runs.iter().map(widest).max().unwrap_or(0).max(1_000) as f64 / 1_000.0;
    let frame = Frame { left: LEFT, top: 44.0, right: WIDTH - RIGHT, bottom: height - 36.0 };
    let x = Scale::linear((0.0, most_ms), (frame.left, frame.right));
    x.ticks().into_iter().for_each(|t| svg.line("grid", (x.at(t), frame.top), (x.at(t), frame.bottom)));
    for (index, run) in report.runs.iter().enumerate() {
        group(&mut svg, x, frame.top + 8.0 + index as f64 * GROUP, run);
    }
    frame.bottom_axis(&mut svg, &x, &x.ticks(), |ms| format!("{ms} ms"));
    svg.finish()
}

fn legend(svg: &mut Svg) {
    let mut left = LEFT;
    for (name, class, _) in PHASES {
        svg.rect(class, (left, 8.0), (14.0, 14.0), "");
        svg.text("tick", (left + 20.0, 19.0), Anchor::Start, name);
        left += 46.0 + name.len() as f64 * 6.6;
    }
    svg.line("measured", (left + 4.0, 6.0), (left + 4.0, 24.0));
    svg.text("tick", (left + 14.0, 19.0), Anchor::Start, "longest ack silence, measured from outside");
}

fn group(svg: &mut Svg, x: Scale, top: f64, run: &Run) {
    let title = format!("{} ms", run.metad_rtt_ms);
    svg.text("group", (14.0, top + BAR + 6.0), Anchor::Start, &title);
    svg.text("lane", (LEFT - 12.0, top + BAR / 2.0 + 5.0), Anchor::End, "reactive");
    svg.text("lane", (LEFT - 12.0, top + BAR * 1.5 + 13.0), Anchor::End, "anticipatory");
    let phases = &run.modes.reactive.roll_phases_us;
    let mut from_us = 0;
    for (name, class, of) in PHASES {
        let us = of(phases).p50_us;
        let (left, right) = (x.at(from_us as f64 / 1_000.0), x.at((from_us + us) as f64 / 1_000.0));
        svg.rect(class, (left, top), (right - left, BAR), &format!("{name}: {}", words::duration(us)));
        from_us += us;
    }
    let reactive_us = run.modes.reactive.silence.append.boundary.p50_us;
    let at = x.at(reactive_us as f64 / 1_000.0);
    svg.line("measured", (at, top - 4.0), (at, top + BAR + 4.0));
    let beyond = at.max(x.at(from_us as f64 / 1_000.0)) + 10.0;
    svg.text("value reactive", (beyond, top + BAR / 2.0 + 5.0), Anchor::Start, &words::duration(reactive_us));
    let anticipatory_us = run.modes.anticipatory.silence.append.boundary.p50_us;
    let right = x.at(anticipatory_us as f64 / 1_000.0);
    let second = top + BAR + 8.0;
    svg.rect("fill anticipatory", (x.at(0.0), second), (right - x.at(0.0), BAR), &words::duration(anticipatory_us));
    let (text, at) = (words::duration(anticipatory_us), (right + 10.0, second + BAR / 2.0 + 5.0));
    svg.text("value anticipatory", at, Anchor::Start, &text);
}
