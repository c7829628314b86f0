//! A history as a correct log gives it, with everything in it that the checks look at: three producers whose appends overlap,
//! failures of both kinds, a tail that was opened again and one that was not, questions, a chain that grows, a fault.
#![allow(dead_code, reason = "each test binary uses its part")]

use seam_history::{
    Append, Chain, Check, Delivery, Fault, History, Limits, Op, Outcome, Query, Reading, Segment, Session, Tail,
    Verdict, Violation,
};

pub const STEP_US: u64 = 1_000;
pub const CLIENTS: u32 = 3;
pub const SEGMENT_RECORDS: u64 = 40;

pub fn hash_of(op: Op) -> u32 {
    (op.client * 7_919) ^ (op.sequence as u32).wrapping_mul(2_654_435_761)
}

/// `records` are sent, one a millisecond; each has its outcome 1.5 ms later.
pub fn good(records: u64) -> History {
    let mut sessions: Vec<Session> = (1..=CLIENTS)
        .map(|client| Session { client, deadline_us: Some(STEP_US * 3 / 2), appends: Vec::new() })
        .collect();
    let mut log: Vec<(Delivery, u64)> = Vec::new();
    for n in 0..records {
        let session = &mut sessions[(n % u64::from(CLIENTS)) as usize];
        let op = Op { client: session.client, sequence: session.appends.len() as u64 };
        let invoke_us = STEP_US * (n + 1);
        let return_us = invoke_us + STEP_US * 3 / 2;
        let offset = log.len() as u64;
        let (outcome, is_there) = match n % 29 {
            13 => (Outcome::Failed, false),
            17 => (Outcome::Indeterminate, false),
            23 => (Outcome::Indeterminate, true),
            _ => (Outcome::Acked { offset }, true),
        };
        session.appends.push(Append { sequence: op.sequence, invoke_us, return_us, hash: hash_of(op), outcome });
        if is_there {
            let at_us = return_us + 300;
            let delivery = Delivery { offset, at_us, sequence: op.sequence, client: op.client, hash: hash_of(op) };
            log.push((delivery, return_us));
        }
    }
    let end = log.len() as u64;
    let over_us = STEP_US * (records + 10);
    let all: Vec<Delivery> = log.iter().map(|(delivery, _)| *delivery).collect();
    let late = |delivery: &Delivery| Delivery { at_us: over_us + delivery.offset, ..*delivery };
    let half = (end / 2) as usize;
    let mut queries: Vec<Query> = Vec::new();
    for n in (0..records).step_by(20) {
        let invoke_us = STEP_US * (n + 1) + 700;
        let latest = log.partition_point(|(_, return_us)| *return_us <= invoke_us) as u64;
        queries.push(Query { client: 9, invoke_us, return_us: invoke_us + 200, earliest: 0, latest });
    }
    let chains = [end / 3, end * 2 / 3, end].map(|upto| chain(upto, STEP_US * (upto + 1)));
    History {
        sessions,
        tails: vec![
            Tail { client: 1, readings: vec![Reading { from: 0, opened_us: 0, deliveries: all.clone() }] },
            Tail {
                client: 2,
                readings: vec![
                    Reading { from: 0, opened_us: 0, deliveries: all[..half].to_vec() },
                    Reading { from: half as u64, opened_us: all[half].at_us, deliveries: all[half..].to_vec() },
                ],
            },
        ],
        final_read: Reading { from: 0, opened_us: over_us, deliveries: all.iter().map(late).collect() },
        queries,
        chains: chains.into(),
        faults: vec![Fault { kind: "kill-primary".to_owned(), from_us: 9 * STEP_US, until_us: 20 * STEP_US }],
    }
}

/// The chain of a log of `end` records, told at `at_us`.
pub fn chain(end: u64, at_us: u64) -> Chain {
    let mut segments: Vec<Segment> = Vec::new();
    for n in 0..=end / SEGMENT_RECORDS {
        let start = n * SEGMENT_RECORDS;
        let decided = start + SEGMENT_RECORDS <= end;
        segments.push(Segment {
            id: 100 + n,
            start,
            end: decided.then_some(start + SEGMENT_RECORDS),
            next: decided.then_some(101 + n),
        });
    }
    Chain { invoke_us: at_us, return_us: at_us + 100, segments }
}

pub fn limits() -> Limits {
    Limits {
        acks_min: 10,
        rolls_min: 1,
        faults_min: 1,
        crossings_min: 1,
        queries_min: 3,
        chains_min: 2,
        lateness_us: Some(STEP_US / 2),
        silence_us: Some(20 * STEP_US),
        fault_silence_us: Some(20 * STEP_US),
    }
}

pub fn judge(history: &History) -> Verdict {
    seam_history::check(history, &limits())
}

/// What was found, in words, for messages.
pub fn told(verdict: &Verdict) -> String {
    let lines: Vec<String> = verdict.findings.kept().iter().map(|v| format!("{:?}: {v}", v.check())).collect();
    format!("{}\nvacuous: {:?}", lines.join("\n"), verdict.vacuous)
}

/// Judges a good history after `spoil`; exactly the checks named must object.
pub fn spoiled(checks: &[Check], spoil: impl FnOnce(&mut History)) -> Verdict {
    let mut history = good(310);
    spoil(&mut history);
    let verdict = judge(&history);
    let objecting: Vec<Check> = Check::ALL.into_iter().filter(|c| verdict.findings.count(*c) > 0).collect();
    assert_eq!(objecting, checks, "{}", told(&verdict));
    verdict
}

pub fn has(verdict: &Verdict, wanted: impl Fn(&Violation) -> bool) {
    assert!(verdict.findings.kept().iter().any(wanted), "{}", told(verdict));
}

pub fn log(history: &mut History) -> &mut Vec<Delivery> {
    &mut history.final_read.deliveries
}

/// The session and position of the append that lies at `offset`.
pub fn append_at(history: &History, offset: u64) -> (usize, usize) {
    let op = history.final_read.deliveries[offset as usize].op();
    (op.client as usize - 1, op.sequence as usize)
}
