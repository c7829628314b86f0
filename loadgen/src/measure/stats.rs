//! Two samples compared: Mann-Whitney U, and differences of quantiles with bootstrap intervals. Seeded, so that a report
//! made twice from the same data is the same.
//!
//! Mann-Whitney (1947) rather than a t-test: silences are skewed and only their order is trusted. Normal approximation with
//! correction for ties and continuity, good from about eight values a side.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// Resamples of a bootstrap.
const RESAMPLES: usize = 4_000;

/// The value of rank `ceil(q n)`; 0 for nothing. `sorted` is sorted.
pub fn nearest_rank(sorted: &[u64], q: f64) -> u64 {
    let rank = (q * sorted.len() as f64 - 1e-9).ceil().max(1.0) as usize;
    sorted.get(rank.min(sorted.len()).saturating_sub(1)).copied().unwrap_or(0)
}

/// The median, a half between the two middle values where there are two. `sorted` is sorted; 0 for nothing.
pub fn median(sorted: &[u64]) -> f64 {
    let n = sorted.len();
    match (n, n % 2) {
        (0, _) => 0.0,
        (_, 1) => sorted[n / 2] as f64,
        _ => (sorted[n / 2 - 1] as f64 + sorted[n / 2] as f64) / 2.0,
    }
}

/// Two-sided p-value of the Mann-Whitney U test: the chance of samples at least this different if both came from one
/// distribution. `None` when either sample is empty.
pub fn mann_whitney(a: &[u64], b: &[u64]) -> Option<f64> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut all: Vec<(u64, bool)> = a.iter().map(|v| (*v, true)).chain(b.iter().map(|v| (*v, false))).collect();
    all.sort_unstable();
    let (mut rank_sum_a, mut ties, mut ranked) = (0.0, 0.0, 0usize);
    for group in all.chunk_by(|x, y| x.0 == y.0) {
        let size = group.len() as f64;
        let mean_rank = ranked as f64 + (size + 1.0) / 2.0;
        rank_sum_a += mean_rank * group.iter().filter(|x| x.1).count() as f64;
        ties += size.powi(3) - size;
        ranked += group.len();
    }
    let (n_a, n_b, n) = (a.len() as f64, b.len() as f64, all.len() as f64);
    let u = rank_sum_a - n_a * (n_a + 1.0) / 2.0;
    let variance = n_a * n_b / 12.0 * ((n + 1.0) - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return Some(1.0);
    }
    let distance = ((u - n_a * n_b / 2.0).abs() - 0.5).max(0.0);
    Some(erfc(distance / variance.sqrt() / std::f64::consts::SQRT_2))
}

/// A difference `a - b` of some statistic, with the 95 % interval of its bootstrap.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    pub value: f64,
    pub low: f64,
    pub high: f64,
}

/// `statistic(a) - statistic(b)` with a percentile bootstrap. Both statistics get sorted values. All 0 when a side is empty.
pub fn difference(a: &[u64], b: &[u64], statistic: impl Fn(&[u64]) -> f64, seed: u64) -> Difference {
    if a.is_empty() || b.is_empty() {
        return Difference::default();
    }
    let sorted = |values: &[u64]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values
    };
    let (a, b) = (sorted(a), sorted(b));
    let mut rng = StdRng::seed_from_u64(seed);
    let mut buffer = Vec::new();
    let mut resampled = |values: &[u64]| {
        buffer.clear();
        buffer.extend((0..values.len()).map(|_| values[rng.random_range(0..values.len())]));
        buffer.sort_unstable();
        statistic(&buffer)
    };
    let mut draws: Vec<f64> = (0..RESAMPLES).map(|_| resampled(&a) - resampled(&b)).collect();
    draws.sort_unstable_by(f64::total_cmp);
    let at = |q: f64| draws[((draws.len() - 1) as f64 * q).round() as usize];
    Difference { value: statistic(&a) - statistic(&b), low: at(0.025), high: at(0.975) }
}

