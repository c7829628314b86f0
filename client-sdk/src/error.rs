//! What can go wrong, each with the evidence and the remedy.

use crate::group::GroupError;
use seam_transport::TlsError;
use seam_transport::config::ConfigError;
use seam_transport::quic::EndpointError;
use seam_wire::topic::TopicConfigError;
use seam_wire::{Certainty, ErrorCode, Offset, WireError};
use thiserror::Error;

/// A client that cannot be made, or a request that failed.
#[derive(Debug, Error)]
pub enum Error {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error("the settings name no {0}; add at least one to client.toml")]
    NoPeers(&'static str),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    #[error(transparent)]
    Topic(#[from] TopicConfigError),
    /// A setting of a builder is out of its bounds.
    #[error("{0}")]
    Setting(String),
    /// The cluster refused or could not answer.
    #[error("{what}: {source}")]
    Request { what: String, source: WireError },
    /// The cluster answered something that makes no sense.
    #[error("{what}: the answer makes no sense: {detail}; check that client and servers are of one version")]
    Protocol { what: String, detail: String },
}

impl Error {
    /// The stable code, where the failure has one.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Error::Request { source, .. } => Some(source.code),
            Error::Topic(_) | Error::Setting(_) => Some(ErrorCode::InvalidArgument),
            Error::Config(_) | Error::NoPeers(_) | Error::Tls(_) | Error::Endpoint(_) | Error::Protocol { .. } => None,
        }
    }

    /// Whether the same request may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Request { source, .. } if source.retryable)
    }

    /// Whether the failed request may have taken effect.
    pub fn certainty(&self) -> Certainty {
        match self {
            Error::Request { source, .. } => source.certainty,
            Error::Config(_)
            | Error::NoPeers(_)
            | Error::Tls(_)
            | Error::Endpoint(_)
            | Error::Topic(_)
            | Error::Setting(_) => Certainty::Definite,
            Error::Protocol { .. } => Certainty::Indeterminate,
        }
    }
}

/// Why a consumer cannot go on. Broken connections and restarts are not among them: those it survives by itself.
///
/// [`ConsumeError::Trimmed`] and [`ConsumeError::Lost`] are no end: they say what the reader missed, and the consumer goes on
/// after it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConsumeError {
    /// Retention deleted the records `[from, start)` of this range before they were read. Told once; the next record of the
    /// range is that at `start`.
    #[error(
        "range {range}: retention deleted offsets {from} to {start} before they were read; reading goes on at {start}"
    )]
    Trimmed { range: u32, from: Offset, start: Offset },
    /// A gap entry: an operator gave up what `[from, next)` may have held of this range, because nobody could tell any more.
    /// Records above `from` that were read before are not in the log now. Told once; the next record is that at `next`, or
    /// above.
    #[error(
        "range {range}: an operator gave up what offsets {from} to {next} may have held, which no replica could tell any more; \
         reading goes on at {next}"
    )]
    Lost { range: u32, from: Offset, next: Offset },
    #[error("topic {topic:?}: {detail}")]
    UnknownTopic { topic: String, detail: String },
    #[error("topic {topic:?} has no range {range}: {detail}")]
    UnknownRange { topic: String, range: u32, detail: String },
    #[error("range {range}: {detail}")]
    OffsetOutOfRange { range: u32, detail: String },
    #[error("not authorized: {0}")]
    NotAuthorized(String),
    /// The same batch came damaged from every router and replica that was tried.
    #[error("range {range}, offset {offset}: the batch is damaged: {detail}")]
    Damaged { range: u32, offset: Offset, detail: String },
    /// Records are missing or out of order in what every router that was tried sent.
    #[error("range {range}: offset {expected} was due, but {found} came; the log has a hole, or a router is wrong")]
    Hole { range: u32, expected: Offset, found: Offset },
    /// A consumer that does not follow heard nothing within `request_timeout_ms`.
    #[error("range {range}: {error}")]
    Unavailable { range: u32, error: WireError },
    /// The cluster refused for another reason.
    #[error("range {range}: {error}")]
    Refused { range: u32, error: WireError },
    /// A member of a consumer group cannot go on.
    #[error(transparent)]
    Group(#[from] GroupError),
}

impl ConsumeError {
    /// Whether the consumer goes on after this error: something was missed, and nothing is broken.
    pub fn is_passing(&self) -> bool {
        matches!(self, ConsumeError::Trimmed { .. } | ConsumeError::Lost { .. })
    }
}
