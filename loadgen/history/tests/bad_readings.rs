//! For checks 6 to 10 the histories they must catch, told by the evidence.

mod common;

use common::{STEP_US, good, has, judge, limits, log, spoiled, told};
use seam_history::{Check, History, KEPT, Limits, Outcome, Query, Segment, Source, Violation, check};

#[test]
fn contiguous_6_a_tail_skips_repeats_and_swaps() {
    let verdict = spoiled(&[Check::Contiguous], |history| {
        history.tails[0].readings[0].deliveries.remove(40);
    });
    has(&verdict, |v| matches!(v, Violation::Missing { source: Source::Tail(1), expected: 40, found: 41 }));

    let verdict = spoiled(&[Check::Contiguous], |history| {
        let reading = &mut history.tails[0].readings[0].deliveries;
        reading.insert(41, reading[40]);
    });
    has(&verdict, |v| matches!(v, Violation::Repeated { source: Source::Tail(1), expected: 41, found: 40 }));

    let verdict = spoiled(&[Check::Contiguous], |history| {
        let reading = &mut history.tails[0].readings[0].deliveries;
        let (a, b) = (reading[40].at_us, reading[41].at_us);
        reading.swap(40, 41);
        (reading[40].at_us, reading[41].at_us) = (a.max(b), a.max(b));
    });
    assert_eq!(verdict.findings.total(), 2, "one too early, one too late: {}", told(&verdict));
}

#[test]
fn contiguous_6_the_first_record_and_the_resumed_ones() {
    spoiled(&[Check::Contiguous], |history| {
        history.tails[0].readings[0].deliveries.remove(0);
    });
    let verdict = spoiled(&[Check::Contiguous], |history| history.tails[1].readings[1].from -= 1);
    has(&verdict, |v| matches!(v, Violation::ResumedElsewhere { source: Source::Tail(2), .. }));
    has(&verdict, |v| matches!(v, Violation::Missing { .. }));
}

#[test]
fn contiguous_6_the_final_read_has_a_hole() {
    let verdict = spoiled(&[Check::Present, Check::Contiguous], |history| {
        log(history).remove(77);
    });
    has(&verdict, |v| matches!(v, Violation::Missing { source: Source::FinalRead, expected: 77, found: 78 }));
    has(&verdict, |v| matches!(v, Violation::Lost { offset: 77, instead: None, .. }));
}

#[test]
fn committed_7_a_record_is_read_before_it_was_sent() {
    let verdict = spoiled(&[Check::Committed], |history| {
        let delivery = &mut history.tails[0].readings[0].deliveries[100];
        delivery.at_us -= 10 * STEP_US;
    });
    has(&verdict, |v| matches!(v, Violation::ReadBeforeSent { source: Source::Tail(1), offset: 100, .. }));
}

#[test]
fn committed_7_what_was_read_is_taken_back() {
    let verdict = spoiled(&[Check::Committed], |history| {
        // An append in doubt: no ack is lost with it.
        let last = log(history).pop().expect("not empty");
        let (session, at) = (last.client as usize - 1, last.sequence as usize);
        history.sessions[session].appends[at].outcome = Outcome::Indeterminate;
    });
    has(&verdict, |v| matches!(v, Violation::TakenBack { source: Source::Tail(2), .. }));
}

#[test]
fn committed_7_an_end_told_later_is_below_what_was_read() {
    let verdict = spoiled(&[Check::Committed, Check::Monotone], |history| {
        history.queries.last_mut().expect("there are some").latest -= 100;
    });
    has(&verdict, |v| matches!(v, Violation::EndBelowRead { source: Source::Tail(1), .. }));
}

#[test]
fn monotone_8_the_end_falls() {
    let mut history = good(310);
    history.tails.clear();
    history.sessions.iter_mut().flat_map(|s| &mut s.appends).for_each(|append| append.return_us = 1 << 40);
    history.queries[10].latest = history.queries[9].latest - 1;
    let verdict = check(&history, &Limits::default());
    assert_eq!(verdict.findings.total(), 1, "{}", told(&verdict));
    has(&verdict, |v| matches!(v, Violation::EndFell { .. }));
}

