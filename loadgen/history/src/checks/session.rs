//! Check 3: The records of one producer lie in the order in which it sent them, by its acks and by the log, those without an ack
//! too (I15).

use crate::findings::Findings;
use crate::history::Op;
use crate::index::Index;
use crate::violation::{Source, Violation};
use std::collections::BTreeMap;

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    for session in &index.history.sessions {
        let mut highest: Option<(Op, u64)> = None;
        for append in &session.appends {
            let Some(offset) = append.acked() else { continue };
            let later = Op { client: session.client, sequence: append.sequence };
            match highest {
                Some((earlier, earlier_offset)) if earlier_offset >= offset => {
                    let source = Source::Ack;
                    findings.add(Violation::OutOfOrder {
                        source,
                        earlier,
                        earlier_offset,
                        later,
                        later_offset: offset,
                    });
                }
                Some(_) | None => highest = Some((later, offset)),
            }
        }
    }
    let mut newest: BTreeMap<u32, (Op, u64)> = BTreeMap::new();
    for delivery in index.log() {
        let op = delivery.op();
        // A second copy is a matter of check 5.
        if index.sent(op).is_none() || index.place_of(op) != Some(delivery.offset) {
            continue;
        }
        match newest.get(&op.client) {
            Some((later, later_offset)) if later.sequence > op.sequence => {
                findings.add(Violation::OutOfOrder {
                    source: Source::FinalRead,
                    earlier: op,
                    earlier_offset: delivery.offset,
                    later: *later,
                    later_offset: *later_offset,
                });
            }
            Some(_) | None => drop(newest.insert(op.client, (op, delivery.offset))),
        }
    }
}
