//! Where in a range records of a moment begin: a binary search by reading single batches, since a batch tells the largest
//! timestamp in it. No index is kept.
//!
//! With timestamps in order the result is the earliest offset at or after the moment. Without, it is a place where they
//! pass it: the batch before holds earlier ones only.

use seam_wire::Offset;

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeekStep {
    /// Read the batch that holds this offset and call [`Seek::saw`].
    Read(Offset),
    /// It begins in the batch that holds this offset, not before it; or at this offset if that is the end.
    Found(Offset),
}

/// One search.
#[derive(Clone, Copy, Debug)]
pub struct Seek {
    moment_ms: i64,
    /// All below is earlier, as far as was seen.
    low: Offset,
    /// The batch that begins here is at or after the moment, or it is the end.
    high: Offset,
}

impl Seek {
    /// Over `[earliest, end)`.
    pub fn new(earliest: Offset, end: Offset, moment_ms: i64) -> Self {
        Seek { moment_ms, low: earliest, high: end.max(earliest) }
    }

    pub fn step(&self) -> SeekStep {
        if self.low >= self.high {
            return SeekStep::Found(self.low);
        }
        SeekStep::Read(Offset(self.low.0 + (self.high.0 - self.low.0) / 2))
    }

    /// The batch `[base, next)`, which holds the offset asked for, has no record later than `max_ms`.
    pub fn saw(&mut self, base: Offset, next: Offset, max_ms: i64) {
        if max_ms >= self.moment_ms {
            self.high = base.clamp(self.low, self.high);
        } else {
            self.low = next.clamp(self.low, self.high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Batches as their records' timestamps.
    fn search(batches: &[Vec<i64>], earliest: u64, moment_ms: i64) -> (u64, u32) {
        let bounds: Vec<u64> = batches.iter().fold(vec![0], |mut bounds, batch| {
            bounds.push(bounds.last().unwrap() + batch.len() as u64);
            bounds
        });
        let mut seek = Seek::new(Offset(earliest), Offset(*bounds.last().unwrap()), moment_ms);
        let mut reads = 0;
        loop {
            match seek.step() {
                SeekStep::Found(at) => return (at.0, reads),
                SeekStep::Read(at) => {
                    reads += 1;
                    let index = bounds.partition_point(|bound| *bound <= at.0) - 1;
                    let max = *batches[index].iter().max().unwrap();
                    seek.saw(Offset(bounds[index]), Offset(bounds[index + 1]), max);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn it_finds_where_the_moment_is_passed(
            batches in prop::collection::vec(prop::collection::vec(0..50i64, 1..6), 0..40),
            in_order: bool,
            moment in 0..52i64,
            earliest in 0..8u64,
        ) {
            let mut batches = batches;
            if in_order {
                let mut all: Vec<i64> = batches.concat();
                all.sort_unstable();
                let mut rest = all.into_iter();
                batches.iter_mut().for_each(|batch| batch.iter_mut().for_each(|it| *it = rest.next().unwrap()));
            }
            let all = batches.concat();
            let earliest = earliest.min(all.len() as u64);
            let (found, reads) = search(&batches, earliest, moment);
            prop_assert!(reads <= 9, "{} reads for {} records", reads, all.len());
            prop_assert!(found >= earliest && found <= all.len() as u64);
            if in_order {
                let first = (earliest..all.len() as u64).find(|at| all[*at as usize] >= moment).unwrap_or(all.len() as u64);
                // At the batch's begin, or where reading may begin in it.
                let base = |at: u64| {
                    let mut base = 0;
                    batches.iter().map(|batch| { let was = base; base += batch.len() as u64; was })
                        .filter(|base| *base <= at).last().unwrap_or(0).max(earliest)
                };
                prop_assert_eq!(found, if first == all.len() as u64 { first } else { base(first) });
            }
        }
    }
}
