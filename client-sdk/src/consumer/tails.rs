//! The tails of a topic's ranges, each being read or over; begun and ended one by one.

use super::Settings;
use super::range::{Chunk, RangeTail, Step};
use super::seek::{Source, place};
use crate::client::Client;
use crate::error::{ConsumeError, Error};
use crate::lane::Lane;
use crate::query;
use client_core::tail::{TailFailure, TailSettings};
use futures::future::{AbortHandle, Abortable, Aborted, BoxFuture};
use futures::stream::{FuturesUnordered, Stream};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::TailFrom;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

type NextStep = Abortable<BoxFuture<'static, (u32, Option<Box<RangeTail>>, Step)>>;

/// Finds out where a tail starts.
pub(crate) type Start = BoxFuture<'static, Result<TailFrom, WireError>>;

pub(crate) struct Tails {
    reading: FuturesUnordered<NextStep>,
    /// Of the ranges that are read.
    handles: BTreeMap<u32, AbortHandle>,
    source: Source,
    follow: bool,
    decode: bool,
}

impl Tails {
    /// The tails of the ranges that the settings ask for.
    pub async fn start(client: Client, topic: String, settings: Settings, decode: bool) -> Result<Tails, Error> {
        let mut tails = Tails::connect(&client, topic, &settings, decode).await?;
        let indices = match settings.range {
            Some(index) => index..index + 1,
            None => 0..query::ranges(&client, tails.topic()).await?,
        };
        for range in indices {
            let (source, from) = (tails.source.clone(), settings.from);
            tails.begin(range, Box::pin(async move { place(&source, range, from).await }));
        }
        Ok(tails)
    }

    /// None yet, but a router to read from.
    pub async fn connect(client: &Client, topic: String, settings: &Settings, decode: bool) -> Result<Tails, Error> {
        settings.validate()?;
        let request = |source| Error::Request { what: format!("consume {topic:?}"), source };
        client.inner.lane().map_err(request)?;
        let config = &client.inner.config;
        // A lane of its own: what it leaves unread fills its own windows only.
        let quic = settings.windows(config.quic.clone());
        let lane = Arc::new(Lane::new(config, quic, &client.inner.tls)?);
        let reachable = tokio::time::timeout(client.request_timeout(), lane.get(None)).await;
        let timed_out = || WireError::retry(ErrorCode::DeadlineExceeded, "no router answered in time");
        reachable.unwrap_or_else(|_| Err(timed_out())).map_err(request)?;
        // Who follows waits out any failure; who wants an end wants to know.
        let give_up_us = if settings.follow { None } else { Some(config.request_timeout_ms.saturating_mul(1_000)) };
        let machine = TailSettings { give_up_us, ..TailSettings::default() };
        let (clock, timeout, stuck) = (client.inner.clock, client.request_timeout(), Arc::clone(&client.inner.stuck));
        Ok(Tails {
            reading: FuturesUnordered::new(),
            handles: BTreeMap::new(),
            source: Source { lane, clock, topic, machine, timeout, stuck },
            follow: settings.follow,
            decode,
        })
    }

    pub fn topic(&self) -> &str {
        &self.source.topic
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Begins to read a range that is not read.
    pub fn begin(&mut self, range: u32, start: Start) {
        let (source, follow, decode) = (self.source.clone(), self.follow, self.decode);
        self.push(
            range,
            Box::pin(async move {
                match start.await {
                    Ok(from) => {
                        let mut tail = Box::new(source.tail(range, from, decode));
                        let step = tail.next(follow).await;
                        (range, Some(tail), step)
                    }
                    Err(error) => (range, None, Step::Failed(TailFailure::Refused(error))),
                }
            }),
        );
    }

    /// Reads no more of a range; what came of it and was not taken is dropped.
    pub fn end(&mut self, range: u32) {
        if let Some(handle) = self.handles.remove(&range) {
            handle.abort();
        }
    }

    fn push(&mut self, range: u32, next: BoxFuture<'static, (u32, Option<Box<RangeTail>>, Step)>) {
        let (handle, registration) = AbortHandle::new_pair();
        let replaced = self.handles.insert(range, handle);
        assert!(replaced.is_none(), "range {range} is read twice");
        self.reading.push(Abortable::new(next, registration));
    }

    fn go_on(&mut self, mut tail: Box<RangeTail>) {
        let (range, follow) = (tail.index, self.follow);
        self.push(
            range,
            Box::pin(async move {
                let step = tail.next(follow).await;
                (range, Some(tail), step)
            }),
        );
    }

    /// The next chunk of any range; `None` when none is read.
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(u32, Chunk), ConsumeError>>> {
        loop {
            let Some(stepped) = ready!(Pin::new(&mut self.reading).poll_next(cx)) else {
                return Poll::Ready(None);
            };
            let Ok((range, tail, step)) = stepped.map_err(|Aborted| ()) else {
                continue;
            };
            self.handles.remove(&range);
            match step {
                Step::Chunk(chunk) => {
                    self.go_on(tail.expect("a chunk came from a tail"));
                    return Poll::Ready(Some(Ok((range, chunk))));
                }
                Step::Trimmed { from, start } => {
                    self.go_on(tail.expect("a trim was told by a tail"));
                    return Poll::Ready(Some(Err(ConsumeError::Trimmed { range, from, start })));
                }
                Step::Lost { from, next } => {
                    self.go_on(tail.expect("a loss was told by a tail"));
                    return Poll::Ready(Some(Err(ConsumeError::Lost { range, from, next })));
                }
                Step::Finished => {}
                Step::Failed(failure) => {
                    // Half a topic is no topic: the others end too.
                    self.reading.clear();
                    self.handles.clear();
                    return Poll::Ready(Some(Err(self.failure(range, failure))));
                }
            }
        }
    }

    fn failure(&self, range: u32, failure: TailFailure) -> ConsumeError {
        let topic = self.source.topic.clone();
        let error = match failure {
            TailFailure::Hole { expected, found } => return ConsumeError::Hole { range, expected, found },
            TailFailure::Damaged { at, detail } => return ConsumeError::Damaged { range, offset: at, detail },
            TailFailure::Refused(error) => error,
        };
        match error.code {
            ErrorCode::UnknownTopic => ConsumeError::UnknownTopic { topic, detail: error.detail },
            ErrorCode::UnknownRange => ConsumeError::UnknownRange { topic, range, detail: error.detail },
            ErrorCode::OffsetOutOfRange => ConsumeError::OffsetOutOfRange { range, detail: error.detail },
            ErrorCode::NotAuthorized => ConsumeError::NotAuthorized(error.detail),
            ErrorCode::Unavailable | ErrorCode::DeadlineExceeded => ConsumeError::Unavailable { range, error },
            ErrorCode::UnknownSegment
            | ErrorCode::NotPrimary
            | ErrorCode::Trimmed { .. }
            | ErrorCode::BadFrame
            | ErrorCode::BadBatch
            | ErrorCode::BatchTooLarge
            | ErrorCode::ProducerFenced
            | ErrorCode::OutOfSequence
            | ErrorCode::TooManyProducers
            | ErrorCode::Overloaded
            | ErrorCode::Fenced
            | ErrorCode::InvalidArgument
            | ErrorCode::AlreadyExists
            | ErrorCode::Internal => ConsumeError::Refused { range, error },
        }
    }
}
