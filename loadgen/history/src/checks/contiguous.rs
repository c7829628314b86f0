//! Check 6: A reader gets every offset from its start on, once, in order; opened again, it goes on after the last (I11, R6).

use crate::findings::Findings;
use crate::history::Reading;
use crate::index::Index;
use crate::violation::{Source, Violation};

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    for tail in &index.history.tails {
        let source = Source::Tail(tail.client);
        let mut expected = None;
        for reading in &tail.readings {
            if let Some(expected) = expected.filter(|expected| *expected != reading.from) {
                findings.add(Violation::ResumedElsewhere { source, expected, from: reading.from });
            }
            expected = Some(follow(source, reading, findings));
        }
    }
    follow(Source::FinalRead, &index.history.final_read, findings);
}

/// The offset that is due next.
fn follow(source: Source, reading: &Reading, findings: &mut Findings) -> u64 {
    let mut expected = reading.from;
    for delivery in &reading.deliveries {
        let found = delivery.offset;
        if found > expected {
            findings.add(Violation::Missing { source, expected, found });
        } else if found < expected {
            findings.add(Violation::Repeated { source, expected, found });
        }
        expected = expected.max(found + 1);
    }
    expected
}
