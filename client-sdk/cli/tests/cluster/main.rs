//! Real processes: each test starts a cluster of the service programs that lie beside `seam`, drives it through the SDK and
//! the commands, and takes it down whatever happens. What is checked is what an application sees and what `/metrics` and
//! the roll history say; nothing waits for a time, everything for a condition with a bound.
//!
//! Wants all programs: `cargo build --release --workspace --bins`. One cluster at a time: each takes the whole machine.

mod bad_input;
mod certificates;
mod crashes;
mod explain;
mod faults;
mod groups;
mod harness;
mod load;
mod loss;
mod metad_paused;
mod otlp;
mod raw;
mod recoveries;
mod replay;
mod restarts;
mod retention;
mod scale;
mod shell;
mod soft_mark;
mod strangers;
mod traces;
mod zombie;
