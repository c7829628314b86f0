//! Verification: every acked record against what was delivered. Lost, duplicated, out of order, gaps; a run with any of them
//! has failed, whatever its latencies say.

use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};

/// Which record it is: the producer within the run, and its sequence from 0.
pub type RecordId = (u32, u64);

/// A record as acked, or as delivered. `hash` covers the whole payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    pub offset: u64,
    pub id: RecordId,
    pub hash: u32,
}

/// The counts; all but the first two are 0 in a correct run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub records_acked: u64,
    pub records_read: u64,
    /// Acked, but not delivered at the acked offset with the acked content.
    pub lost: u64,
    /// Delivered more than once: an offset again, or the same record at another offset.
    pub duplicated: u64,
    /// Delivered after a higher offset, or placed in the log after a later record of its producer.
    pub out_of_order: u64,
    /// Offsets between the first and the last delivered that never came.
    pub gaps: u64,
    /// Delivered with content that nobody sent.
    pub corrupt: u64,
}

impl Verdict {
    pub fn clean(&self) -> bool {
        self.lost + self.duplicated + self.out_of_order + self.gaps + self.corrupt == 0
    }

    /// What was found since `before`, an earlier verdict of the same growing run.
    #[must_use]
    pub fn since(&self, before: &Verdict) -> Verdict {
        Verdict {
            records_acked: self.records_acked.saturating_sub(before.records_acked),
            records_read: self.records_read.saturating_sub(before.records_read),
            lost: self.lost.saturating_sub(before.lost),
            duplicated: self.duplicated.saturating_sub(before.duplicated),
            out_of_order: self.out_of_order.saturating_sub(before.out_of_order),
            gaps: self.gaps.saturating_sub(before.gaps),
            corrupt: self.corrupt.saturating_sub(before.corrupt),
        }
    }

    pub fn add(&mut self, other: &Verdict) {
        self.records_acked += other.records_acked;
        self.records_read += other.records_read;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.out_of_order += other.out_of_order;
        self.gaps += other.gaps;
        self.corrupt += other.corrupt;
    }
}

/// Compares what one consumer was delivered, in the order of delivery, with what was acked. `corrupt` counts deliveries whose
/// payload did not decode; they are not among `delivered` but for their offset in `corrupt_offsets`.
pub fn verify(acked: &[Seen], delivered: &[Seen], corrupt_offsets: &[u64]) -> Verdict {
    let mut verdict = Verdict {
        records_acked: acked.len() as u64,
        records_read: (delivered.len() + corrupt_offsets.len()) as u64,
        corrupt: corrupt_offsets.len() as u64,
        ..Verdict::default()
    };
    let mut by_offset: HashMap<u64, Seen> = HashMap::with_capacity(delivered.len());
    let mut ids: HashSet<RecordId> = HashSet::with_capacity(delivered.len());
    let mut highest: Option<u64> = None;
    for record in delivered {
        let again = by_offset.insert(record.offset, *record).is_some();
        // The same record twice is one fault, whichever way it came.
        if !ids.insert(record.id) || again {
            verdict.duplicated += 1;
        } else if highest.is_some_and(|h| record.offset < h) {
            verdict.out_of_order += 1;
        }
        highest = highest.max(Some(record.offset));
    }
    verdict.out_of_order += misplaced(&by_offset);
    verdict.gaps = missing(&by_offset, corrupt_offsets);
    verdict.lost = acked.iter().filter(|a| by_offset.get(&a.offset) != Some(a)).count() as u64;
    verdict
}

/// Records that stand in the log after a later record of the same producer.
fn misplaced(by_offset: &HashMap<u64, Seen>) -> u64 {
    let mut log: Vec<&Seen> = by_offset.values().collect();
    log.sort_unstable_by_key(|r| r.offset);
    let mut last: HashMap<u32, u64> = HashMap::new();
    let mut misplaced = 0;
    for record in log {
        let (producer, seq) = record.id;
        let latest = last.entry(producer).or_insert(seq);
        misplaced += u64::from(seq < *latest);
        *latest = seq.max(*latest);
    }
    misplaced
}

/// Offsets between the first and the last delivered that were never delivered.
fn missing(by_offset: &HashMap<u64, Seen>, corrupt_offsets: &[u64]) -> u64 {
    let offsets: HashSet<u64> = by_offset.keys().chain(corrupt_offsets).copied().collect();
    let (Some(first), Some(last)) = (offsets.iter().min(), offsets.iter().max()) else {
        return 0;
    };
    last - first + 1 - offsets.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(n: u64) -> Vec<Seen> {
        (0..n).map(|i| Seen { offset: i, id: ((i % 2) as u32, i / 2), hash: i as u32 * 7 }).collect()
    }

    #[test]
    fn a_correct_run_is_clean() {
        let verdict = verify(&log(100), &log(100), &[]);
        assert!(verdict.clean(), "{verdict:?}");
        assert_eq!((verdict.records_acked, verdict.records_read), (100, 100));
    }

    #[test]
    fn unacked_records_may_be_there() {
        // An append that failed indeterminately: written, never acked.
        let acked: Vec<Seen> = log(100).into_iter().filter(|r| r.offset != 40).collect();
        assert!(verify(&acked, &log(100), &[]).clean());
    }

    #[test]
    fn a_record_that_never_came_is_lost_and_leaves_a_gap() {
        let mut delivered = log(100);
        delivered.remove(40);
        let verdict = verify(&log(100), &delivered, &[]);
        assert_eq!(verdict, Verdict { records_acked: 100, records_read: 99, lost: 1, gaps: 1, ..Verdict::default() });
    }

    #[test]
    fn a_cut_tail_is_lost_without_a_gap() {
        let verdict = verify(&log(100), &log(90), &[]);
        assert_eq!((verdict.lost, verdict.gaps), (10, 0));
    }

    #[test]
    fn another_content_at_the_acked_offset_is_lost() {
        let mut delivered = log(100);
        delivered[40].hash += 1;
        assert_eq!(verify(&log(100), &delivered, &[]).lost, 1);
    }

    #[test]
    fn an_offset_delivered_twice() {
        let mut delivered = log(100);
        delivered.insert(41, delivered[40]);
        let verdict = verify(&log(100), &delivered, &[]);
        assert_eq!((verdict.duplicated, verdict.out_of_order, verdict.lost), (1, 0, 0));
    }

    #[test]
    fn a_record_written_twice() {
        let mut delivered = log(100);
        delivered.push(Seen { offset: 100, ..delivered[99] });
        assert_eq!(verify(&log(100), &delivered, &[]).duplicated, 1);
    }

    #[test]
    fn swapped_in_delivery() {
        let mut delivered = log(100);
        delivered.swap(40, 41);
        let verdict = verify(&log(100), &delivered, &[]);
        assert_eq!((verdict.out_of_order, verdict.gaps, verdict.lost), (1, 0, 0));
    }

    #[test]
    fn swapped_in_the_log() {
        let mut written = log(100);
        let (a, b) = (written[40].id, written[42].id);
        (written[40].id, written[42].id) = (b, a);
        let verdict = verify(&written, &written, &[]);
        assert_eq!((verdict.out_of_order, verdict.lost), (1, 0), "acked and delivered agree, the order is wrong");
    }

    #[test]
    fn corrupt_content_is_neither_a_gap_nor_delivered() {
        let mut delivered = log(100);
        delivered.remove(40);
        let verdict = verify(&log(100), &delivered, &[40]);
        assert_eq!((verdict.corrupt, verdict.lost, verdict.gaps), (1, 1, 0));
        assert!(!verdict.clean());
    }
}
