//! How a producer tells the outcome of a record: a future, or a callback.

use crate::record::Ack;
use client_core::SendError;
use seam_wire::ErrorCode;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::oneshot;

/// The outcome of one record that was sent with a token.
#[derive(Clone, Debug)]
pub struct Completion {
    /// As given to `send_due`.
    pub token: u64,
    /// As given to `send_due`.
    pub due: Instant,
    /// When the outcome was known to the producer, before anything is delivered.
    pub done: Instant,
    pub result: Result<Ack, SendError>,
}

/// The outcome of one record, to be awaited. Dropping it changes nothing for the record. It ends within the producer's
/// deadline, whatever happens to the cluster.
#[derive(Debug)]
#[must_use = "an outcome nobody looks at is a lost record nobody misses"]
pub struct SendHandle {
    state: State,
}

#[derive(Debug)]
enum State {
    Failed(Option<SendError>),
    Waiting(oneshot::Receiver<Result<Ack, SendError>>),
}

impl SendHandle {
    pub(crate) fn failed(error: SendError) -> Self {
        SendHandle { state: State::Failed(Some(error)) }
    }

    pub(crate) fn waiting(outcome: oneshot::Receiver<Result<Ack, SendError>>) -> Self {
        SendHandle { state: State::Waiting(outcome) }
    }
}

impl Future for SendHandle {
    type Output = Result<Ack, SendError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            State::Failed(error) => Poll::Ready(Err(error.take().expect("a handle is not polled after it is done"))),
            State::Waiting(outcome) => Pin::new(outcome).poll(cx).map(|outcome| {
                outcome.unwrap_or_else(|_| {
                    let detail = "the runtime of the producer was shut down while the record was under way";
                    Err(SendError::unknown(ErrorCode::Unavailable, detail))
                })
            }),
        }
    }
}
