//! Violations as they are found: all counted, so many kept of each check.

use crate::violation::{Check, Violation};
use serde::Serialize;

/// Violations kept of each check, in the order in which they were found.
pub const KEPT: usize = 20;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Findings {
    counts: [u64; Check::ALL.len()],
    kept: Vec<Violation>,
}

impl Findings {
    pub(crate) fn add(&mut self, violation: Violation) {
        let count = &mut self.counts[violation.check() as usize];
        *count += 1;
        if *count <= KEPT as u64 {
            self.kept.push(violation);
        }
    }

    /// All of them, whether kept or not.
    pub fn count(&self, check: Check) -> u64 {
        self.counts[check as usize]
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Grouped by check.
    pub fn kept(&self) -> &[Violation] {
        &self.kept
    }
}
