//! What was seen from outside: appends and their outcomes, deliveries, questions for the ends, the chain as metad tells it.
//! Times are microseconds on one clock. Plain data.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The client of a record that no producer of the run wrote, or whose content does not say who did.
pub const FOREIGN: u32 = u32::MAX;

/// One range in one run. Nobody else may have written to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    pub sessions: Vec<Session>,
    pub tails: Vec<Tail>,
    /// Everything, read from the start once the producers were done and every outcome was known.
    pub final_read: Reading,
    pub queries: Vec<Query>,
    /// Oldest first.
    pub chains: Vec<Chain>,
    pub faults: Vec<Fault>,
}

/// The appends of one producer, in the order in which it sent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Told from every other producer of the run, and never [`FOREIGN`].
    pub client: u32,
    /// By when each append was promised an outcome, from its sending.
    pub deadline_us: Option<u64>,
    /// Sequences and times of sending rise.
    pub appends: Vec<Append>,
}

/// One record that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Append {
    /// Its number in the session: with the client's number, the record's name.
    pub sequence: u64,
    pub invoke_us: u64,
    /// When the outcome was known. Without meaning where it is [`Outcome::Open`].
    pub return_us: u64,
    /// Of the whole content.
    pub hash: u32,
    pub outcome: Outcome,
}

/// What the producer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Acked {
        offset: u64,
    },
    /// It certainly did not happen.
    Failed,
    /// It may have happened, at most once.
    Indeterminate,
    /// Nothing, ever.
    Open,
}

/// The name of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Op {
    pub client: u32,
    pub sequence: u64,
}

/// A reader that follows the range.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tail {
    pub client: u32,
    /// One, and one more for each time it was opened again.
    pub readings: Vec<Reading>,
}

/// What came from one opening of a reader, in the order in which it came.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// The offset it asked for.
    pub from: u64,
    pub opened_us: u64,
    pub deliveries: Vec<Delivery>,
}

/// One record as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub offset: u64,
    pub at_us: u64,
    pub sequence: u64,
    /// Who sent it, by its content; [`FOREIGN`] where that does not say.
    pub client: u32,
    pub hash: u32,
}

/// One question for the two ends of the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    pub client: u32,
    pub invoke_us: u64,
    pub return_us: u64,
    pub earliest: u64,
    /// The offset after the last committed record.
    pub latest: u64,
}

/// The chain as metad told it once, in order; candidates are not among it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chain {
    pub invoke_us: u64,
    pub return_us: u64,
    pub segments: Vec<Segment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub id: u64,
    pub start: u64,
    /// The offset after its last record, once decided.
    pub end: Option<u64>,
    /// Which follows, once decided.
    pub next: Option<u64>,
}

/// A stretch of the run in which something was broken on purpose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub kind: String,
    pub from_us: u64,
    pub until_us: u64,
}

// The memory of a run of ten million records hangs on these.
const _: () = assert!(size_of::<Append>() <= 48 && size_of::<Delivery>() <= 32);

impl Append {
    pub fn acked(&self) -> Option<u64> {
        match self.outcome {
            Outcome::Acked { offset } => Some(offset),
            Outcome::Failed | Outcome::Indeterminate | Outcome::Open => None,
        }
    }
}

impl Delivery {
    pub fn op(&self) -> Op {
        Op { client: self.client, sequence: self.sequence }
    }
}

impl Reading {
    /// The offset after the highest one delivered.
    pub fn end(&self) -> u64 {
        self.deliveries.iter().map(|delivery| delivery.offset + 1).max().unwrap_or(self.from)
    }
}

impl Tail {
    pub fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.readings.iter().flat_map(|reading| &reading.deliveries)
    }
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.client {
            FOREIGN => f.write_str("a record of nobody"),
            client => write!(f, "record {} of producer {client}", self.sequence),
        }
    }
}
