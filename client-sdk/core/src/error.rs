//! What an application is told of a record that was not acknowledged.

use seam_wire::{Certainty, ErrorCode, WireError};
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// A record that was not acknowledged, and what is known of it.
///
/// The producer has already retried what could be retried, until the record's deadline: an error here is final for the
/// record. Sending a record again after an [`Certainty::Indeterminate`] error may write it twice.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub struct SendError {
    /// `Definite`: it is not in the log and never will be. `Indeterminate`: it may be, or may yet.
    pub certainty: Certainty,
    /// Whether sending the record again later has a chance.
    pub retryable: bool,
    pub code: ErrorCode,
    /// The evidence and the remedy, for people. Shared by all records of a batch.
    pub detail: Arc<str>,
}

impl SendError {
    /// It did not happen and trying again is pointless.
    pub fn refused(code: ErrorCode, detail: impl Into<Arc<str>>) -> Self {
        SendError { certainty: Certainty::Definite, retryable: false, code, detail: detail.into() }
    }

    /// It did not happen; later it may.
    pub fn retry(code: ErrorCode, detail: impl Into<Arc<str>>) -> Self {
        SendError { certainty: Certainty::Definite, retryable: true, code, detail: detail.into() }
    }

    /// It may have happened.
    pub fn unknown(code: ErrorCode, detail: impl Into<Arc<str>>) -> Self {
        SendError { certainty: Certainty::Indeterminate, retryable: true, code, detail: detail.into() }
    }

    /// Whether the record is certainly not in the log.
    pub fn is_definite(&self) -> bool {
        self.certainty == Certainty::Definite
    }
}

impl From<WireError> for SendError {
    fn from(error: WireError) -> Self {
        let WireError { code, certainty, retryable, detail } = error;
        SendError { certainty, retryable, code, detail: detail.into() }
    }
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certainty = match self.certainty {
            Certainty::Definite => "the record was not written",
            Certainty::Indeterminate => "the record may have been written",
        };
        write!(f, "{:?}: {} ({certainty})", self.code, self.detail)
    }
}