/// 2/sqrt(pi) times the integral of exp(-t^2) from `x` to infinity, for `x >= 0`. Series near 0, continued fraction beyond
/// (both in Abramowitz and Stegun, 7.1.6 and 7.1.14), to about ten digits.
fn erfc(x: f64) -> f64 {
    let scale = (-x * x).exp() / std::f64::consts::PI.sqrt();
    if x < 2.0 {
        let (mut term, mut sum, mut k) = (x, x, 0.0);
        while term > sum * 1e-16 {
            k += 1.0;
            term *= 2.0 * x * x / (2.0 * k + 1.0);
            sum += term;
        }
        1.0 - 2.0 * scale * sum
    } else {
        let tail = (1..=60).rev().fold(0.0, |tail, k| f64::from(k) / 2.0 / (x + tail));
        scale / (x + tail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(rng: &mut StdRng) -> f64 {
        let (u, v): (f64, f64) = (rng.random_range(f64::MIN_POSITIVE..1.0), rng.random());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }

    /// Log-normal silences around 2 ms, moved by `shift_us`.
    fn silences(rng: &mut StdRng, n: usize, shift_us: f64) -> Vec<u64> {
        (0..n).map(|_| (2_000.0 * (0.4 * normal(rng)).exp() + shift_us) as u64).collect()
    }

    #[test]
    fn erfc_matches_the_tables() {
        for (x, want) in [(0.0, 1.0), (0.5, 0.479_500_122), (1.0, 0.157_299_207), (2.0, 0.004_677_735), (3.0, 2.209e-5)]
        {
            assert!((erfc(x) - want).abs() < 1e-8, "erfc({x}) = {}", erfc(x));
        }
        assert!((erfc(1.999_999) - erfc(2.000_001)).abs() < 1e-7, "the two branches meet");
    }

    #[test]
    fn mann_whitney_textbook_example() {
        // U = 4 of n = 5 and 5: z = (12.5 - 4 - 0.5) / sqrt(22.9167) = 1.6711, two-sided p = 0.0947.
        let p = mann_whitney(&[1, 2, 3, 5, 8], &[4, 6, 7, 9, 10]).expect("both sides have values");
        assert!((p - 0.0947).abs() < 2e-4, "{p}");
    }

    #[test]
    fn symmetric_and_all_tied() {
        let (a, b) = ([3, 9, 4, 4, 7], [4, 5, 11, 12, 4, 6]);
        assert_eq!(mann_whitney(&a, &b), mann_whitney(&b, &a));
        assert_eq!(mann_whitney(&[5; 10], &[5; 20]), Some(1.0));
        assert_eq!(mann_whitney(&[], &[1]), None);
    }

    #[test]
    fn placebo_against_placebo_is_rarely_told_apart() {
        let mut rng = StdRng::seed_from_u64(42);
        let alarms = (0..1_000).filter(|_| {
            let (a, b) = (silences(&mut rng, 30, 0.0), silences(&mut rng, 60, 0.0));
            mann_whitney(&a, &b).is_some_and(|p| p <= 0.05)
        });
        // 50 expected of a level-0.05 test, standard deviation 7.
        let alarms = alarms.count();
        assert!((25..=75).contains(&alarms), "{alarms}");
    }

    #[test]
    fn a_shift_is_detected() {
        let mut rng = StdRng::seed_from_u64(43);
        let found = (0..200).filter(|_| {
            let (a, b) = (silences(&mut rng, 30, 1_000.0), silences(&mut rng, 60, 0.0));
            mann_whitney(&a, &b).is_some_and(|p| p < 0.05)
        });
        assert!(found.count() >= 190);
        let stalled = silences(&mut rng, 30, 80_000.0);
        assert!(mann_whitney(&stalled, &silences(&mut rng, 60, 0.0)).is_some_and(|p| p < 1e-10));
    }

    #[test]
    fn interval_covers_the_true_difference() {
        let mut rng = StdRng::seed_from_u64(44);
        let covered = (0..100).filter(|round| {
            let (a, b) = (silences(&mut rng, 40, 500.0), silences(&mut rng, 80, 0.0));
            let d = difference(&a, &b, median, *round);
            assert!(d.low <= d.value && d.value <= d.high);
            (d.low..=d.high).contains(&500.0)
        });
        let covered = covered.count();
        assert!(covered >= 85, "{covered} of about 95");
    }

    #[test]
    fn same_seed_same_interval() {
        let (a, b) = ([5, 9, 1, 7, 4, 4], [2, 8, 3, 9, 5, 6]);
        assert_eq!(difference(&a, &b, median, 3), difference(&a, &b, median, 3));
        assert_eq!(difference(&a, &[], median, 3), Difference::default());
    }

    #[test]
    fn ranks() {
        let values: Vec<u64> = (1..=100).collect();
        assert_eq!(nearest_rank(&values, 0.99), 99);
        assert_eq!(nearest_rank(&values, 0.5), 50);
        assert_eq!(nearest_rank(&values, 1.0), 100);
        assert_eq!(nearest_rank(&[7], 0.5), 7);
        assert_eq!(median(&[1, 2]), 1.5);
    }
}
