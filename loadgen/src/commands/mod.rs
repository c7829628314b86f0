//! What the binary offers, each over any `Target`.

pub mod bench;
pub mod progress;
pub mod replay;
pub mod roll;
pub mod rolls;
pub mod verify;
pub mod verify_report;

use crate::report::contract::Report;
use crate::rtt::RttError;
use crate::target::TargetError;
use thiserror::Error;

/// Why a command could not be carried out. A claim that fails is no error; it is in the report.
#[derive(Debug, Error)]
pub enum CommandError {
    #[error("{what}: {source}")]
    Target { what: String, source: TargetError },
    #[error(transparent)]
    Rtt(#[from] RttError),
    #[error("{what}: {source}")]
    File { what: String, source: std::io::Error },
    #[error("{0}")]
    Settings(String),
}

impl CommandError {
    fn target(what: impl Into<String>) -> impl FnOnce(TargetError) -> CommandError {
        let what = what.into();
        |source| CommandError::Target { what, source }
    }

    fn file(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> CommandError {
        let what = what.into();
        |source| CommandError::File { what, source }
    }
}

/// Whether everything that was claimed of a run held.
pub fn all_hold(report: &Report) -> bool {
    report.claims.iter().all(|c| c.holds)
}

/// What an ack means, for people.
pub fn durability(ack: &str, ack_quorum: u32, replicas: u32) -> String {
    match ack {
        "durable" => format!("on disk (fdatasync) at {ack_quorum} of {replicas} replicas before the ack"),
        "replicated" => format!("received by {ack_quorum} of {replicas} replicas before the ack, not yet on disk"),
        other => format!("{other}, {ack_quorum} of {replicas} replicas"),
    }
}
