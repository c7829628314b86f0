//! What the tests measure instead of a cluster, and what they check of reports. `synthetic` is a target that runs in real time; `simulated` makes data of a
//! whole comparison with no time passing.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod contract;
pub mod simulated;
pub mod synthetic;
