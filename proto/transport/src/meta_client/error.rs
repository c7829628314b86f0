//! What a call to the metadata cluster can end in.

use thiserror::Error;
use tonic::{Code, Status};

/// Why a call gave no answer.
#[derive(Clone, Debug, Error)]
pub enum MetaError {
    /// A member looked at the request and said no. Asking again is pointless before something changes.
    #[error("{}", .0.message())]
    Refused(Status),
    /// Most members and this process do not trust each other's certificates: asking again is pointless before certificates or
    /// settings change. With `unsure` an earlier attempt broke off in another way and may have taken effect; a refusal can be
    /// lost with its connection.
    #[error("no metad member that trusts us and is trusted by us: {members}")]
    Untrusted { members: String, unsure: bool },
    /// No leader answered in time. Making the request again is safe; with `unsure` it may have taken effect.
    #[error(
        "no answer from the metadata cluster to {call} within {timeout_ms} ms ({last}); check that a majority of metad members is up and reachable"
    )]
    Deadline { call: &'static str, timeout_ms: u64, last: String, unsure: bool },
}

impl MetaError {
    /// The member's code, where one spoke.
    pub fn code(&self) -> Option<Code> {
        match self {
            MetaError::Refused(status) => Some(status.code()),
            MetaError::Untrusted { .. } | MetaError::Deadline { .. } => None,
        }
    }
}

/// Metadata key of a refusal that may pass by itself, e.g. while nodes register. The client tries again for
/// `settle_ms`, then hands the refusal on.
pub const RETRY_KEY: &str = "seam-retry";

/// What to do after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// The request itself is at fault.
    GiveUp,
    /// This member cannot; another may.
    Elsewhere,
    /// The cluster is busy; the same member is right.
    Later,
    /// A refusal that may pass by itself.
    Settle,
}

pub(super) fn next_after(status: &Status) -> Next {
    if status.metadata().contains_key(RETRY_KEY) {
        return Next::Settle;
    }
    match status.code() {
        Code::Unavailable
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::Internal
        | Code::DataLoss => Next::Elsewhere,
        Code::ResourceExhausted => Next::Later,
        Code::Ok
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::Unimplemented
        | Code::Unauthenticated => Next::GiveUp,
    }
}
