//! When records are due. An open loop: the schedule never looks at what became of earlier records, so a stall of the
//! system under test is charged to every record that was due while it lasted.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How records arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// One each `1 / rate`.
    Fixed,
    /// Exponential spacing with mean `1 / rate`; the same seed gives the same schedule.
    Poisson { seed: u64 },
}

/// Iterator over due times in microseconds, from `start_us` (inclusive) to `end_us` (exclusive).
#[derive(Debug)]
pub struct Schedule {
    rate_per_s: u64,
    start_us: u64,
    end_us: u64,
    issued: u64,
    poisson: Option<(StdRng, f64)>,
}

impl Schedule {
    /// `rate_per_s` records a second; 0 gives no record at all.
    pub fn new(arrivals: Arrivals, rate_per_s: u64, start_us: u64, end_us: u64) -> Self {
        let poisson = match arrivals {
            Arrivals::Fixed => None,
            Arrivals::Poisson { seed } => Some((StdRng::seed_from_u64(seed), 0.0)),
        };
        Schedule { rate_per_s, start_us, end_us, issued: 0, poisson }
    }
}

impl Iterator for Schedule {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        if self.rate_per_s == 0 {
            return None;
        }
        let after_us = match &mut self.poisson {
            // Multiplied out from the start each time, so that rounding never drifts.
            None => u64::try_from(u128::from(self.issued) * 1_000_000 / u128::from(self.rate_per_s)).ok()?,
            Some((rng, elapsed_us)) => {
                let uniform: f64 = rng.random_range(f64::MIN_POSITIVE..1.0);
                *elapsed_us += -uniform.ln() * 1e6 / self.rate_per_s as f64;
                *elapsed_us as u64
            }
        };
        self.issued += 1;
        let due_us = self.start_us.checked_add(after_us)?;
        (due_us < self.end_us).then_some(due_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_never_drifts() {
        let due: Vec<u64> = Schedule::new(Arrivals::Fixed, 3, 100, 10_000_100).collect();
        assert_eq!(due.len(), 30);
        assert_eq!(due[3], 1_000_100);
        assert_eq!(due[27], 9_000_100);
    }

    #[test]
    fn poisson_has_its_rate_and_follows_its_seed() {
        let draw = |seed| Schedule::new(Arrivals::Poisson { seed }, 1_000, 0, 60_000_000).collect::<Vec<_>>();
        let due = draw(7);
        // 60,000 expected, standard deviation 245.
        assert!((58_500..61_500).contains(&due.len()), "{}", due.len());
        assert!(due.is_sorted());
        assert_eq!(due, draw(7));
        assert_ne!(due, draw(8));
        let gaps: Vec<f64> = due.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((0.95..1.05).contains(&(deviation / mean)), "an exponential's deviation equals its mean");
    }

    #[test]
    fn no_rate_no_records() {
        assert_eq!(Schedule::new(Arrivals::Fixed, 0, 0, 1_000_000).count(), 0);
    }
}
