//! Reading records.

mod builder;
pub(crate) mod range;
mod seek;
pub(crate) mod tails;

pub(crate) use builder::Settings;
pub use builder::{ConsumerBuilder, ReadFrom};
pub(crate) use seek::resolve;

use crate::client::Client;
use crate::error::{ConsumeError, Error};
use crate::record::ConsumedRecord;
use bytes::Bytes;
use futures::Stream;
use range::Chunk;
use seam_wire::Offset;
use seam_wire::batch::{self, Record};
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tails::Tails;

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

pub(crate) fn consumed(range: u32, record: Record) -> ConsumedRecord {
    let Record { offset, timestamp_ms, key, value, headers } = record;
    ConsumedRecord { range, offset, timestamp_ms, key, value, headers }
}

/// Reads a topic batch by batch: the fast way for programs that copy or count.
pub struct BatchConsumer {
    tails: Tails,
}

impl fmt::Debug for BatchConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchConsumer").field("topic", &self.tails.topic()).finish_non_exhaustive()
    }
}

impl BatchConsumer {
    pub(crate) async fn start(client: Client, topic: String, settings: Settings) -> Result<Self, Error> {
        Ok(BatchConsumer { tails: Tails::start(client, topic, settings, false).await? })
    }

    /// The next batch; `None` when all that was asked for has come. Goes on after an error that
    /// [`is_passing`](ConsumeError::is_passing). Cancel safe.
    pub async fn next(&mut self) -> Option<Result<ConsumedBatch, ConsumeError>> {
        std::future::poll_fn(|cx| Pin::new(&mut *self).poll_next(cx)).await
    }
}

impl Stream for BatchConsumer {
    type Item = Result<ConsumedBatch, ConsumeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.tails.poll_next(cx));
        Poll::Ready(next.map(|chunk| {
            let (range, Chunk { first, next, bytes, .. }) = chunk?;
            Ok(ConsumedBatch { range, first, next, bytes })
        }))
    }
}

/// Reads a topic record by record: each exactly once and, within a range, in order. It survives broken connections and
/// goes on after the last record it delivered. An error ends it, but for [`ConsumeError::Trimmed`], which says, once, which
/// records retention deleted before this reader got to them, and [`ConsumeError::Lost`], which says what an operator gave up; the
/// next record is the first one there is.
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
        f.debug_struct("Consumer").field("topic", &self.tails.topic()).finish_non_exhaustive()
    }
}

impl Consumer {
    pub(crate) async fn start(client: Client, topic: String, settings: Settings) -> Result<Self, Error> {
        let tails = Tails::start(client, topic, settings, true).await?;
        Ok(Consumer { tails, range: 0, records: Vec::new().into_iter() })
    }

    /// The next record; `None` when all that was asked for has come. Goes on after an error that
    /// [`is_passing`](ConsumeError::is_passing). Cancel safe.
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
                    self.range = range;
                    self.records = chunk.into_records();
                }
            }
        }
    }
}
