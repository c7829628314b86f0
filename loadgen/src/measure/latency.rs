//! Latency distributions: HDR histograms for many records, exact order statistics for few values.

use crate::measure::stats;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Highest latency told apart: 60 s. Slower records count as 60 s (and their exact maximum is kept).
const HIGHEST_US: u64 = 60_000_000;
const SIGNIFICANT_DIGITS: u8 = 3;

/// What is said of a distribution. Microseconds; all 0 when `count` is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    pub count: u64,
    pub p50_us: u64,
    pub p99_us: u64,
    pub p999_us: u64,
    pub max_us: u64,
}

impl Summary {
    /// Exact, for a handful of values (silences, phases), where a histogram's rounding would show.
    pub fn exact(values_us: &[u64]) -> Self {
        let mut sorted = values_us.to_vec();
        sorted.sort_unstable();
        Summary {
            count: sorted.len() as u64,
            p50_us: stats::nearest_rank(&sorted, 0.5),
            p99_us: stats::nearest_rank(&sorted, 0.99),
            p999_us: stats::nearest_rank(&sorted, 0.999),
            max_us: sorted.last().copied().unwrap_or(0),
        }
    }
}

/// A histogram of latencies: 1 us to 60 s, three digits.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
    max_us: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, HIGHEST_US, SIGNIFICANT_DIGITS)
            .expect("1 us to 60 s with three digits are valid bounds");
        Latencies { histogram, max_us: 0 }
    }
}

impl Latencies {
    pub fn record(&mut self, latency_us: u64) {
        self.max_us = self.max_us.max(latency_us);
        self.histogram.saturating_record(latency_us.max(1));
    }

    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The latency that a share `q` (0 to 1) of the records did not exceed.
    pub fn quantile_us(&self, q: f64) -> u64 {
        if self.histogram.is_empty() { 0 } else { self.histogram.value_at_quantile(q).min(self.max_us) }
    }

    pub fn summary(&self) -> Summary {
        Summary {
            count: self.count(),
            p50_us: self.quantile_us(0.5),
            p99_us: self.quantile_us(0.99),
            p999_us: self.quantile_us(0.999),
            max_us: self.max_us,
        }
    }

    /// The curve of latency over `1 - q`, ten points a decade from half of the records down to a single one.
    pub fn curve(&self) -> Vec<(f64, u64)> {
        let total = self.count();
        if total == 0 {
            return Vec::new();
        }
        let beyond = (0..).map(|step| 10f64.powf(-f64::from(step) / 10.0));
        let resolved = beyond.take_while(|rest| rest * total as f64 >= 0.999);
        resolved.map(|rest| (rest, self.quantile_us(1.0 - rest))).collect()
    }
}

impl Extend<u64> for Latencies {
    fn extend<T: IntoIterator<Item = u64>>(&mut self, values_us: T) {
        values_us.into_iter().for_each(|v| self.record(v));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_a_ramp() {
        let mut latencies = Latencies::default();
        latencies.extend(1..=100_000);
        let summary = latencies.summary();
        assert_eq!(summary.count, 100_000);
        for (got, want) in [(summary.p50_us, 50_000.0), (summary.p99_us, 99_000.0), (summary.p999_us, 99_900.0)] {
            assert!((got as f64 / want - 1.0).abs() < 0.001, "{got} is three digits of {want}");
        }
        assert_eq!(summary.max_us, 100_000);
    }

    #[test]
    fn out_of_range_values_are_kept_not_dropped() {
        let mut latencies = Latencies::default();
        latencies.extend([0, 120_000_000]);
        assert_eq!(latencies.count(), 2);
        assert_eq!(latencies.summary().max_us, 120_000_000, "the true maximum is told");
    }

    #[test]
    fn curve_ends_at_one_record() {
        let mut latencies = Latencies::default();
        latencies.extend(1..=1_000);
        let curve = latencies.curve();
        assert_eq!(curve.first().map(|p| p.0), Some(1.0));
        assert!((curve.last().expect("not empty").0 - 0.001).abs() < 1e-9);
        assert!(curve.is_sorted_by_key(|p| p.1));
    }

    #[test]
    fn nothing_measured_is_all_zero() {
        assert_eq!(Latencies::default().summary(), Summary::default());
        assert_eq!(Summary::exact(&[]), Summary::default());
    }
}
