//! Check 4: What was acked is in the final read, at its offset, unchanged (I1, I8, R1).

use crate::findings::Findings;
use crate::history::Op;
use crate::index::Index;
use crate::violation::Violation;

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    for session in &index.history.sessions {
        for append in &session.appends {
            // Below the start is what retention took away.
            let Some(offset) = append.acked().filter(|offset| *offset >= index.start) else { continue };
            let op = Op { client: session.client, sequence: append.sequence };
            match index.at(offset) {
                Some(held) if held.op() == op && held.hash == append.hash => {}
                held => findings.add(Violation::Lost { op, offset, instead: held.map(|held| held.op()) }),
            }
        }
    }
}
