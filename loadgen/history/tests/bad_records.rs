//! For checks 1 to 5 the histories they must catch, told by the evidence.

mod common;

use common::{STEP_US, append_at, good, has, judge, limits, log, spoiled, told};
use seam_history::{Check, Delivery, FOREIGN, History, Limits, Op, Outcome, Query, Source, Violation, check};

#[test]
fn content_1_a_tail_was_given_something_else() {
    let verdict = spoiled(&[Check::Content, Check::Known], |history| {
        history.tails[0].readings[0].deliveries[50].hash ^= 1;
    });
    has(&verdict, |v| {
        matches!(v, Violation::TwoContents { offset: 50, first, second }
        if first.source == Source::FinalRead && second.source == Source::Tail(1))
    });
    has(&verdict, |v| matches!(v, Violation::Altered { source: Source::Tail(1), offset: 50, .. }));
}

#[test]
fn content_1_one_offset_was_acked_twice() {
    let verdict = spoiled(
        &[Check::Content, Check::RealTime, Check::Session, Check::Present, Check::Known, Check::Monotone],
        |history| {
            let (session, at) = append_at(history, 200);
            history.sessions[session].appends[at].outcome = Outcome::Acked { offset: 50 };
            let query = Query { client: 9, invoke_us: 1 << 30, return_us: 1 << 30, earliest: 0, latest: 40 };
            history.queries.push(query);
            history.tails.clear();
            log(history)[200].hash ^= 1;
        },
    );
    has(&verdict, |v| matches!(v, Violation::TwoContents { offset: 50, second, .. } if second.source == Source::Ack));
}

#[test]
fn content_1_beyond_the_log_witnesses_are_compared_with_each_other() {
    let objecting = [Check::Content, Check::Present, Check::Known, Check::Committed];
    let verdict = spoiled(&objecting, |history| {
        log(history).truncate(281);
        let tail = &mut history.tails[0].readings[0].deliveries;
        tail[283].hash ^= 1;
        // Two records of two producers at one offset, by their acks.
        let op = tail[284].op();
        history.sessions[op.client as usize - 1].appends[op.sequence as usize].outcome = Outcome::Acked { offset: 285 };
    });
    let not_log = |v: &Violation, at: u64| {
        matches!(v, Violation::TwoContents { offset, first, second }
        if *offset == at && first.source != Source::FinalRead && second.source != Source::FinalRead)
    };
    has(&verdict, |v| not_log(v, 283));
    has(&verdict, |v| not_log(v, 285));
}

#[test]
fn real_time_2_a_record_lies_before_one_that_was_acked_before_it_was_sent() {
    // 60 and 67 are of different producers, 7 ms apart: each other's places.
    let verdict = spoiled(&[Check::RealTime, Check::Session, Check::Committed, Check::Monotone], |history| {
        swap_places(history, 60, 67);
        history.queries.push(Query {
            client: 9,
            invoke_us: 61 * STEP_US,
            return_us: 62 * STEP_US,
            earliest: 0,
            latest: 61,
        });
    });
    has(&verdict, |v| matches!(v, Violation::Overtaken { later_offset: 60, acked_offset: 61.., .. }));
}

/// Two records trade places everywhere: in acks, tails and the log.
fn swap_places(history: &mut History, a: u64, b: u64) {
    let (first, second) = (append_at(history, a), append_at(history, b));
    history.sessions[first.0].appends[first.1].outcome = Outcome::Acked { offset: b };
    history.sessions[second.0].appends[second.1].outcome = Outcome::Acked { offset: a };
    let readings = history.tails.iter_mut().flat_map(|tail| &mut tail.readings);
    for reading in readings.chain([&mut history.final_read]) {
        let at = |offset: u64, reading: &seam_history::Reading| {
            reading.deliveries.iter().position(|delivery| delivery.offset == offset)
        };
        if let (Some(a), Some(b)) = (at(a, reading), at(b, reading)) {
            let (x, y) = (reading.deliveries[a], reading.deliveries[b]);
            reading.deliveries[a] = Delivery { offset: x.offset, at_us: x.at_us, ..y };
            reading.deliveries[b] = Delivery { offset: y.offset, at_us: y.at_us, ..x };
        }
    }
}

