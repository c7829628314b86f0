//! The decisions of the client SDK: which range a record goes to, what is in a batch, what is in flight, what is sent
//! again and when, what a failure means, where a tail goes on. No I/O, no clock, no randomness: time comes in as an
//! argument, effects go out as values.
//!
//! | module | decides |
//! | --- | --- |
//! | [`partition`] | which range a key belongs to |
//! | [`accumulate`] | which records share a batch, and when it goes |
//! | [`producer`] | sequences, retries, order and outcome of the batches of one range |
//! | [`tail`] | what of a tail is delivered, and where it goes on after a break |
//! | [`group`] | who is a member of a consumer group, who owns which range, what is committed |
//! | [`seek`] | which batches to read to find a moment |

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod accumulate;
mod error;
pub mod group;
pub mod partition;
pub mod producer;
pub mod seek;
pub mod tail;

pub use error::SendError;
