//! Check 2: What was acked before another was sent lies before it (I15).

use crate::findings::Findings;
use crate::index::{Acked, Index};
use crate::violation::Violation;

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    let mut returned = index.acks.iter().peekable();
    let mut highest: Option<Acked> = None;
    for (invoke_us, later, later_offset) in index.placed_appends() {
        while let Some(ack) = returned.next_if(|ack| ack.return_us < invoke_us) {
            if highest.is_none_or(|highest| highest.offset < ack.offset) {
                highest = Some(*ack);
            }
        }
        if let Some(ack) = highest.filter(|ack| ack.offset >= later_offset) {
            findings.add(Violation::Overtaken {
                acked: ack.op,
                acked_offset: ack.offset,
                return_us: ack.return_us,
                later,
                later_offset,
                invoke_us,
            });
        }
    }
}