#[test]
fn real_time_2_a_record_in_doubt_is_no_exception() {
    let mut history = good(310);
    let doubtful = |delivery: &Delivery, history: &History| {
        let append = history.sessions[delivery.client as usize - 1].appends[delivery.sequence as usize];
        append.outcome == Outcome::Indeterminate && delivery.offset > 100
    };
    let place = history.final_read.deliveries.iter().position(|d| doubtful(d, &history)).expect("there is one");
    let op = history.final_read.deliveries[place].op();
    swap_in_log(&mut history, place, 0);
    has(&judge(&history), |v| matches!(v, Violation::Overtaken { later, later_offset: 0, .. } if *later == op));
}

fn swap_in_log(history: &mut History, a: usize, b: usize) {
    let log = log(history);
    let (x, y) = (log[a], log[b]);
    log[a] = Delivery { offset: x.offset, ..y };
    log[b] = Delivery { offset: y.offset, ..x };
}

#[test]
fn session_3_two_records_of_a_producer_are_the_wrong_way_round() {
    let mut history = good(310);
    // Sent at one time, so that real time says nothing.
    history.sessions.iter_mut().flat_map(|s| &mut s.appends).for_each(|append| append.invoke_us = STEP_US);
    history.queries.iter_mut().for_each(|query| query.latest = 0);
    history.queries.iter_mut().for_each(|query| query.invoke_us = 0);
    let bounds = Limits { lateness_us: None, silence_us: None, fault_silence_us: None, ..limits() };
    assert!(check(&history, &bounds).holds(), "{}", told(&check(&history, &bounds)));
    swap_places(&mut history, 60, 63);
    let verdict = check(&history, &bounds);
    assert_eq!(verdict.findings.count(Check::Session), verdict.findings.total(), "{}", told(&verdict));
    has(&verdict, |v| matches!(v, Violation::OutOfOrder { source: Source::Ack, .. }));
    has(&verdict, |v| matches!(v, Violation::OutOfOrder { source: Source::FinalRead, earlier_offset: 63, .. }));
}

#[test]
fn session_3_the_log_alone_shows_it_for_records_without_an_ack() {
    let mut history = good(310);
    history.sessions.iter_mut().flat_map(|s| &mut s.appends).for_each(|append| {
        append.invoke_us = STEP_US;
        append.outcome = Outcome::Indeterminate;
    });
    history.queries.clear();
    history.tails.clear();
    swap_in_log(&mut history, 60, 63);
    let verdict = check(&history, &Limits::default());
    assert_eq!(verdict.findings.count(Check::Session), verdict.findings.total(), "{}", told(&verdict));
    assert_eq!(verdict.findings.total(), 1);
}

#[test]
fn present_4_the_end_of_the_log_is_cut() {
    let verdict = spoiled(&[Check::Present, Check::Committed], |history| {
        let cut = log(history).len() - 5;
        log(history).truncate(cut);
    });
    assert_eq!(verdict.findings.count(Check::Present), 5);
    has(&verdict, |v| matches!(v, Violation::Lost { instead: None, .. }));
}

#[test]
fn present_4_another_record_is_where_it_was_acked() {
    let verdict = spoiled(&[Check::Content, Check::Present, Check::Known], |history| {
        let other = log(history)[10];
        let held = &mut log(history)[150];
        *held = Delivery { sequence: other.sequence, client: other.client, hash: other.hash, ..*held };
        // And one in the acks alone.
        let (session, at) = append_at(history, 100);
        history.sessions[session].appends[at].outcome = Outcome::Acked { offset: 99 };
    });
    has(&verdict, |v| matches!(v, Violation::Lost { offset: 150, instead: Some(_), .. }));
    has(&verdict, |v| matches!(v, Violation::Twice { offset: 10, again: 150, .. }));
}

