//! Counters of a journal, kept without locks, and the snapshot handed to the owner.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Buckets per doubling; an upper bound read from the histogram is at most 1/4 too high.
const STEPS_PER_DOUBLING: u64 = 4;
const BUCKETS: usize = 160;

/// What a journal has done since it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalStats {
    /// Entries accepted.
    pub appends: u64,
    /// Appends refused because the queue was full.
    pub overloaded: u64,
    /// Bytes of entries written, without headers and padding.
    pub bytes: u64,
    /// Bytes written to files, headers and padding included.
    pub disk_bytes: u64,
    /// Groups written.
    pub groups: u64,
    /// Most entries in one group.
    pub max_group: u64,
    /// Rounds of `fdatasync` done by the writer.
    pub syncs: u64,
    /// Median duration of a sync, rounded up to the next quarter doubling.
    pub sync_p50: Duration,
    /// 99th percentile of the duration of a sync, rounded up likewise.
    pub sync_p99: Duration,
    /// Longest sync.
    pub sync_max: Duration,
    /// Times the writer found no file ready and had to make one itself: raise `spare_files` if this grows.
    pub journal_file_waits: u64,
    /// Files made and zero-filled.
    pub files_made: u64,
    /// Released files made ready for reuse.
    pub files_recycled: u64,
    /// Files ready to be written.
    pub files_ready: u64,
    /// Bytes waiting to be written, upkeep included.
    pub queued_bytes: u64,
    /// See [`crate::Journal::pinned_bytes`].
    pub pinned_bytes: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub appends: AtomicU64,
    pub overloaded: AtomicU64,
    pub bytes: AtomicU64,
    pub disk_bytes: AtomicU64,
    pub groups: AtomicU64,
    pub max_group: AtomicU64,
    pub file_waits: AtomicU64,
    pub files_made: AtomicU64,
    pub files_recycled: AtomicU64,
    pub sync: Histogram,
}

impl Counters {
    pub fn snapshot(&self) -> JournalStats {
        JournalStats {
            appends: self.appends.load(Relaxed),
            overloaded: self.overloaded.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            disk_bytes: self.disk_bytes.load(Relaxed),
            groups: self.groups.load(Relaxed),
            max_group: self.max_group.load(Relaxed),
            syncs: self.sync.count(),
            sync_p50: self.sync.quantile(0.5),
            sync_p99: self.sync.quantile(0.99),
            sync_max: Duration::from_nanos(self.sync.max_ns.load(Relaxed)),
            journal_file_waits: self.file_waits.load(Relaxed),
            files_made: self.files_made.load(Relaxed),
            files_recycled: self.files_recycled.load(Relaxed),
            files_ready: 0,
            queued_bytes: 0,
            pinned_bytes: 0,
        }
    }
}

/// Durations in exponential buckets: nanoseconds, four buckets to a doubling.
pub(crate) struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    max_ns: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: std::array::from_fn(|_| AtomicU64::new(0)), max_ns: AtomicU64::new(0) }
    }
}

impl Histogram {
    fn bucket(ns: u64) -> usize {
        let ns = ns.max(4);
        let doubling = u64::from(ns.ilog2());
        let step = (ns >> (doubling - 2)) & (STEPS_PER_DOUBLING - 1);
        ((doubling * STEPS_PER_DOUBLING + step) as usize).min(BUCKETS - 1)
    }

    /// The first value above the bucket.
    fn upper_ns(bucket: usize) -> u64 {
        let (doubling, step) = (bucket as u64 / STEPS_PER_DOUBLING, bucket as u64 % STEPS_PER_DOUBLING);
        (STEPS_PER_DOUBLING + step + 1) << doubling.saturating_sub(2)
    }

    pub fn record(&self, took: Duration) {
        let ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.buckets[Self::bucket(ns)].fetch_add(1, Relaxed);
        self.max_ns.fetch_max(ns, Relaxed);
    }

    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    pub fn quantile(&self, q: f64) -> Duration {
        let rank = ((self.count() as f64 * q).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            seen += bucket.load(Relaxed);
            if seen >= rank {
                return Duration::from_nanos(Self::upper_ns(index));
            }
        }
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_lies_within_a_quarter_below_its_bucket_bound() {
        for ns in [4u64, 5, 7, 8, 1000, 1_234_567, 999_999_999, 60_000_000_000] {
            let upper = Histogram::upper_ns(Histogram::bucket(ns));
            assert!(upper > ns && upper <= ns + ns / 4 + 1, "{ns} -> {upper}");
        }
    }

    #[test]
    fn quantiles_follow_the_counts() {
        let histogram = Histogram::default();
        (0..98).for_each(|_| histogram.record(Duration::from_micros(100)));
        (0..2).for_each(|_| histogram.record(Duration::from_millis(10)));
        assert!(histogram.quantile(0.5) < Duration::from_micros(130));
        assert!(histogram.quantile(0.99) >= Duration::from_millis(10));
    }
}
