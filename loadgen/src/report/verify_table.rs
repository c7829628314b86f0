//! A verification as printed: what happened, the ten checks, the faults, what was claimed.

use crate::measure::latency::Summary;
use crate::report::contract::Report;
use crate::report::verify::Verify;
use crate::report::words;
use std::fmt::Write;

/// What the cluster records of a recovery, in order.
const PHASES: [(&str, &str); 6] = [
    ("detection", "recorded: detection"),
    ("appointment", "recorded: appointment"),
    ("fence", "recorded: fence"),
    ("copy", "recorded: copy"),
    ("decision", "recorded: decision"),
    ("first_commit", "recorded: first commit after it"),
];

/// The whole text, ready to print.
pub fn render(report: &Report, verify: &Verify) -> String {
    let mut out = String::new();
    happened(&mut out, verify);
    checks(&mut out, verify);
    faults(&mut out, verify);
    for error in &verify.errors {
        line(&mut out, &format!("  error: {error}"));
    }
    line(&mut out, "Claims");
    for claim in &report.claims {
        let holds = if claim.holds { "holds" } else { "FAILS" };
        line(&mut out, &format!("  {holds}  {}: {}", claim.name, claim.evidence));
    }
    out
}

fn line(out: &mut String, text: &str) {
    out.push_str(text.trim_end());
    out.push('\n');
}

fn happened(out: &mut String, verify: &Verify) {
    let figures = &verify.figures;
    line(out, &format!("Topic {}, offsets {} to {}", verify.topic, figures.start, figures.end));
    line(
        out,
        &format!(
            "  {} sent: {} acked, {} certainly not written, {} in doubt ({} of them written)",
            figures.sent, figures.acked, figures.failed, figures.indeterminate, figures.indeterminate_written
        ),
    );
    line(
        out,
        &format!(
            "  {} rolls, {} of them by recovery; {} faults",
            verify.rolls, verify.rolls_by_recovery, figures.faults
        ),
    );
    for tail in &figures.tails {
        line(
            out,
            &format!(
                "  tail {}: {} delivered over {} boundaries, opened again {} times",
                tail.client, tail.delivered, tail.crossings, tail.reopened
            ),
        );
    }
    let silences = &figures.silences;
    line(
        out,
        &format!(
            "  longest silence of acks {}, in faults {}; of deliveries {}, in faults {}",
            words::duration(silences.ack_us),
            words::duration(silences.fault_ack_us),
            words::duration(silences.delivery_us),
            words::duration(silences.fault_delivery_us)
        ),
    );
}

fn checks(out: &mut String, verify: &Verify) {
    line(out, "Checks");
    for row in &verify.checks {
        let found = if row.violations == 0 { "ok".to_owned() } else { format!("{} VIOLATIONS", row.violations) };
        line(out, &format!("  {:>2}  {:<40}{found}", row.check, row.words));
    }
    for words in &verify.violations_in_words {
        line(out, &format!("      {words}"));
    }
    for lacking in &verify.vacuous {
        line(out, &format!("  proves nothing: {} {}, {} wanted", lacking.found, lacking.what, lacking.wanted));
    }
}

fn faults(out: &mut String, verify: &Verify) {
    if verify.faults.is_empty() {
        return;
    }
    line(out, &format!("  {:<24}{:>6}{:>8}{:>32}{:>32}", "Faults", "count", "failed", "next ack", "whole again"));
    line(out, &format!("  {:<38}{:>32}{:>32}", "", "p50 / p99 / max", "p50 / p99 / max"));
    for (name, all) in &verify.by_fault {
        let (next, whole) = (spread(&all.next_ack), spread(&all.whole));
        line(out, &format!("  {name:<24}{:>6}{:>8}{next:>32}{whole:>32}", all.count, all.failed));
    }
    let recovery = &verify.recovery;
    if recovery.next_ack.count > 0 {
        line(out, &format!("  a killed primary, {} times (p50 / p99 / max)", recovery.next_ack.count));
        let mut phases = vec![
            ("to an agent appointed", recovery.appointed),
            ("from there to the end decided", recovery.appointed_to_decided),
        ];
        let recorded = PHASES.iter().filter_map(|(key, words)| Some((*words, *recovery.phases.get(*key)?)));
        phases.extend(recorded);
        phases.push(("to the next ack", recovery.next_ack));
        for (name, summary) in phases {
            line(out, &format!("    {name:<32}{:>6}{:>32}", summary.count, spread(&summary)));
        }
    }
    if verify.metad_crash.count > 0 {
        let crash = &verify.metad_crash;
        let overrun = words::bytes(crash.overrun_bytes);
        let mut text = format!("  metad's leader killed {} times: ", crash.count);
        let _ = write!(text, "{} appends waited for a roll, overrun {overrun}", crash.appends_waited_for_roll);
        line(out, &text);
    }
    for row in &verify.faults {
        for failure in &row.failures {
            line(out, &format!("  {} {} of {}: {failure}", row.fault, row.round, row.victims.join(", ")));
        }
    }
}

fn spread(summary: &Summary) -> String {
    match summary.count {
        0 => "–".to_owned(),
        _ => format!(
            "{} / {} / {}",
            words::duration(summary.p50_us),
            words::duration(summary.p99_us),
            words::duration(summary.max_us)
        ),
    }
}
