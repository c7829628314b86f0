//! From a judged history to the report, and what is claimed of it.

use crate::clock::Clock;
use crate::commands::durability;
use crate::commands::rolls::Rolls;
use crate::commands::verify::VerifySettings;
use crate::measure::latency::{Latencies, Summary};
use crate::report::contract::{Claim, Config, Environment, Report, SCHEMA, Throughput};
use crate::report::verify::{CheckRow, FaultRow, FaultSummary, MetadCrash, RecoveryPhases, Verify};
use crate::target::{Recovering, Roll};
use crate::verify::Errors;
use crate::verify::faults::{Kind, Played};
use crate::verify::outage::{Kill, next_acks};
use seam_history::{Check, History, Limits, Verdict, Violation};
use std::collections::BTreeMap;

/// All there is to report on.
pub struct Ran<'a> {
    pub settings: &'a VerifySettings,
    pub history: &'a History,
    pub played: &'a [Played],
    pub rolls: &'a Rolls,
    pub errors: &'a Errors,
    pub unanswered: u64,
}

/// Judges, and says what was found.
pub fn report(ran: &Ran<'_>, environment: Environment, clock: Clock) -> Report {
    let settings = ran.settings;
    let planned = settings.faults.len() as u64 * u64::from(settings.rounds);
    let limits = Limits { faults_min: planned, ..settings.limits };
    let verdict = seam_history::check(ran.history, &limits);
    let verify = verify(ran, &verdict);
    let spec = &settings.spec;
    let duration_s = clock.now_us() as f64 / 1e6;
    let records_per_s = verdict.figures.acked as f64 / duration_s;
    let mut report = Report {
        schema: SCHEMA,
        command: "verify".to_owned(),
        config: Config {
            rate_per_s: settings.rate_per_s,
            record_bytes: settings.record_bytes,
            segment_bytes: spec.segment_bytes,
            replicas: spec.replicas.into(),
            ack_quorum: spec.ack_quorum.into(),
            ack: spec.ack.clone(),
            producers: settings.producers,
            consumers: settings.tails,
            placement: spec.placement.clone(),
            anticipation: spec.anticipation.clone(),
            arrivals: "fixed".to_owned(),
            duration_s,
            seed: 0,
        },
        environment,
        throughput: Throughput {
            records_per_s,
            mib_per_s: records_per_s * settings.record_bytes as f64 / f64::from(1 << 20),
        },
        ..Report::default()
    };
    report.environment.durability = durability(&spec.ack, spec.ack_quorum.into(), spec.replicas.into());
    report.claims = claims(&verify, &verdict);
    report.verify = Some(verify);
    report
}

fn verify(ran: &Ran<'_>, verdict: &Verdict) -> Verify {
    let findings = &verdict.findings;
    let all = ran.rolls.between(0, u64::MAX);
    let faults = rows(ran, &all);
    let kept = |wanted: fn(&Violation) -> bool| findings.kept().iter().filter(|v| wanted(v)).count() as u64;
    let (waited, overrun) = cost(&all, 0, u64::MAX);
    Verify {
        topic: ran.settings.topic.clone(),
        checks: Check::ALL.into_iter().map(|check| row(check, findings.count(check))).collect(),
        violations: findings.kept().to_vec(),
        violations_in_words: findings.kept().iter().map(ToString::to_string).collect(),
        vacuous: verdict.vacuous.clone(),
        records_acked: verdict.figures.acked,
        records_read: verdict.figures.read,
        lost: findings.count(Check::Present),
        duplicated: kept(|v| matches!(v, Violation::Twice { .. })),
        out_of_order: findings.count(Check::Session) + findings.count(Check::RealTime),
        gaps: kept(|v| matches!(v, Violation::Missing { .. })),
        figures: verdict.figures.clone(),
        errors_seen_by_application: ran.errors.count,
        errors: ran.errors.kept.clone(),
        rolls: verdict.figures.rolls,
        rolls_by_recovery: all.iter().filter(|roll| roll.by_recovery).count() as u64,
        appends_waited_for_roll: waited,
        overrun_bytes: overrun,
        questions_unanswered: ran.unanswered,
        append: latencies(ran.history),
        by_fault: by_fault(&faults),
        recovery: recovery(&faults),
        metad_crash: metad_crash(&faults),
        faults,
    }
}

