//! The boundary window of a roll: from 50 ms before the due time of the first record at an offset >= the successor's start,
//! until 200 ms after it or until the backlog it caused has drained, whichever is later.

use crate::measure::sample::Sample;

/// Half open: `start_us <= t < end_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    pub start_us: u64,
    pub end_us: u64,
}

impl Window {
    pub fn len_us(&self) -> u64 {
        self.end_us.saturating_sub(self.start_us)
    }

    pub fn contains(&self, t_us: u64) -> bool {
        (self.start_us..self.end_us).contains(&t_us)
    }

    pub fn holds(&self, inner: &Window) -> bool {
        self.start_us <= inner.start_us && inner.end_us <= self.end_us
    }

    pub fn union(&self, other: &Window) -> Window {
        Window { start_us: self.start_us.min(other.start_us), end_us: self.end_us.max(other.end_us) }
    }
}

/// How far a window reaches; the defaults are the contract's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowShape {
    pub before_us: u64,
    pub after_us: u64,
    /// The backlog counts as drained once records due over this long come back at the ordinary latency again.
    pub calm_us: u64,
}

impl Default for WindowShape {
    fn default() -> Self {
        WindowShape { before_us: 50_000, after_us: 200_000, calm_us: 10_000 }
    }
}

/// The window of one roll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boundary {
    pub window: Window,
    /// Due time of the first record in the successor.
    pub first_due_us: u64,
    /// What that record took.
    pub first_latency_us: u64,
    /// The backlog had not drained by the end of the block.
    pub undrained: bool,
}

/// What counts as an ordinary latency when a backlog is watched: three times the median and at least a millisecond over it.
/// The median holds still while less than half of the records meet a stall.
pub fn ordinary_us(samples: &[Sample]) -> u64 {
    let mut latencies: Vec<u64> = samples.iter().filter(|s| s.ok).map(Sample::latency_us).collect();
    if latencies.is_empty() {
        return 0;
    }
    let middle = latencies.len() / 2;
    let (_, median, _) = latencies.select_nth_unstable(middle);
    (*median * 3).max(*median + 1_000)
}

/// The boundary window of the roll whose successor starts at `successor_start`. `samples` are those of one block, sorted by
/// due time. `None` when no record of the block lies in the successor.
pub fn boundary(samples: &[Sample], successor_start: u64, ordinary_us: u64, shape: WindowShape) -> Option<Boundary> {
    let first = samples.iter().position(|s| s.ok && s.offset >= successor_start)?;
    let first_due_us = samples[first].due_us;
    let drained_us = drained(&samples[first..], ordinary_us, shape.calm_us);
    let block_end_us = samples.last().map_or(0, |s| s.due_us);
    let nominal_end_us = first_due_us + shape.after_us;
    Some(Boundary {
        window: Window {
            start_us: first_due_us.saturating_sub(shape.before_us),
            end_us: drained_us.unwrap_or(block_end_us).max(nominal_end_us),
        },
        first_due_us,
        first_latency_us: samples[first].latency_us(),
        undrained: drained_us.is_none(),
    })
}

/// When the first record was done from which on all that were due over `calm_us` came back at an ordinary latency.
fn drained(samples: &[Sample], ordinary_us: u64, calm_us: u64) -> Option<u64> {
    let mut calm_since: Option<&Sample> = None;
    for sample in samples.iter().filter(|s| s.ok) {
        if sample.latency_us() > ordinary_us {
            calm_since = None;
            continue;
        }
        let since = *calm_since.get_or_insert(sample);
        if sample.due_us - since.due_us >= calm_us {
            return Some(since.done_us);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;

    /// A record each 2 ms for a second, 1 ms each, but held while `stall` (ms) lasts.
    fn block(stall: std::ops::Range<u64>) -> Vec<Sample> {
        let held_until = |due: u64| if stall.contains(&(due / MS)) { stall.end * MS } else { due };
        let sample = |i: u64| (i, i * 2 * MS);
        let make = |(offset, due_us): (u64, u64)| Sample { due_us, done_us: held_until(due_us) + MS, offset, ok: true };
        (0..500).map(sample).map(make).collect()
    }

    #[test]
    fn no_stall_gives_the_nominal_window() {
        let samples = block(0..0);
        let found = boundary(&samples, 200, ordinary_us(&samples), WindowShape::default()).expect("in the block");
        assert_eq!(found.first_due_us, 400 * MS);
        assert_eq!(found.window, Window { start_us: 350 * MS, end_us: 600 * MS });
        assert!(!found.undrained);
    }

    #[test]
    fn a_short_stall_does_not_stretch_it() {
        let samples = block(400..450);
        let found = boundary(&samples, 200, ordinary_us(&samples), WindowShape::default()).expect("in the block");
        assert_eq!(found.window.end_us, 600 * MS);
    }

    #[test]
    fn a_backlog_stretches_it_until_drained() {
        let samples = block(400..700);
        let found = boundary(&samples, 200, ordinary_us(&samples), WindowShape::default()).expect("in the block");
        assert_eq!(found.window.start_us, 350 * MS);
        // The first ordinary latency belongs to a record due just before the stall ended.
        assert!((700 * MS..=703 * MS).contains(&found.window.end_us), "{}", found.window.end_us);
        assert!(found.window.end_us > 700 * MS, "the end of the stall lies within");
    }

    #[test]
    fn noise_away_from_the_roll_does_not_stretch_it() {
        let samples = block(590..640);
        let found = boundary(&samples, 200, ordinary_us(&samples), WindowShape::default()).expect("in the block");
        assert_eq!(found.window.end_us, 600 * MS, "the backlog at 590 ms was not caused by the roll at 400 ms");
    }

    #[test]
    fn a_backlog_that_never_drains_says_so() {
        let mut samples = block(0..0);
        samples.iter_mut().skip(300).for_each(|s| s.done_us += 300 * MS);
        let found = boundary(&samples, 300, ordinary_us(&samples), WindowShape::default()).expect("in the block");
        assert!(found.undrained);
        assert_eq!(found.window.end_us, 998 * MS);
    }

    #[test]
    fn failed_records_have_no_offset_and_a_roll_elsewhere_no_window() {
        let mut samples = block(0..0);
        samples[200].ok = false;
        let found = boundary(&samples, 200, ordinary_us(&samples), WindowShape::default()).expect("in the block");
        assert_eq!(found.first_due_us, 402 * MS);
        assert_eq!(boundary(&samples, 500, 1, WindowShape::default()), None);
    }
}
