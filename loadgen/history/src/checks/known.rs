//! Check 5: What is read was sent, as it was sent, and is there once; what certainly failed is not there (I14, I20, R9).

use super::readers;
use crate::findings::Findings;
use crate::history::Outcome;
use crate::index::Index;
use crate::violation::{Source, Violation};

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    for (source, delivery) in readers(index.history) {
        let held = index.at(delivery.offset);
        let told_already = held.is_some_and(|held| (held.op(), held.hash) == (delivery.op(), delivery.hash));
        if source != Source::FinalRead && told_already {
            continue;
        }
        let (offset, op) = (delivery.offset, delivery.op());
        let Some(sent) = index.sent(op) else {
            findings.add(Violation::Phantom { source, offset, op, hash: delivery.hash });
            continue;
        };
        if sent.hash != delivery.hash {
            let (sent_hash, read_hash) = (sent.hash, delivery.hash);
            findings.add(Violation::Altered { source, offset, op, sent_hash, read_hash });
        }
        if sent.outcome == Outcome::Failed {
            findings.add(Violation::FailedButThere { op, offset });
        }
    }
    for delivery in index.log() {
        let op = delivery.op();
        // An acked record belongs where it was acked, any other where it is first.
        let acked = index.sent(op).and_then(|append| append.acked());
        let Some(belongs) = acked.filter(|at| index.at(*at).is_some_and(|held| held.op() == op)).or(index.place_of(op))
        else {
            continue;
        };
        if belongs != delivery.offset {
            findings.add(Violation::Twice { op, offset: belongs, again: delivery.offset });
        }
    }
}