fn row(check: Check, violations: u64) -> CheckRow {
    CheckRow { check: check.number(), name: check.key().to_owned(), words: check.words().to_owned(), violations }
}

fn latencies(history: &History) -> Summary {
    let mut all = Latencies::default();
    for append in history.sessions.iter().flat_map(|session| &session.appends) {
        if append.acked().is_some() {
            all.record(append.return_us.saturating_sub(append.invoke_us));
        }
    }
    all.summary()
}

/// Appends that waited, and bytes past the hard cap, of the rolls at these offsets.
fn cost(rolls: &[Roll], from: u64, until: u64) -> (u64, u64) {
    let within = rolls.iter().filter(|roll| (from..until).contains(&roll.boundary));
    within.fold((0, 0), |(waited, overrun), roll| (waited + roll.appends_waited, overrun + roll.overrun_bytes))
}

fn rows(ran: &Ran<'_>, rolls: &[Roll]) -> Vec<FaultRow> {
    let kill = |played: &Played| Kill {
        signal_us: played.signal.sent_us,
        gone_us: played.signal.heeded_us,
        until_us: played.whole_us.unwrap_or(u64::MAX),
    };
    let kills: Vec<Kill> = ran.played.iter().map(kill).collect();
    let next = next_acks(&ran.history.sessions, &kills);
    let mut rounds: BTreeMap<Kind, u32> = BTreeMap::new();
    let mut rows = Vec::new();
    for (played, next_ack_us) in ran.played.iter().zip(next) {
        let round = rounds.entry(played.kind).or_default();
        *round += 1;
        let at_us = played.signal.sent_us;
        let since = |us: Option<u64>| us.map(|us| us.saturating_sub(at_us));
        let (from, until) = (end_at(ran.history, at_us), end_at(ran.history, played.whole_us.unwrap_or(u64::MAX)));
        let (appends_waited_for_roll, overrun_bytes) = cost(rolls, from, until.saturating_add(1));
        rows.push(FaultRow {
            fault: played.kind,
            round: *round,
            at_us,
            victims: played.victims.clone(),
            segment: played.segment,
            next_ack_us,
            appointed_us: since(played.appointed_us),
            decided_us: since(played.decided_us),
            whole_us: since(played.whole_us),
            appends_waited_for_roll,
            overrun_bytes,
            recovery: rolls.iter().find(|roll| Some(roll.segment) == played.segment).and_then(|roll| roll.recovery),
            notes: played.notes.clone(),
            failures: played.failures.clone(),
        });
    }
    rows
}

/// The offset after the last record that the first tail had by then.
fn end_at(history: &History, us: u64) -> u64 {
    let deliveries = history.tails.iter().take(1).flat_map(|tail| tail.deliveries());
    deliveries.take_while(|delivery| delivery.at_us <= us).map(|delivery| delivery.offset + 1).max().unwrap_or(0)
}

fn by_fault(faults: &[FaultRow]) -> BTreeMap<String, FaultSummary> {
    let mut by: BTreeMap<String, Vec<&FaultRow>> = BTreeMap::new();
    for row in faults {
        by.entry(row.fault.name().to_owned()).or_default().push(row);
    }
    let summary = |rows: Vec<&FaultRow>| FaultSummary {
        count: rows.len() as u64,
        failed: rows.iter().filter(|row| !row.failures.is_empty()).count() as u64,
        next_ack: exact(rows.iter().map(|row| row.next_ack_us)),
        whole: exact(rows.iter().map(|row| row.whole_us)),
    };
    by.into_iter().map(|(name, rows)| (name, summary(rows))).collect()
}

