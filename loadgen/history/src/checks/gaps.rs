//! Check 10: Every call ends, in time; no silence is longer than its bound while something waits; every tail gets to the end of
//! the log (L1, L2). How long a boundary may be felt is judged by `loadgen roll`, which has placebo windows to compare with.

use crate::findings::Findings;
use crate::history::{Fault, Op, Outcome, Tail};
use crate::index::Index;
use crate::limits::Limits;
use crate::verdict::Silences;
use crate::violation::{Source, Violation};

pub fn check(index: &Index<'_>, limits: &Limits, findings: &mut Findings) -> Silences {
    outcomes(index, limits, findings);
    let mut silences = Silences::default();
    acks(index, limits, &mut silences, findings);
    for tail in &index.history.tails {
        deliveries(index, tail, limits, &mut silences, findings);
        let reached = tail.readings.iter().map(|reading| reading.end()).max().unwrap_or(0);
        if reached < index.end {
            findings.add(Violation::Behind { source: Source::Tail(tail.client), reached, end: index.end });
        }
    }
    silences
}

fn outcomes(index: &Index<'_>, limits: &Limits, findings: &mut Findings) {
    for session in &index.history.sessions {
        let bound_us = session.deadline_us.zip(limits.lateness_us).map(|(deadline, late)| deadline + late);
        for append in &session.appends {
            let op = Op { client: session.client, sequence: append.sequence };
            let took_us = append.return_us.saturating_sub(append.invoke_us);
            match (append.outcome, bound_us) {
                (Outcome::Open, _) => findings.add(Violation::Unanswered { op, invoke_us: append.invoke_us }),
                (_, Some(bound_us)) if took_us > bound_us => {
                    findings.add(Violation::Late { op, took_us, bound_us });
                }
                (Outcome::Acked { .. } | Outcome::Failed | Outcome::Indeterminate, _) => {}
            }
        }
    }
}

/// A silence from the later of the ack before and the sending of the record whose ack ends it.
fn acks(index: &Index<'_>, limits: &Limits, silences: &mut Silences, findings: &mut Findings) {
    let mut before_us = 0;
    for ack in &index.acks {
        let sent_us = index.sent(ack.op).map_or(ack.return_us, |append| append.invoke_us);
        let silence = Silent { source: Source::Ack, from_us: sent_us.max(before_us), until_us: ack.return_us };
        let faults = &index.history.faults;
        silence.note(faults, limits, &mut silences.ack_us, &mut silences.fault_ack_us, findings);
        before_us = ack.return_us;
    }
}

/// A silence from the later of the delivery before and the ack of the record that ends it.
fn deliveries(index: &Index<'_>, tail: &Tail, limits: &Limits, silences: &mut Silences, findings: &mut Findings) {
    let mut before_us = 0;
    for reading in &tail.readings {
        before_us = reading.opened_us.max(before_us);
        for delivery in &reading.deliveries {
            let acked = index.sent(delivery.op()).filter(|append| append.acked().is_some());
            if let Some(append) = acked {
                let silence = Silent {
                    source: Source::Tail(tail.client),
                    from_us: append.return_us.max(before_us),
                    until_us: delivery.at_us,
                };
                let faults = &index.history.faults;
                silence.note(faults, limits, &mut silences.delivery_us, &mut silences.fault_delivery_us, findings);
            }
            before_us = delivery.at_us;
        }
    }
}

struct Silent {
    source: Source,
    from_us: u64,
    until_us: u64,
}

impl Silent {
    fn note(&self, faults: &[Fault], limits: &Limits, calm: &mut u64, faulty: &mut u64, findings: &mut Findings) {
        let Silent { source, from_us, until_us } = *self;
        let took_us = until_us.saturating_sub(from_us);
        let in_fault = faults.iter().any(|fault| from_us <= fault.until_us && until_us >= fault.from_us);
        let (longest, bound) = if in_fault { (faulty, limits.fault_silence_us) } else { (calm, limits.silence_us) };
        *longest = took_us.max(*longest);
        if let Some(bound_us) = bound.filter(|bound| took_us > *bound) {
            findings.add(Violation::Silence { source, from_us, until_us, bound_us });
        }
    }
}
