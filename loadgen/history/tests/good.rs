//! What a correct log may do passes, and what is counted is right.

mod common;

use common::{STEP_US, chain, good, judge, limits, told};
use seam_history::{Check, History, Limits, Outcome, check};

#[test]
fn a_correct_log_passes_at_every_length() {
    for records in [120, 121, 250, 1_000] {
        let verdict = judge(&good(records));
        assert!(verdict.holds(), "{records}: {}", told(&verdict));
    }
}

#[test]
fn what_happened_is_counted() {
    let verdict = judge(&good(290));
    let figures = &verdict.figures;
    assert_eq!((figures.sent, figures.acked, figures.failed), (290, 260, 10));
    assert_eq!((figures.indeterminate, figures.indeterminate_written, figures.unanswered), (20, 10, 0));
    assert_eq!((figures.read, figures.start, figures.end, figures.rolls), (270, 0, 270, 6));
    assert_eq!((figures.faults, figures.queries, figures.chains), (1, 15, 3));
    let tails: Vec<_> = figures.tails.iter().map(|t| (t.client, t.delivered, t.crossings, t.reopened)).collect();
    assert_eq!(tails, [(1, 270, 6, 0), (2, 270, 6, 1)]);
    assert!(figures.silences.ack_us > 0 && figures.silences.ack_us <= 3 * STEP_US, "{:?}", figures.silences);
}

#[test]
fn a_trimmed_log_passes() {
    let mut history = good(400);
    let start = 80;
    history.final_read.from = start;
    history.final_read.deliveries.retain(|delivery| delivery.offset >= start);
    history.chains.last_mut().expect("told").segments.retain(|segment| segment.start >= start);
    history.queries.iter_mut().filter(|query| query.invoke_us > 200 * STEP_US).for_each(|query| query.earliest = start);
    let verdict = judge(&history);
    assert!(verdict.holds(), "{}", told(&verdict));
}

#[test]
fn tellings_of_the_chain_that_overlap_may_disagree() {
    let mut history = good(400);
    let at_us = history.chains[2].invoke_us;
    let mut older = chain(40, at_us + 10);
    older.return_us = at_us + 50;
    history.chains.insert(2, older);
    // Asked for after the second had been told, so it must not have lost what that had.
    assert_eq!(judge(&history).findings.count(Check::Chain), judge(&history).findings.total());
    assert!(judge(&history).findings.total() > 0);
    history.chains[2].invoke_us = history.chains[1].invoke_us;
    let verdict = judge(&history);
    assert!(verdict.holds(), "{}", told(&verdict));
}

#[test]
fn acks_may_come_in_any_order_of_time() {
    let mut history = good(300);
    // All appends in flight at once: real time orders nothing any more.
    history.sessions.iter_mut().flat_map(|session| &mut session.appends).for_each(|append| append.return_us += 1 << 30);
    history.tails.iter_mut().flat_map(|t| &mut t.readings).flat_map(|r| &mut r.deliveries).for_each(|d| d.at_us += 1);
    let bounds = Limits { lateness_us: None, silence_us: None, fault_silence_us: None, ..limits() };
    let verdict = check(&history, &bounds);
    assert!(verdict.holds(), "{}", told(&verdict));
}

#[test]
fn too_little_proves_nothing_and_says_what_was_missing() {
    let history = good(300);
    let whole = Limits::default();
    assert!(check(&history, &whole).holds());
    let cases = [
        (Limits { acks_min: 10_000, ..whole }, "records acked"),
        (Limits { rolls_min: 100, ..whole }, "rolls"),
        (Limits { faults_min: 2, ..whole }, "faults"),
        (Limits { crossings_min: 100, ..whole }, "boundaries crossed by each tail"),
        (Limits { queries_min: 100, ..whole }, "questions for the end"),
        (Limits { chains_min: 100, ..whole }, "tellings of the chain"),
    ];
    for (limits, what) in cases {
        let verdict = check(&history, &limits);
        let found: Vec<&str> = verdict.vacuous.iter().map(|vacuity| vacuity.what.as_str()).collect();
        assert_eq!(found, [what]);
        assert!(!verdict.holds() && verdict.findings.total() == 0);
    }
    assert!(!check(&History::default(), &limits()).holds(), "nothing at all proves nothing");
}

#[test]
fn a_history_survives_its_file() {
    let history = good(130);
    let text = serde_json::to_string(&history).expect("plain data");
    assert_eq!(serde_json::from_str::<History>(&text).expect("reads what it wrote"), history);
    let json = serde_json::to_value(judge(&history)).expect("plain data");
    assert_eq!(json["figures"]["rolls"], 3);
}

#[test]
fn an_append_that_was_never_answered_is_no_proof_of_anything_else() {
    let mut history = good(120);
    history.sessions[0].appends[5].outcome = Outcome::Open;
    let verdict = judge(&history);
    assert_eq!(verdict.findings.count(Check::Gaps), 1, "{}", told(&verdict));
    assert_eq!(verdict.findings.total(), 1, "{}", told(&verdict));
}
