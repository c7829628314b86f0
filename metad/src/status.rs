//! Refusals in the words of gRPC, so that a client knows where to go and whether to come again.

use crate::engine::Engine;
use metad_core::Answer;
use seam_transport::meta_client::{LEADER_KEY, RETRY_KEY};
use seam_wire::error::{Certainty, ErrorCode, WireError};
use std::sync::atomic::Ordering;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Names the leader to whoever asked, where it is known.
pub fn name_leader(engine: &Engine, metadata: &mut MetadataMap) {
    let leader = engine.log().leadership().borrow().leader.clone();
    if let Some(value) = leader.and_then(|name| MetadataValue::try_from(name).ok()) {
        metadata.insert(LEADER_KEY, value);
    }
}

/// Only the leader can answer this.
pub fn not_leader(engine: &Engine) -> Status {
    let mut status = Status::unavailable("not the metadata leader; ask the leader");
    name_leader(engine, status.metadata_mut());
    status
}

/// A request that says something it must not, counted.
pub fn bad(engine: &Engine, why: impl Into<String>) -> Status {
    engine.counts.bad_requests.fetch_add(1, Ordering::Relaxed);
    Status::invalid_argument(why)
}

/// A request by someone who may not make it, counted.
pub fn denied(engine: &Engine, why: impl Into<String>) -> Status {
    engine.counts.bad_requests.fetch_add(1, Ordering::Relaxed);
    Status::permission_denied(why)
}

/// An answer that is no answer to this kind of request: a mistake in this program.
pub fn unexpected(answer: &Answer) -> Status {
    Status::internal(format!("unexpected answer {answer:?}: this is a bug"))
}

/// An error of the driver.
pub fn failed(error: WireError) -> Status {
    let code = match (error.code, error.certainty) {
        // Another attempt is safe and likely to be answered by the leader that knows.
        (_, Certainty::Indeterminate) => Code::Aborted,
        (ErrorCode::UnknownTopic | ErrorCode::UnknownRange | ErrorCode::UnknownSegment, _) => Code::NotFound,
        (ErrorCode::AlreadyExists, _) => Code::AlreadyExists,
        (ErrorCode::InvalidArgument | ErrorCode::OffsetOutOfRange | ErrorCode::Trimmed { .. }, _) => {
            Code::InvalidArgument
        }
        (ErrorCode::NotAuthorized, _) => Code::PermissionDenied,
        (ErrorCode::Overloaded, _) => Code::ResourceExhausted,
        (ErrorCode::Internal, _) => Code::Internal,
        (
            ErrorCode::Unavailable
            | ErrorCode::NotPrimary
            | ErrorCode::BadFrame
            | ErrorCode::BadBatch
            | ErrorCode::BatchTooLarge
            | ErrorCode::ProducerFenced
            | ErrorCode::OutOfSequence
            | ErrorCode::TooManyProducers
            | ErrorCode::Fenced
            | ErrorCode::DeadlineExceeded,
            Certainty::Definite,
        ) => Code::FailedPrecondition,
    };
    let mut status = Status::new(code, error.detail);
    if error.retryable && error.certainty == Certainty::Definite {
        status.metadata_mut().insert(RETRY_KEY, MetadataValue::from_static("1"));
    }
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_pass_by_itself_invites_a_retry() {
        let full = failed(WireError::retry(ErrorCode::Unavailable, "no place"));
        assert_eq!(full.code(), Code::FailedPrecondition);
        assert!(full.metadata().contains_key(RETRY_KEY));
        let there = failed(WireError::refused(ErrorCode::AlreadyExists, "there"));
        assert_eq!(there.code(), Code::AlreadyExists);
        assert!(!there.metadata().contains_key(RETRY_KEY));
        assert_eq!(failed(WireError::unknown(ErrorCode::Unavailable, "lost")).code(), Code::Aborted);
    }
}
