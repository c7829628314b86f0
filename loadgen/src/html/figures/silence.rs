//! Silence at rolls beside placebo: one dot a window, its median as a bar. Where the two clouds of a mode lie over each
//! other, a roll is not felt.

use super::{Frame, WIDTH, class};
use crate::html::scale::{Scale, around, tick_label};
use crate::html::svg::{Anchor, Svg};
use crate::measure::stats;
use crate::report::contract::{Mode, ModeReport, Report, Run, Silence};
use crate::report::{table, words};

const LANE: f64 = 30.0;
const LEFT: f64 = 190.0;
const VERDICT: f64 = 218.0;
const HEAD: f64 = 30.0;

/// One lane of dots.
struct Lane<'a> {
    name: &'static str,
    mode: Mode,
    placebo: bool,
    values_us: Vec<u64>,
    /// Printed at the first lane of a pair.
    judged: Option<&'a Silence>,
}

/// The silences that the pictures of a report share a scale over.
pub fn domain(report: &Report) -> (f64, f64) {
    let lanes = report.runs.iter().flat_map(|run| append_lanes(run).into_iter().chain(tail_lanes(run)));
    around(lanes.flat_map(|lane| lane.values_us))
}

pub fn draw(run: &Run, domain: (f64, f64)) -> String {
    let kinds = [("between acks", append_lanes(run)), ("between deliveries", tail_lanes(run))];
    let lanes = kinds.iter().map(|(_, lanes)| lanes.len()).sum::<usize>() as f64;
    let label = format!("Longest silence at rolls beside placebo at {} ms metadata round trip", run.metad_rtt_ms);
    let mut svg = Svg::new(WIDTH, lanes * LANE + 2.0 * (HEAD + 12.0) + 26.0, &label);
    let mut top = HEAD;
    for (index, (kind, lanes)) in kinds.iter().enumerate() {
        let bottom = top + lanes.len() as f64 * LANE;
        let frame = Frame { left: LEFT, top, right: WIDTH - VERDICT, bottom };
        let x = Scale::logarithmic(domain, (frame.left, frame.right));
        group(&mut svg, frame, x, &format!("longest silence {kind}"), lanes);
        let ticks = if index == 1 { x.ticks() } else { Vec::new() };
        frame.bottom_axis(&mut svg, &x, &ticks, tick_label);
        top = bottom + HEAD + 12.0;
    }
    svg.finish()
}

fn append_lanes(run: &Run) -> Vec<Lane<'_>> {
    lanes(
        run,
        |m| m.per_roll.iter().map(|r| r.append_silence_us).collect(),
        |m| &m.placebo_append_us,
        |m| &m.silence.append,
    )
}

fn tail_lanes(run: &Run) -> Vec<Lane<'_>> {
    lanes(run, |m| m.per_roll.iter().map(|r| r.tail_silence_us).collect(), |m| &m.placebo_tail_us, |m| &m.silence.tail)
}

fn lanes<'a>(
    run: &'a Run,
    rolls: fn(&ModeReport) -> Vec<u64>,
    placebo: fn(&ModeReport) -> &Vec<u64>,
    judged: fn(&'a ModeReport) -> &'a Silence,
) -> Vec<Lane<'a>> {
    let mut lanes = Vec::new();
    for mode in [Mode::Reactive, Mode::Anticipatory] {
        let report = run.modes.get(mode);
        let name = if mode == Mode::Reactive { "reactive, at rolls" } else { "anticipatory, at rolls" };
        lanes.push(Lane { name, mode, placebo: false, values_us: rolls(report), judged: Some(judged(report)) });
        lanes.push(Lane { name: "placebo", mode, placebo: true, values_us: placebo(report).clone(), judged: None });
    }
    let none = placebo(&run.modes.no_rolls).clone();
    lanes.push(Lane { name: "no rolls, placebo", mode: Mode::NoRolls, placebo: true, values_us: none, judged: None });
    lanes
}

fn group(svg: &mut Svg, frame: Frame, x: Scale, title: &str, lanes: &[Lane<'_>]) {
    svg.text("panel-name", (frame.left, frame.top - 10.0), Anchor::Start, title);
    x.ticks().into_iter().for_each(|t| svg.line("grid", (x.at(t), frame.top), (x.at(t), frame.bottom)));
    for (index, lane) in lanes.iter().enumerate() {
        let middle = frame.top + (index as f64 + 0.5) * LANE;
        svg.text("lane", (frame.left - 12.0, middle + 4.0), Anchor::End, lane.name);
        strip(svg, x, middle, lane);
        if let Some(silence) = lane.judged {
            let y = middle + LANE / 2.0;
            svg.text("verdict", (frame.right + 16.0, y - 3.0), Anchor::Start, table::verdict(silence));
            let figures =
                format!("{}, medians {}", words::p_value(silence.p_value), words::difference(silence.median_diff_us));
            svg.text("aside", (frame.right + 16.0, y + 13.0), Anchor::Start, &figures);
        }
    }
}

fn strip(svg: &mut Svg, x: Scale, middle: f64, lane: &Lane<'_>) {
    let style = if lane.placebo { "dot hollow" } else { "dot" };
    let dot = format!("{style} {}", class(lane.mode));
    for (index, us) in lane.values_us.iter().enumerate() {
        svg.circle(&dot, (x.at(*us as f64), middle + jitter(index)), 3.2, &words::duration(*us));
    }
    let mut sorted = lane.values_us.clone();
    sorted.sort_unstable();
    if !sorted.is_empty() {
        let at = x.at(stats::median(&sorted));
        svg.line(&format!("median {}", class(lane.mode)), (at, middle - LANE * 0.42), (at, middle + LANE * 0.42));
    }
}

/// Spreads dots over their lane, the same each time: a golden-ratio sequence.
fn jitter(index: usize) -> f64 {
    ((index as f64 * 0.618_034).fract() - 0.5) * LANE * 0.6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_stays_in_its_lane() {
        assert!((0..1_000).all(|i| jitter(i).abs() <= LANE * 0.3));
        assert_ne!(jitter(1), jitter(2));
    }
}