#[test]
fn monotone_8_the_start_falls() {
    let verdict = spoiled(&[Check::Monotone], |history| history.queries[3].earliest = 2);
    has(&verdict, |v| matches!(v, Violation::StartFell { earliest: 2, later_earliest: 0, .. }));
}

#[test]
fn monotone_8_the_end_is_below_an_ack() {
    let verdict = spoiled(&[Check::Monotone], |history| {
        history.tails.clear();
        history.queries.drain(1..);
        let query = Query { client: 9, invoke_us: 100 * STEP_US, return_us: 101 * STEP_US, earliest: 0, latest: 50 };
        history.queries.extend([query; 2]);
    });
    has(&verdict, |v| matches!(v, Violation::EndBelowAck { latest: 50, offset: 51.., .. }));
}

#[test]
fn monotone_8_the_end_is_above_the_log_or_ahead_of_what_was_sent() {
    let verdict = spoiled(&[Check::Monotone], |history| {
        let end = history.final_read.end();
        history.queries.last_mut().expect("there are some").latest = end + 1;
    });
    has(&verdict, |v| matches!(v, Violation::EndAboveLog { .. }));
    let verdict = spoiled(&[Check::Monotone], |history| history.queries[2].latest = history.queries[3].latest);
    has(&verdict, |v| matches!(v, Violation::EndAheadOfSend { .. }));
}

fn last_chain(history: &mut History) -> &mut Vec<Segment> {
    &mut history.chains.last_mut().expect("told").segments
}

#[test]
fn chain_9_a_gap_an_overlap_and_a_wrong_next() {
    for end in [79, 81] {
        let verdict = spoiled(&[Check::Chain], |history| {
            for chain in &mut history.chains {
                chain.segments.iter_mut().filter(|s| s.id == 101 && s.end.is_some()).for_each(|s| s.end = Some(end));
            }
        });
        has(&verdict, |v| matches!(v, Violation::ChainBroken { segment: 101, following: 102, start: 80, .. }));
    }
    let verdict = spoiled(&[Check::Chain], |history| last_chain(history)[5].next = Some(1));
    has(&verdict, |v| matches!(v, Violation::ChainBroken { segment: 105, next: Some(1), .. }));
}

#[test]
fn chain_9_an_open_segment_in_the_middle() {
    let verdict = spoiled(&[Check::Chain], |history| {
        let segment = &mut last_chain(history)[5];
        (segment.end, segment.next) = (None, None);
    });
    has(&verdict, |v| matches!(v, Violation::ChainBroken { segment: 105, end: None, .. }));
}

#[test]
fn chain_9_what_was_decided_changes() {
    let verdict = spoiled(&[Check::Chain], |history| {
        let segments = last_chain(history);
        (segments[1].end, segments[2].start) = (Some(70), 70);
    });
    has(
        &verdict,
        |v| matches!(v, Violation::SegmentChanged { segment: 101, what, before: 80, after: Some(70) } if what == "end"),
    );
    let verdict = spoiled(&[Check::Chain], |history| {
        let segments = last_chain(history);
        segments.truncate(2);
        (segments[1].end, segments[1].next) = (None, None);
    });
    has(&verdict, |v| matches!(v, Violation::SegmentChanged { segment: 101, after: None, .. }));
    has(&verdict, |v| matches!(v, Violation::SegmentVanished { segment: 102, .. }));
}

#[test]
fn chain_9_a_record_lies_outside() {
    let verdict = spoiled(&[Check::Chain], |history| {
        let segments = last_chain(history);
        segments.pop();
        // The last one names a successor that is not in the chain.
        assert!(segments.last().is_some_and(|last| last.end.is_some()));
    });
    has(&verdict, |v| matches!(v, Violation::OutsideChain { start: 0, .. }));
    spoiled(&[Check::Chain], |history| {
        last_chain(history).remove(0);
    });
}

