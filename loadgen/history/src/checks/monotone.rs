//! Check 8: The ends that are told never fall in real time, cover all that was acked before they were asked for, and nothing that
//! was not sent yet (I10, R7).

use crate::findings::Findings;
use crate::history::Query;
use crate::index::{Acked, Index};
use crate::violation::Violation;

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    let mut asked: Vec<&Query> = index.history.queries.iter().collect();
    asked.sort_by_key(|query| query.invoke_us);
    told_never_falls(&asked, findings);
    let mut acks = index.acks.iter().peekable();
    let mut highest: Option<Acked> = None;
    for query in asked {
        while let Some(ack) = acks.next_if(|ack| ack.return_us < query.invoke_us) {
            if highest.is_none_or(|highest| highest.offset < ack.offset) {
                highest = Some(*ack);
            }
        }
        let (latest, asked_us, told_us) = (query.latest, query.invoke_us, query.return_us);
        if let Some(Acked { return_us, offset, op }) = highest.filter(|ack| ack.offset >= latest) {
            findings.add(Violation::EndBelowAck { latest, asked_us, op, offset, return_us });
        }
        if latest > index.end {
            findings.add(Violation::EndAboveLog { latest, told_us, end: index.end });
        }
        let last = latest.checked_sub(1).and_then(|last| index.at(last));
        if let Some((op, sent)) = last.and_then(|last| Some((last.op(), index.sent(last.op())?)))
            && sent.invoke_us > told_us
        {
            findings.add(Violation::EndAheadOfSend { latest, told_us, op, invoke_us: sent.invoke_us });
        }
    }
}

fn told_never_falls(asked: &[&Query], findings: &mut Findings) {
    let mut told = asked.to_vec();
    told.sort_by_key(|query| query.return_us);
    let mut told = told.into_iter().peekable();
    let (mut end, mut start): (Option<&Query>, Option<&Query>) = (None, None);
    for query in asked {
        while let Some(before) = told.next_if(|before| before.return_us < query.invoke_us) {
            end = end.filter(|end| end.latest >= before.latest).or(Some(before));
            start = start.filter(|start| start.earliest >= before.earliest).or(Some(before));
        }
        if let Some(before) = end.filter(|before| before.latest > query.latest) {
            findings.add(Violation::EndFell {
                latest: before.latest,
                told_us: before.return_us,
                later_latest: query.latest,
                asked_us: query.invoke_us,
            });
        }
        if let Some(before) = start.filter(|before| before.earliest > query.earliest) {
            findings.add(Violation::StartFell {
                earliest: before.earliest,
                told_us: before.return_us,
                later_earliest: query.earliest,
                asked_us: query.invoke_us,
            });
        }
    }
}
