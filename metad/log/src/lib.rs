//! The replicated command log under the metadata state machine: a contract and two implementations.
//!
//! [`MetaLog`] and [`StateMachine`] are the contract, [`raft::RaftLog`] is the embedded Raft, [`memory`] a log within
//! one process. What the commands mean is not known here.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod contract;
pub mod memory;
pub mod raft;

pub use contract::{Leadership, LogStatus, MetaLog, ProposeError, RestoreError, StateMachine};
