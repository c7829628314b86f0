//! The load generator: open-loop load, verification, and the report that says whether a roll is felt.
//!
//! `measure` is arithmetic (no clock, no I/O), `report` and `html` turn its results into JSON, a table and a page,
//! `drive` puts load on a `target::Target`, `verify` proves and breaks, `commands` are what the binary offers. Not a client library: that is `seamlog`.

pub mod cli;
pub mod clock;
pub mod commands;
pub mod drive;
pub mod environment;
pub mod html;
pub mod measure;
pub mod record;
pub mod report;
pub mod rtt;
pub mod seam;
pub mod target;
pub mod verify;
