//! Errors that say what they know: what went wrong, whether it may have happened, whether to try again.

use crate::Offset;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What went wrong. Stable: clients match on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorCode {
    UnknownTopic,
    UnknownRange,
    /// The segment is not known here, was reclaimed, or is not served by this node.
    UnknownSegment,
    NotPrimary,
    OffsetOutOfRange,
    /// What was asked for lies below the log's start: retention deleted it. Reading goes on from `start`.
    Trimmed {
        start: Offset,
    },
    /// A frame whose length, checksum or version is wrong. The stream is closed.
    BadFrame,
    /// A batch that does not parse or whose counts are not true.
    BadBatch,
    BatchTooLarge,
    /// A newer epoch of the same producer exists.
    ProducerFenced,
    /// A sequence that is neither the next nor a remembered one.
    OutOfSequence,
    TooManyProducers,
    /// A queue or window is full; the request was not taken.
    Overloaded,
    /// The writer lost its right while the request was in flight.
    Fenced,
    /// Not enough replicas, or no successor yet.
    Unavailable,
    DeadlineExceeded,
    NotAuthorized,
    InvalidArgument,
    AlreadyExists,
    Internal,
}

impl ErrorCode {
    /// Its name alone, without the data: one of a few words, fit for the label of a metric.
    pub fn name(&self) -> &'static str {
        match self {
            ErrorCode::UnknownTopic => "UnknownTopic",
            ErrorCode::UnknownRange => "UnknownRange",
            ErrorCode::UnknownSegment => "UnknownSegment",
            ErrorCode::NotPrimary => "NotPrimary",
            ErrorCode::OffsetOutOfRange => "OffsetOutOfRange",
            ErrorCode::Trimmed { .. } => "Trimmed",
            ErrorCode::BadFrame => "BadFrame",
            ErrorCode::BadBatch => "BadBatch",
            ErrorCode::BatchTooLarge => "BatchTooLarge",
            ErrorCode::ProducerFenced => "ProducerFenced",
            ErrorCode::OutOfSequence => "OutOfSequence",
            ErrorCode::TooManyProducers => "TooManyProducers",
            ErrorCode::Overloaded => "Overloaded",
            ErrorCode::Fenced => "Fenced",
            ErrorCode::Unavailable => "Unavailable",
            ErrorCode::DeadlineExceeded => "DeadlineExceeded",
            ErrorCode::NotAuthorized => "NotAuthorized",
            ErrorCode::InvalidArgument => "InvalidArgument",
            ErrorCode::AlreadyExists => "AlreadyExists",
            ErrorCode::Internal => "Internal",
        }
    }
}

/// Whether the failed request may have taken effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Certainty {
    /// It did not happen and will not.
    Definite,
    /// It may have happened, or may yet.
    Indeterminate,
}

/// An error as it travels. `detail` carries the evidence and the remedy, for people.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct WireError {
    pub code: ErrorCode,
    pub certainty: Certainty,
    pub retryable: bool,
    pub detail: String,
}

impl WireError {
    /// It did not happen; trying the same again is pointless.
    pub fn refused(code: ErrorCode, detail: impl Into<String>) -> Self {
        WireError { code, certainty: Certainty::Definite, retryable: false, detail: detail.into() }
    }

    /// It did not happen; try again later or elsewhere.
    pub fn retry(code: ErrorCode, detail: impl Into<String>) -> Self {
        WireError { code, certainty: Certainty::Definite, retryable: true, detail: detail.into() }
    }

    /// A read below the log's start. Definite and final: what lies there is deleted.
    pub fn trimmed(wanted: Offset, start: Offset) -> Self {
        let detail = format!("offset {wanted} was deleted by retention; the log starts at {start}, read on from there");
        WireError::refused(ErrorCode::Trimmed { start }, detail)
    }

    /// It may have happened. Retryable for an idempotent producer, which cannot write twice.
    pub fn unknown(code: ErrorCode, detail: impl Into<String>) -> Self {
        WireError { code, certainty: Certainty::Indeterminate, retryable: true, detail: detail.into() }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let certainty = match self.certainty {
            Certainty::Definite => "it did not happen",
            Certainty::Indeterminate => "it may have happened",
        };
        write!(f, "{}: {} ({certainty})", self.code.name(), self.detail)
    }
}

impl std::error::Error for WireError {}
