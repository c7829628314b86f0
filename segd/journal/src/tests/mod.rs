//! Tests of the journal's inside: the parts without threads, on the simulated disk, so that every run repeats.

#![allow(clippy::unwrap_used)]

mod corruption;
mod crash;
mod engine;