fn exact(values_us: impl Iterator<Item = Option<u64>>) -> Summary {
    Summary::exact(&values_us.flatten().collect::<Vec<u64>>())
}

fn recovery(faults: &[FaultRow]) -> RecoveryPhases {
    let kills = || faults.iter().filter(|row| row.fault == Kind::KillPrimary);
    let decided = |row: &FaultRow| Some(row.decided_us?.saturating_sub(row.appointed_us?));
    RecoveryPhases {
        next_ack: exact(kills().map(|row| row.next_ack_us)),
        appointed: exact(kills().map(|row| row.appointed_us)),
        appointed_to_decided: exact(kills().map(decided)),
        phases: phases(kills()),
    }
}

fn phases<'a>(kills: impl Iterator<Item = &'a FaultRow>) -> BTreeMap<String, Summary> {
    let recorded: Vec<Recovering> = kills.filter_map(|row| row.recovery).collect();
    if recorded.is_empty() {
        return BTreeMap::new();
    }
    let of = |phase: fn(&Recovering) -> Option<u64>| exact(recorded.iter().map(phase));
    let named = [
        ("detection", of(|recovery| Some(recovery.detection_us))),
        ("appointment", of(|recovery| Some(recovery.appointment_us))),
        ("fence", of(|recovery| Some(recovery.fence_us))),
        ("copy", of(|recovery| Some(recovery.copy_us))),
        ("decision", of(|recovery| Some(recovery.decision_us))),
        ("first_commit", of(|recovery| recovery.first_commit_us)),
    ];
    named.into_iter().map(|(name, summary)| (name.to_owned(), summary)).collect()
}

fn metad_crash(faults: &[FaultRow]) -> MetadCrash {
    let kills = faults.iter().filter(|row| row.fault == Kind::KillMetadLeader);
    kills.fold(MetadCrash::default(), |sum, row| MetadCrash {
        count: sum.count + 1,
        appends_waited_for_roll: sum.appends_waited_for_roll + row.appends_waited_for_roll,
        overrun_bytes: sum.overrun_bytes + row.overrun_bytes,
    })
}

fn claims(verify: &Verify, verdict: &Verdict) -> Vec<Claim> {
    let claim = |name: &str, holds: bool, evidence: String| Claim {
        name: name.to_owned(),
        metad_rtt_ms: None,
        holds,
        inconclusive: false,
        evidence,
    };
    let (total, figures) = (verdict.findings.total(), &verdict.figures);
    let mut claims = vec![
        claim(
            "history_is_correct",
            total == 0,
            format!(
                "{total} violations over {} acks, {} records, {} rolls",
                figures.acked, figures.read, figures.rolls
            ),
        ),
        claim(
            "enough_happened",
            verdict.vacuous.is_empty(),
            match &verdict.vacuous[..] {
                [] => format!("{} acks, {} rolls, {} faults", figures.acked, figures.rolls, figures.faults),
                [first, ..] => format!("{} {}, {} wanted", first.found, first.what, first.wanted),
            },
        ),
        claim(
            "no_errors",
            verify.errors_seen_by_application == 0,
            format!("{} errors seen by the application", verify.errors_seen_by_application),
        ),
    ];
    if !verify.faults.is_empty() {
        let failed = verify.faults.iter().filter(|row| !row.failures.is_empty()).count();
        let played = verify.faults.len();
        claims.push(claim("faults_survived", failed == 0, format!("{failed} of {played} faults were not survived")));
    }
    if verify.metad_crash.count > 0 {
        let waited = verify.metad_crash.appends_waited_for_roll;
        claims.push(claim(
            "appends_do_not_wait_for_metad",
            waited == 0,
            format!("{waited} appends waited for a roll while metad's leader was gone"),
        ));
    }
    claims
}
