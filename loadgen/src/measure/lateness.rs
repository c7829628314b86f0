//! The generator's own lateness: what it adds to the figures, and when that makes a run worthless.

use serde::{Deserialize, Serialize};

/// A record handed over later than this after it was due counts as late.
pub const LATE_US: u64 = 1_000;
/// A run with a larger share of late records fails.
pub const LATE_SHARE_MAX: f64 = 0.01;

/// Lateness of a generator, over all records it handed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lateness {
    pub records: u64,
    /// Records more than `LATE_US` late.
    pub late: u64,
    pub worst_us: u64,
}

impl Lateness {
    pub fn record(&mut self, due_us: u64, handed_over_us: u64) {
        let late_us = handed_over_us.saturating_sub(due_us);
        self.records += 1;
        self.late += u64::from(late_us > LATE_US);
        self.worst_us = self.worst_us.max(late_us);
    }

    pub fn add(&mut self, other: &Lateness) {
        self.records += other.records;
        self.late += other.late;
        self.worst_us = self.worst_us.max(other.worst_us);
    }

    /// 0 to 1; 0 when nothing was handed over.
    pub fn share(&self) -> f64 {
        if self.records == 0 { 0.0 } else { self.late as f64 / self.records as f64 }
    }

    pub fn acceptable(&self) -> bool {
        self.share() <= LATE_SHARE_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_percent_is_the_limit() {
        let mut lateness = Lateness::default();
        (0..99).for_each(|_| lateness.record(0, 1_000));
        lateness.record(0, 1_001);
        assert!(lateness.acceptable(), "1 of 100");
        lateness.record(0, 5_000);
        assert!(!lateness.acceptable(), "2 of 101");
        assert_eq!(lateness.worst_us, 5_000);
    }
}