#[test]
fn chain_9_ends_that_the_log_does_not_reach_or_that_lie_before_their_start() {
    let verdict = spoiled(&[Check::Chain], |history| {
        let end = history.final_read.end();
        let head = last_chain(history).last_mut().expect("a head");
        (head.end, head.next) = (Some(end + 5), Some(999));
    });
    has(&verdict, |v| matches!(v, Violation::ChainBeyondLog { .. }));
    let verdict = spoiled(&[Check::Chain], |history| {
        let head = last_chain(history).last_mut().expect("a head");
        (head.end, head.next) = (Some(head.start - 1), Some(999));
    });
    has(&verdict, |v| matches!(v, Violation::SegmentInverted { .. }));
}

#[test]
fn gaps_10_an_append_without_an_outcome_and_a_late_one() {
    let verdict = spoiled(&[Check::Gaps], |history| {
        history.sessions[1]
            .appends
            .iter_mut()
            .filter(|a| a.outcome == Outcome::Failed)
            .for_each(|a| a.return_us += STEP_US);
        let indeterminate = history.sessions[2].appends.iter_mut().find(|a| a.outcome == Outcome::Indeterminate);
        indeterminate.expect("there is one").outcome = Outcome::Open;
    });
    has(&verdict, |v| matches!(v, Violation::Unanswered { op, .. } if op.client == 3));
    has(&verdict, |v| matches!(v, Violation::Late { op, took_us: 2_500, .. } if op.client == 2));
}

#[test]
fn gaps_10_silences_longer_than_their_bound() {
    let verdict = spoiled(&[Check::Gaps], |history| {
        let tail = &mut history.tails[0].readings[0].deliveries;
        tail.iter_mut().skip(100).for_each(|delivery| delivery.at_us += 30 * STEP_US);
    });
    assert_eq!(verdict.findings.total(), 1, "{}", told(&verdict));
    has(&verdict, |v| matches!(v, Violation::Silence { source: Source::Tail(1), bound_us: 20_000, .. }));

    let history = good(310);
    let bound = Limits { silence_us: Some(100), ..limits() };
    let calm = check(&history, &bound);
    has(&calm, |v| matches!(v, Violation::Silence { source: Source::Ack, from_us: 1_000, until_us: 2_500, .. }));
    let in_fault = check(&history, &Limits { fault_silence_us: Some(100), ..limits() });
    let (calm, in_fault) = (calm.findings.total(), in_fault.findings.total());
    assert!(in_fault > 0 && in_fault < calm, "{in_fault} in the fault, {calm} away from it");
}

#[test]
fn gaps_10_a_tail_that_does_not_get_to_the_end() {
    let verdict = spoiled(&[Check::Gaps], |history| {
        let reading = &mut history.tails[0].readings[0].deliveries;
        reading.truncate(reading.len() - 1);
    });
    has(&verdict, |v| matches!(v, Violation::Behind { source: Source::Tail(1), .. }));
}

#[test]
fn all_are_counted_and_some_are_kept() {
    let mut history = good(310);
    log(&mut history).clear();
    let verdict = judge(&history);
    let acked = verdict.figures.acked;
    assert_eq!(verdict.findings.count(Check::Present), acked);
    let kept = verdict.findings.kept().iter().filter(|v| v.check() == Check::Present).count();
    assert!(kept == KEPT && acked > KEPT as u64);
}

#[test]
fn every_violation_says_what_it_knows() {
    let mut history = good(310);
    log(&mut history).truncate(100);
    history.tails[0].readings[0].deliveries.remove(7);
    for violation in judge(&history).findings.kept() {
        assert!(violation.to_string().chars().any(|c| c.is_ascii_digit()), "{violation}");
    }
}
