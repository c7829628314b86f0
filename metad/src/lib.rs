//! metad: the metadata service around the pure [`metad_core`] and the replicated [`metad_log`].
//!
//! This shell receives, calls the core, carries out what it says, and decides nothing.
//!
//! | module | what it is |
//! | --- | --- |
//! | `config` | `metad.toml` |
//! | `engine` | state and driver under one lock: commands applied, inputs handled, effects carried out |
//! | `envelope` | commands as they stand in the log |
//! | `machine` | the engine as the log's state machine |
//! | `lead` | leadership and time, told to the driver |
//! | `hub`, `watching` | recent updates, and the streams that send them |
//! | `nodes`, `admin`, `views` | the gRPC services, and what they show |
//! | `session` | a node's stream of heartbeats, and its end |
//! | `status` | refusals in the words of gRPC |
//! | `metrics`, `news` | what a member shows of itself, and tells in its log |
//! | `server` | one member, from its settings to its end |

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin;
pub mod config;
mod engine;
mod envelope;
mod hub;
mod lead;
mod machine;
mod metrics;
mod news;
mod nodes;
mod server;
mod session;
mod status;
mod traces;
mod views;
mod watching;

pub use server::{Metad, StartError};
