//! The decisions of the client SDK: which range a record goes to, what is in a batch, what is in flight, what is sent
//! again and when, what a failure means, where a tail goes on. No I/O, no clock, no randomness: time comes in as an
//! argument, effects go out as values.

mod error;

pub use error::SendError;