#[test]
fn known_5_a_record_that_nobody_sent() {
    for foreign in
        [Op { client: FOREIGN, sequence: 0 }, Op { client: 2, sequence: 9_999 }, Op { client: 77, sequence: 0 }]
    {
        let verdict = spoiled(&[Check::Known], |history| {
            let end = log(history).len() as u64;
            for reading in everywhere(history) {
                let at_us = 1 << 30;
                let Op { client, sequence } = foreign;
                reading.deliveries.push(Delivery { offset: end, at_us, sequence, client, hash: 7 });
            }
        });
        has(&verdict, |v| matches!(v, Violation::Phantom { op, .. } if *op == foreign));
    }
}

/// The readings that reach the end.
fn everywhere(history: &mut History) -> impl Iterator<Item = &mut seam_history::Reading> {
    let tails = history.tails.iter_mut().filter_map(|tail| tail.readings.last_mut());
    tails.chain([&mut history.final_read])
}

#[test]
fn known_5_content_differs_from_what_was_sent() {
    let verdict = spoiled(&[Check::Content, Check::Present, Check::Known], |history| {
        for reading in history.tails.iter_mut().flat_map(|t| &mut t.readings).chain([&mut history.final_read]) {
            reading.deliveries.iter_mut().filter(|d| d.offset == 33).for_each(|d| d.hash ^= 0x80);
        }
    });
    assert_eq!(verdict.findings.count(Check::Known), 1, "told once: {}", told(&verdict));
    has(&verdict, |v| matches!(v, Violation::Altered { source: Source::FinalRead, offset: 33, .. }));
}

#[test]
fn known_5_a_retry_was_written_again() {
    let verdict = spoiled(&[Check::Known], |history| {
        let end = log(history).len() as u64;
        let last = log(history)[end as usize - 1];
        everywhere(history).for_each(|reading| reading.deliveries.push(Delivery { offset: end, ..last }));
    });
    let end = verdict.figures.end;
    has(&verdict, |v| matches!(v, Violation::Twice { offset, again, .. } if *offset == end - 2 && *again == end - 1));
}

#[test]
fn known_5_an_append_in_doubt_was_written_twice() {
    let verdict = spoiled(&[Check::Known], |history| {
        let doubtful = history.sessions.iter().find_map(|session| {
            let append = session.appends.iter().rfind(|append| append.outcome == Outcome::Indeterminate)?;
            Some((Op { client: session.client, sequence: append.sequence }, append.hash))
        });
        let (Op { client, sequence }, hash) = doubtful.expect("there is one");
        let end = log(history).len() as u64;
        for (n, at_us) in [(0, 1 << 30), (1, 1 << 31)] {
            let copy = Delivery { offset: end + n, at_us, sequence, client, hash };
            everywhere(history).for_each(|reading| reading.deliveries.push(copy));
        }
        // The session's order is a matter of its own check.
        let session = &mut history.sessions[client as usize - 1];
        session.appends.truncate(sequence as usize + 1);
        let beyond = |delivery: &Delivery| delivery.client == client && delivery.sequence > sequence;
        let cut = log(history).iter().position(beyond).unwrap_or(usize::MAX);
        assert!(cut < usize::MAX);
        for reading in history.tails.iter_mut().flat_map(|t| &mut t.readings).chain([&mut history.final_read]) {
            let foreign = reading.deliveries.iter_mut().filter(|d| beyond(d));
            foreign.for_each(|d| (d.client, d.sequence, d.hash) = (FOREIGN, 0, 1));
        }
    });
    has(&verdict, |v| matches!(v, Violation::Twice { .. }));
}

#[test]
fn known_5_a_definite_failure_is_there() {
    let verdict = spoiled(&[Check::Known], |history| {
        let (session, at) = append_at(history, 120);
        history.sessions[session].appends[at].outcome = Outcome::Failed;
    });
    has(&verdict, |v| matches!(v, Violation::FailedButThere { offset: 120, .. }));
}
