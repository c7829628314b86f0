//! Check 7: Nothing is read before it was sent, nor what is later taken back: by the final read, or by an end that is told
//! afterwards (I10, R6, R7).

use super::readers;
use crate::findings::Findings;
use crate::history::{Delivery, Query, Tail};
use crate::index::Index;
use crate::violation::{Source, Violation};

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    for (source, delivery) in readers(index.history) {
        let (op, offset) = (delivery.op(), delivery.offset);
        if let Some(sent) = index.sent(op).filter(|sent| sent.invoke_us > delivery.at_us) {
            let (read_us, invoke_us) = (delivery.at_us, sent.invoke_us);
            findings.add(Violation::ReadBeforeSent { source, op, offset, read_us, invoke_us });
        }
        if offset >= index.end {
            findings.add(Violation::TakenBack { source, op, offset, end: index.end });
        }
    }
    let mut queries: Vec<&Query> = index.history.queries.iter().collect();
    queries.sort_by_key(|query| query.invoke_us);
    for tail in &index.history.tails {
        below_what_was_read(tail, &queries, findings);
    }
}

fn below_what_was_read(tail: &Tail, queries: &[&Query], findings: &mut Findings) {
    let mut deliveries = tail.deliveries().peekable();
    let mut highest: Option<&Delivery> = None;
    for query in queries {
        while let Some(delivery) = deliveries.next_if(|delivery| delivery.at_us < query.invoke_us) {
            if highest.is_none_or(|highest| highest.offset < delivery.offset) {
                highest = Some(delivery);
            }
        }
        if let Some(read) = highest.filter(|read| read.offset >= query.latest) {
            findings.add(Violation::EndBelowRead {
                latest: query.latest,
                asked_us: query.invoke_us,
                source: Source::Tail(tail.client),
                offset: read.offset,
                read_us: read.at_us,
            });
        }
    }
}
