//! The decisions of a segd node, with no I/O: no sockets, no files, no clock, no randomness.
//!
//! Sub-machines (`fence`, `replica`, `quorum`, `gate`, `handoff`, `primary`, `recovery`, `table`) know nothing of time and
//! measurement: the model checker runs these very types to exhaustion. `node` composes them, with timers and rates beside.
//! Invariants R1-R15 of the roll protocol are named where they are asserted.

pub mod fence;
pub mod gate;
pub mod handoff;
pub mod io;
pub mod marks;
pub mod node;
pub mod primary;
pub mod quorum;
pub mod recovery;
pub mod replica;
pub mod table;
pub use seam_wire::traps;
