//! What a router decides, without doing it: which segment is the head, what is in flight, where a tail goes on.
//!
//! | module | what it is |
//! | --- | --- |
//! | [`chain`] | the newest picture of topics, chains, candidates and nodes, built from metad's watch |
//! | [`producer`] | appends of one range: order, hand-over at a move, resends, limits |
//! | [`tail`] | one tail: dense delivery over boundaries, successors opened ahead |
//!
//! No I/O, no clock, no randomness, no hash-map order: time comes in as a [`Tick`], effects go out as values. The shell
//! carries them out and decides nothing. A router keeps no state that it cannot lose.
//!
//! Invariants asserted here: R2 and R6 (what a tail delivers is dense, in order, once), and of a producer: every append is
//! answered exactly once, and goes to the log in the order of its client stream.

pub mod chain;
pub mod producer;
pub mod tail;

pub use chain::{Chains, Changes};
pub use producer::{ProducerSettings, RangeProducer};
pub use seam_wire::Tick;
pub use tail::{Tail, TailSettings};
