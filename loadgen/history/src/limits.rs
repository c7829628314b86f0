//! How much must have happened for a verdict to mean something, and how long things may take.

use crate::verdict::Figures;
use serde::{Deserialize, Serialize};

/// Bounds of one run. The default asks for nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    pub acks_min: u64,
    pub rolls_min: u64,
    pub faults_min: u64,
    /// Boundaries between segments that each tail must have crossed.
    pub crossings_min: u64,
    pub queries_min: u64,
    /// Times that the chain must have been told.
    pub chains_min: u64,
    /// How much later than its deadline an outcome may be known: allow for a busy machine. `None`: any time.
    pub lateness_us: Option<u64>,
    /// Longest time without an ack, or without a delivery, while something waited for it; away from faults.
    pub silence_us: Option<u64>,
    /// The same, where a fault was at work.
    pub fault_silence_us: Option<u64>,
}

/// Something of which there was too little for the run to prove anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vacuity {
    pub what: String,
    pub wanted: u64,
    pub found: u64,
}

impl Limits {
    pub(crate) fn vacuities(&self, figures: &Figures) -> Vec<Vacuity> {
        let crossed = figures.tails.iter().map(|tail| tail.crossings).min().unwrap_or(0);
        let pairs = [
            ("records acked", self.acks_min, figures.acked),
            ("rolls", self.rolls_min, figures.rolls),
            ("faults", self.faults_min, figures.faults),
            ("boundaries crossed by each tail", self.crossings_min, crossed),
            ("questions for the end", self.queries_min, figures.queries),
            ("tellings of the chain", self.chains_min, figures.chains),
        ];
        let lacking = pairs.into_iter().filter(|(_, wanted, found)| found < wanted);
        lacking.map(|(what, wanted, found)| Vacuity { what: what.to_owned(), wanted, found }).collect()
    }
}
