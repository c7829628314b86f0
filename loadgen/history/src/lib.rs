//! Judges what clients of a log saw: whether one history of a range, recorded from outside, is one that a correct log could
//! have produced. It knows nothing of segments' replicas, epochs or machines: only what was sent, what was answered, what was
//! read, and what metad said of the chain.
//!
//! A log gives its own order, since acks carry offsets: no search is needed, and every check is sorting and a sweep
//! (O(n log n)). Ten million appends, read twice and once more at the end, take about 1.5 GB while they are recorded and
//! half a GB more while they are judged.
//!
//! | check | what must hold |
//! | --- | --- |
//! | 1 [`Check::Content`] | an offset has one content, whoever tells it |
//! | 2 [`Check::RealTime`] | what was acked before another was sent lies before it |
//! | 3 [`Check::Session`] | the records of one producer lie in the order in which it sent them |
//! | 4 [`Check::Present`] | what was acked is there at the end, at its offset, unchanged |
//! | 5 [`Check::Known`] | what is there was sent, once; what certainly failed is not there |
//! | 6 [`Check::Contiguous`] | a reader gets every offset from its start on, once, in order, also when it resumes |
//! | 7 [`Check::Committed`] | nothing is read before it is sent, nor what is later taken back |
//! | 8 [`Check::Monotone`] | the end that is told never falls, and covers all that was acked before it was asked for |
//! | 9 [`Check::Chain`] | segments follow each other without a gap, decided ends stay, every record lies in one |
//! | 10 [`Check::Gaps`] | every call ends in time, silences stay below the bounds given, every tail gets to the end |
//!
//! A history in which too little happened proves nothing: [`Limits`] says how much is enough, and [`Verdict::vacuous`] what
//! was missing. No clock, no I/O, no randomness.

mod checks;
mod findings;
mod history;
mod index;
mod limits;
mod verdict;
mod violation;

pub use findings::{Findings, KEPT};
pub use history::{
    Append, Chain, Delivery, FOREIGN, Fault, History, Op, Outcome, Query, Reading, Segment, Session, Tail,
};
pub use limits::{Limits, Vacuity};
pub use verdict::{Figures, Silences, TailFigures, Verdict, check};
pub use violation::{Check, Source, Violation, Witness};
