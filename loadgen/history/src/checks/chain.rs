//! Check 9: The chain as metad tells it: every segment starts where the one before ends, what is decided stays, segments leave only
//! from the front, and every acked record lies in one (I4, I6, R3, R5).

use crate::findings::Findings;
use crate::history::{Chain, Segment};
use crate::index::Index;
use crate::violation::Violation;
use std::collections::BTreeMap;

pub fn check(index: &Index<'_>, findings: &mut Findings) {
    let mut told: Vec<&Chain> = index.history.chains.iter().collect();
    told.sort_by_key(|chain| chain.return_us);
    told.iter().for_each(|chain| continuous(chain, findings));
    for pair in told.windows(2) {
        // Those that were asked for at one time may be of any order.
        if pair[0].return_us < pair[1].invoke_us {
            only_grew(pair[0], pair[1], findings);
        }
    }
    if let Some(last) = told.last() {
        holds_everything(last, index, findings);
    }
}

fn continuous(chain: &Chain, findings: &mut Findings) {
    for pair in chain.segments.windows(2) {
        let [before, after] = [pair[0], pair[1]];
        if before.end != Some(after.start) || before.next != Some(after.id) {
            findings.add(Violation::ChainBroken {
                segment: before.id,
                end: before.end,
                next: before.next,
                following: after.id,
                start: after.start,
            });
        }
    }
    for Segment { id, start, end, next: _ } in &chain.segments {
        if let Some(end) = end.filter(|end| end < start) {
            findings.add(Violation::SegmentInverted { segment: *id, start: *start, end });
        }
    }
}

fn only_grew(before: &Chain, after: &Chain, findings: &mut Findings) {
    let now: BTreeMap<u64, &Segment> = after.segments.iter().map(|segment| (segment.id, segment)).collect();
    let start = after.segments.first().map_or(0, |first| first.start);
    for was in &before.segments {
        let Some(is) = now.get(&was.id) else {
            // Retention takes whole segments, oldest first.
            if was.end.is_none_or(|end| end > start) || after.segments.is_empty() {
                let (told_us, asked_us) = (before.return_us, after.invoke_us);
                findings.add(Violation::SegmentVanished { segment: was.id, told_us, asked_us });
            }
            continue;
        };
        let mut same = |what: &str, before: Option<u64>, after: Option<u64>| {
            if let Some(before) = before.filter(|_| before != after) {
                findings.add(Violation::SegmentChanged { segment: was.id, what: what.to_owned(), before, after });
            }
        };
        same("start", Some(was.start), Some(is.start));
        same("end", was.end, is.end);
        same("next", was.next, is.next);
    }
}

fn holds_everything(chain: &Chain, index: &Index<'_>, findings: &mut Findings) {
    let (Some(first), Some(head)) = (chain.segments.first(), chain.segments.last()) else { return };
    let (start, end) = (first.start, head.end.unwrap_or(u64::MAX));
    for ack in &index.acks {
        let is_trimmed = ack.offset < index.start;
        if !is_trimmed && !(start..end).contains(&ack.offset) {
            findings.add(Violation::OutsideChain { op: ack.op, offset: ack.offset, start, end });
        }
    }
    for segment in &chain.segments {
        if let Some(decided_end) = segment.end.filter(|end| *end > index.end) {
            findings.add(Violation::ChainBeyondLog { segment: segment.id, decided_end, end: index.end });
        }
    }
}
