//! Check 1: An offset has one content: acks, tails and the final read agree (I3, R2, R7).

use super::readers;
use crate::findings::Findings;
use crate::index::Index;
use crate::violation::{Source, Violation, Witness};

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    // What the log does not hold is compared among those who tell it.
    let mut beyond: Vec<(u64, Witness)> = Vec::new();
    let mut compare = |offset: u64, told: Witness| match index.at(offset) {
        Some(held) if (held.op(), held.hash) == (told.op, told.hash) => {}
        Some(held) => {
            let first = Witness { source: Source::FinalRead, op: held.op(), hash: held.hash };
            findings.add(Violation::TwoContents { offset, first, second: told });
        }
        None => beyond.push((offset, told)),
    };
    for ack in &index.acks {
        let hash = index.sent(ack.op).map_or(0, |append| append.hash);
        compare(ack.offset, Witness { source: Source::Ack, op: ack.op, hash });
    }
    for (source, delivery) in readers(index.history) {
        compare(delivery.offset, Witness { source, op: delivery.op(), hash: delivery.hash });
    }
    beyond.sort_by_key(|(offset, _)| *offset);
    for pair in beyond.windows(2) {
        let [(offset, first), (again, second)] = [pair[0], pair[1]];
        if offset == again && (first.op, first.hash) != (second.op, second.hash) {
            findings.add(Violation::TwoContents { offset, first, second });
        }
    }
}
