//! Any small change to a correct history is found, by the check that is there for it, wherever it happens.

mod common;

use common::{STEP_US, good, judge, told};
use proptest::prelude::*;
use proptest::sample::Index;
use seam_history::{Append, Check, Delivery, History, Outcome, Reading};

/// One change. The indices pick where.
#[derive(Clone, Debug)]
enum Mutation {
    /// A record is gone from the final read.
    DropFromLog(Index),
    /// A record is gone from a tail.
    DropFromTail(Index),
    /// A tail gets a record twice.
    Repeat(Index),
    /// Two neighbours come to a tail the wrong way round.
    SwapInTail(Index),
    /// Two neighbours of the log trade places.
    SwapInLog(Index),
    /// A record was acked at another offset.
    MoveAck(Index, u64),
    /// An ack for what certainly or perhaps was not written.
    Promise(Index),
    /// A record that is there is said to have failed.
    Deny(Index),
    /// A record of the log has another content.
    Alter(Index, u32),
    /// A record is written again at the end.
    WriteAgain(Index),
    /// The end of the log is cut.
    Cut(Index),
    /// A segment ends elsewhere.
    MoveBoundary(Index, bool),
    /// An end that was told is lower.
    LowerEnd(Index),
    /// A record comes to a tail before it was sent.
    Foresee(Index),
}

fn mutations() -> impl Strategy<Value = Mutation> {
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(Mutation::DropFromLog),
        at().prop_map(Mutation::DropFromTail),
        at().prop_map(Mutation::Repeat),
        at().prop_map(Mutation::SwapInTail),
        at().prop_map(Mutation::SwapInLog),
        (at(), 1..50u64).prop_map(|(at, by)| Mutation::MoveAck(at, by)),
        at().prop_map(Mutation::Promise),
        at().prop_map(Mutation::Deny),
        (at(), 1..u32::MAX).prop_map(|(at, by)| Mutation::Alter(at, by)),
        at().prop_map(Mutation::WriteAgain),
        at().prop_map(Mutation::Cut),
        (at(), any::<bool>()).prop_map(|(at, up)| Mutation::MoveBoundary(at, up)),
        at().prop_map(Mutation::LowerEnd),
        at().prop_map(Mutation::Foresee),
    ]
}

fn appends(history: &mut History, wanted: impl Fn(&Outcome) -> bool) -> Vec<&mut Append> {
    let all = history.sessions.iter_mut().flat_map(|session| &mut session.appends);
    all.filter(|append| wanted(&append.outcome)).collect()
}

fn is_acked(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Acked { .. })
}

/// Any of the deliveries, but for the `spared` last.
fn pick(reading: &Reading, at: &Index, spared: usize) -> usize {
    at.index(reading.deliveries.len() - spared)
}

/// Carries the change out; the check that must object.
fn mutate(history: &mut History, mutation: &Mutation) -> Check {
    let tail = &mut history.tails[0].readings[0];
    let log = &mut history.final_read;
    match mutation {
        Mutation::DropFromLog(at) => {
            let acked: Vec<u64> = appends(history, is_acked).iter().filter_map(|append| append.acked()).collect();
            let offset = acked[at.index(acked.len())];
            history.final_read.deliveries.remove(offset as usize);
            return Check::Present;
        }
        Mutation::DropFromTail(at) => drop(tail.deliveries.remove(pick(tail, at, 1)).offset),
        Mutation::Repeat(at) => {
            let at = pick(tail, at, 0);
            tail.deliveries.insert(at, tail.deliveries[at]);
        }
        Mutation::SwapInTail(at) => {
            let at = pick(tail, at, 1);
            tail.deliveries.swap(at, at + 1);
        }
        Mutation::SwapInLog(at) => {
            let at = pick(log, at, 1);
            let (a, b) = (log.deliveries[at], log.deliveries[at + 1]);
            log.deliveries[at] = Delivery { offset: a.offset, ..b };
            log.deliveries[at + 1] = Delivery { offset: b.offset, ..a };
            return Check::Content;
        }
        Mutation::MoveAck(at, by) => {
            let mut acked = appends(history, is_acked);
            let at = at.index(acked.len());
            let offset = acked[at].acked().expect("acked") + by;
            acked[at].outcome = Outcome::Acked { offset };
            return Check::Present;
        }
        Mutation::Promise(at) => {
            let end = history.final_read.end();
            let mut failed = appends(history, |outcome| *outcome == Outcome::Failed);
            let at = at.index(failed.len());
            failed[at].outcome = Outcome::Acked { offset: end };
            return Check::Present;
        }
        Mutation::Deny(at) => {
            let mut acked = appends(history, is_acked);
            let at = at.index(acked.len());
            acked[at].outcome = Outcome::Failed;
            return Check::Known;
        }
        Mutation::Alter(at, by) => {
            let at = pick(log, at, 0);
            log.deliveries[at].hash ^= by;
            return Check::Known;
        }
        Mutation::WriteAgain(at) => {
            let again = Delivery { offset: log.end(), ..log.deliveries[pick(log, at, 0)] };
            log.deliveries.push(again);
            return Check::Known;
        }
        Mutation::Cut(at) => {
            let keep = pick(log, at, 5);
            log.deliveries.truncate(keep);
            return Check::Present;
        }
        Mutation::MoveBoundary(at, up) => {
            let sealed: Vec<usize> = {
                let segments = history.chains[2].segments.iter().enumerate();
                segments.filter(|(_, segment)| segment.end.is_some()).map(|(n, _)| n).collect()
            };
            let at = sealed[at.index(sealed.len())];
            let end = &mut history.chains[2].segments[at].end;
            *end = end.map(|end| if *up { end + 1 } else { end - 1 });
            return Check::Chain;
        }
        Mutation::LowerEnd(at) => {
            // The first was told of an empty log. By three, since the last before it may have had no ack.
            let at = 1 + at.index(history.queries.len() - 1);
            history.queries[at].latest -= 3;
            return Check::Monotone;
        }
        Mutation::Foresee(at) => {
            let at = pick(tail, at, 0);
            tail.deliveries[at].at_us = tail.deliveries[at].at_us.saturating_sub(3 * STEP_US);
            return Check::Committed;
        }
    }
    Check::Contiguous
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_mutation_is_found_by_its_check(records in 120..600u64, mutation in mutations()) {
        let mut history = good(records);
        let check = mutate(&mut history, &mutation);
        let verdict = judge(&history);
        prop_assert!(verdict.findings.count(check) > 0, "{mutation:?} wants {check:?}: {}", told(&verdict));
        prop_assert!(!verdict.holds());
    }

    /// Records in doubt may or may not be there: nothing else of a good history changes with them.
    #[test]
    fn doubt_excuses_what_is_missing_but_not_what_is_wrong(records in 120..400u64, at in any::<Index>()) {
        let mut history = good(records);
        let mut acked = appends(&mut history, is_acked);
        let at = at.index(acked.len());
        acked[at].outcome = Outcome::Indeterminate;
        let verdict = judge(&history);
        prop_assert!(verdict.holds(), "{}", told(&verdict));
    }

    #[test]
    fn a_good_history_of_any_length_holds(records in 120..800u64) {
        let verdict = judge(&good(records));
        prop_assert!(verdict.holds(), "{}", told(&verdict));
    }
}

/// No check is quadratic: one that were would take hours.
#[test]
fn a_long_history_is_judged_in_one_go() {
    let verdict = judge(&good(300_000));
    assert!(verdict.holds(), "{}", told(&verdict));
}
