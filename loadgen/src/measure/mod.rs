//! How figures are taken: schedules, samples, windows, silences, statistics, verification. Pure: no clock, no I/O, and
//! randomness only from a seed that comes in.

pub mod analyse;
pub mod latency;
pub mod lateness;
pub mod placebo;
pub mod sample;
pub mod schedule;
pub mod series;
pub mod silence;
pub mod stats;
pub mod verify;
pub mod window;
