//! The comparison as printed: three modes side by side at each round trip, and what was claimed of them.

use crate::report::claims::SIGNIFICANCE;
use crate::report::contract::{Claim, Mode, ModeReport, Report, Run, Silence};
use crate::report::words;
use std::fmt::Write;

const LABEL: usize = 36;
const CELL: usize = 22;

/// The whole text, ready to print.
pub fn render(report: &Report) -> String {
    let mut out = String::new();
    for run in &report.runs {
        render_run(&mut out, report, run);
    }
    render_growth(&mut out, report);
    render_claims(&mut out, report);
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn row(out: &mut String, label: &str, run: &Run, cell: impl Fn(Mode, &ModeReport) -> String) {
    let mut text = format!("  {label:<LABEL$}");
    for mode in Mode::ALL {
        let _ = write!(text, "{:>CELL$}", cell(mode, run.modes.get(mode)));
    }
    line(out, &text);
}

fn render_run(out: &mut String, report: &Report, run: &Run) {
    let call = words::duration(run.metadata_call_p50_us);
    line(out, &format!("Metadata round trip {} ms (a committing metadata call took {call})", run.metad_rtt_ms));
    row(out, "", run, |mode, _| mode.words().to_owned());
    row(out, "rolls measured", run, |_, m| m.rolls_measured.to_string());
    row(out, "append p50 / p99, steady", run, |_, m| pair(m.append.steady.p50_us, m.append.steady.p99_us));
    row(out, "append p50 / p99, at rolls", run, |mode, m| {
        rolling(mode, || pair(m.append.boundary.p50_us, m.append.boundary.p99_us))
    });
    row(out, "  first record of the successor, p50", run, |mode, m| {
        rolling(mode, || words::duration(m.first_append.p50_us))
    });
    row(out, "tail p50 / p99, steady", run, |_, m| pair(m.tail.steady.p50_us, m.tail.steady.p99_us));
    row(out, "tail p50 / p99, at rolls", run, |mode, m| {
        rolling(mode, || pair(m.tail.boundary.p50_us, m.tail.boundary.p99_us))
    });
    for (kind, claim, of) in [
        ("ack", "append_roll_not_felt", append as fn(&ModeReport) -> &Silence),
        ("delivery", "tail_roll_not_felt", tail),
    ] {
        let blind = report
            .claims
            .iter()
            .any(|it| it.inconclusive && it.name == claim && it.metad_rtt_ms == Some(run.metad_rtt_ms));
        row(out, &format!("longest {kind} silence, at rolls"), run, |mode, m| {
            rolling(mode, || words::duration(of(m).boundary.p50_us))
        });
        row(out, "  in placebo windows", run, |_, m| words::duration(of(m).placebo.p50_us));
        row(out, "  difference, 95 % interval", run, |mode, m| {
            let (low, high) = of(m).median_diff_ci95_us;
            rolling(mode, || format!("{} to {}", words::difference(low), words::difference(high)))
        });
        row(out, "  chance alone would do this", run, |mode, m| rolling(mode, || words::p_value(of(m).p_value)));
        row(out, "  so a roll is", run, |mode, m| {
            let verdict = if blind && mode == Mode::Anticipatory { "inconclusive" } else { verdict(of(m)) };
            rolling(mode, || verdict.to_owned())
        });
    }
    row(out, "successor not ready / appends waited", run, |mode, m| {
        rolling(mode, || format!("{} / {}", m.rolls_not_ready, m.appends_waited_for_roll))
    });
    row(out, "acked / lost / dup / disorder / gaps", run, |_, m| {
        let v = m.verdict;
        format!("{} / {} / {} / {} / {}", v.records_acked, v.lost, v.duplicated, v.out_of_order, v.gaps)
    });
    line(out, "");
}

fn append(m: &ModeReport) -> &Silence {
    &m.silence.append
}

fn tail(m: &ModeReport) -> &Silence {
    &m.silence.tail
}

fn pair(p50_us: u64, p99_us: u64) -> String {
    format!("{} / {}", words::duration(p50_us), words::duration(p99_us))
}

fn rolling(mode: Mode, cell: impl Fn() -> String) -> String {
    if mode.rolls() { cell() } else { "–".to_owned() }
}

/// In one word.
pub fn verdict(silence: &Silence) -> &'static str {
    match silence.p_value {
        None => "not measured",
        Some(p) if p > SIGNIFICANCE => "not told from chance",
        Some(_) if silence.median_diff_us < 0 => "quieter than chance",
        Some(_) => "felt",
    }
}

fn render_growth(out: &mut String, report: &Report) {
    if report.runs.len() < 2 {
        return;
    }
    line(out, "Silence at a roll as the metadata round trip grows (medians)");
    let heads: String = report.runs.iter().map(|r| format!("{:>12}", format!("{} ms", r.metad_rtt_ms))).collect();
    line(out, &format!("  {:<LABEL$}{heads}", ""));
    for mode in [Mode::Reactive, Mode::Anticipatory] {
        let cell = |r: &Run| format!("{:>12}", words::duration(r.modes.get(mode).silence.append.boundary.p50_us));
        let cells: String = report.runs.iter().map(cell).collect();
        line(out, &format!("  {:<LABEL$}{cells}", mode.words()));
    }
    line(out, "");
}

fn render_claims(out: &mut String, report: &Report) {
    line(out, "Claims");
    for claim in &report.claims {
        let at = claim.metad_rtt_ms.map_or(String::new(), |ms| format!("[{ms} ms] "));
        let holds = match (claim.holds, claim.inconclusive) {
            (true, _) => "holds",
            (false, true) => "inconclusive",
            (false, false) => "FAILS",
        };
        line(out, &format!("  {holds}  {at}{}: {}", claim.name, claim.evidence));
    }
    line(out, &format!("{}.", tally(&report.claims)));
}

/// How many hold, in words.
pub fn tally(claims: &[Claim]) -> String {
    let inconclusive = claims.iter().filter(|c| c.inconclusive).count();
    let failed = claims.iter().filter(|c| !c.holds && !c.inconclusive).count();
    match (failed, inconclusive) {
        (0, 0) => format!("All {} claims hold", claims.len()),
        (n, 0) => format!("{n} of {} claims fail", claims.len()),
        (0, n) => format!("{n} of {} claims are inconclusive, none fails", claims.len()),
        (n, open) => format!("{n} of {} claims fail, {open} are inconclusive", claims.len()),
    }
}
