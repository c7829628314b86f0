//! What the tests measure instead of a cluster. `synthetic` is a target that runs in real time; `simulated` makes data of a
//! whole comparison with no time passing.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod simulated;
pub mod synthetic;
