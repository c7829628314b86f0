//! Reading records.

mod builder;
mod range;

pub use builder::{ConsumerBuilder, ReadFrom};

use crate::client::Client;
use crate::error::{ConsumeError, Error};
use crate::lane::Lane;
use crate::query;
use crate::record::ConsumedRecord;
use builder::Settings;
use bytes::Bytes;
use client_core::tail::{Tail, TailFailure, TailSettings};
use futures::Stream;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use range::{Chunk, RangeTail, Step};
use seam_wire::Offset;
use seam_wire::batch::{self, Record};
use seam_wire::error::{ErrorCode, WireError};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

/// A whole batch as it lies in the log, its checksum verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedBatch {
    /// Index of the range in its topic, from 0.
    pub range: u32,
    /// The first record to deliver; above the batch's own base only where reading began within it.
    pub first: Offset,
    /// The offset after the last record.
    pub next: Offset,
    /// The record batch; [`ConsumedBatch::records`] decodes it.
    pub bytes: Bytes,
}

impl ConsumedBatch {
    /// The records from `first` on. Errors: `Damaged`. Memory is bounded by the batch limits.
    pub fn records(&self) -> Result<Vec<ConsumedRecord>, ConsumeError> {
        let records = batch::records(&self.bytes).map_err(|error| {
            let (range, offset) = (self.range, self.first);
            ConsumeError::Damaged { range, offset, detail: error.to_string() }
        })?;
        Ok(records
            .into_iter()
            .filter(|record| record.offset >= self.first)
            .map(|it| consumed(self.range, it))
            .collect())
    }
}

fn consumed(range: u32, record: Record) -> ConsumedRecord {
    let Record { offset, timestamp_ms, key, value, headers } = record;
    ConsumedRecord { range, offset, timestamp_ms, key, value, headers }
}

type NextStep = BoxFuture<'static, (Box<RangeTail>, Step)>;

/// The tails of all ranges, each either being read or over.
struct Tails {
    reading: FuturesUnordered<NextStep>,
    topic: String,
    follow: bool,
}

impl Tails {
    async fn start(client: Client, topic: String, settings: Settings, decode: bool) -> Result<Tails, Error> {
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
        let indices = match settings.range {
            Some(index) => index..index + 1,
            None => 0..query::ranges(&client, &topic).await?,
        };
        // Who follows waits out any failure; who wants an end wants to know.
        let give_up_us = if settings.follow { None } else { Some(config.request_timeout_ms.saturating_mul(1_000)) };
        let machine = TailSettings { give_up_us, ..TailSettings::default() };
        let mut tails = Tails { reading: FuturesUnordered::new(), topic: topic.clone(), follow: settings.follow };
        for index in indices {
            let tail = Tail::new(settings.from.into(), machine);
            let (lane, clock) = (Arc::clone(&lane), client.inner.clock);
            tails.read(Box::new(RangeTail::new(lane, clock, topic.clone(), index, decode, tail)));
        }
        Ok(tails)
    }

    fn read(&mut self, mut tail: Box<RangeTail>) {
        let follow = self.follow;
        self.reading.push(Box::pin(async move {
            let step = tail.next(follow).await;
            (tail, step)
        }));
    }

    /// The next chunk of any range; `None` when all have ended.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<(u32, Chunk), ConsumeError>>> {
        loop {
            let Some((tail, step)) = ready!(Pin::new(&mut self.reading).poll_next(cx)) else {
                return Poll::Ready(None);
            };
            let range = tail.index;
            match step {
                Step::Chunk(chunk) => {
                    self.read(tail);
                    return Poll::Ready(Some(Ok((range, chunk))));
                }
                Step::Finished => {}
                Step::Failed(failure) => {
                    // Half a topic is no topic: the others end too.
                    self.reading.clear();
                    return Poll::Ready(Some(Err(self.failure(range, failure))));
                }
            }
        }
    }

    fn failure(&self, range: u32, failure: TailFailure) -> ConsumeError {
        let topic = self.topic.clone();
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

/// Reads a topic batch by batch: the fast way for programs that copy or count.
pub struct BatchConsumer {
    tails: Tails,
}

impl fmt::Debug for BatchConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchConsumer").field("topic", &self.tails.topic).finish_non_exhaustive()
    }
}

impl BatchConsumer {
    pub(crate) async fn start(client: Client, topic: String, settings: Settings) -> Result<Self, Error> {
        Ok(BatchConsumer { tails: Tails::start(client, topic, settings, false).await? })
    }

    /// The next batch; `None` when all that was asked for has come. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<ConsumedBatch, ConsumeError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for BatchConsumer {
    type Item = Result<ConsumedBatch, ConsumeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.tails.poll_next(cx));
        Poll::Ready(next.map(|chunk| {
            let (range, Chunk { first, next, bytes, records: _ }) = chunk?;
            Ok(ConsumedBatch { range, first, next, bytes })
        }))
    }
}

/// Reads a topic record by record: each exactly once and, within a range, in order. It survives broken connections and
/// goes on after the last record it delivered. An error ends it.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seamlog::{Client, ClientConfig, ReadFrom};
///
/// let client = Client::connect(ClientConfig::load("client.toml")?)?;
/// let mut consumer = client.consumer("events").from(ReadFrom::Earliest).follow(false).build().await?;
/// while let Some(record) = consumer.next().await {
///     let record = record?;
///     println!("{}/{}: {:?}", record.range, record.offset, record.value);
/// }
/// # Ok(())
/// # }
/// ```
///
/// It is a `Stream` too, for those who prefer combinators.
pub struct Consumer {
    tails: Tails,
    /// The rest of the batch in hand.
    range: u32,
    records: std::vec::IntoIter<Record>,
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("topic", &self.tails.topic).finish_non_exhaustive()
    }
}

impl Consumer {
    pub(crate) async fn start(client: Client, topic: String, settings: Settings) -> Result<Self, Error> {
        let tails = Tails::start(client, topic, settings, true).await?;
        Ok(Consumer { tails, range: 0, records: Vec::new().into_iter() })
    }

    /// The next record; `None` when all that was asked for has come. Cancel safe.
    pub async fn next(&mut self) -> Option<Result<ConsumedRecord, ConsumeError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for Consumer {
    type Item = Result<ConsumedRecord, ConsumeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(record) = self.records.next() {
                return Poll::Ready(Some(Ok(consumed(self.range, record))));
            }
            match ready!(self.tails.poll_next(cx)) {
                None => return Poll::Ready(None),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                Some(Ok((range, chunk))) => {
                    let mut records = chunk.records.expect("asked for decoded batches").into_iter();
                    let below = records.as_slice().partition_point(|record| record.offset < chunk.first);
                    records.by_ref().take(below).for_each(drop);
                    self.range = range;
                    self.records = records;
                }
            }
        }
    }
}
