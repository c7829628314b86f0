//! Reading records.

mod builder;

pub use builder::{ConsumerBuilder, ReadFrom};

use crate::client::Client;
use crate::error::{ConsumeError, Error};
use crate::record::ConsumedRecord;
use builder::Settings;
use bytes::Bytes;
use futures::Stream;
use seam_wire::Offset;
use std::pin::Pin;
use std::task::{Context, Poll};

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
    /// The records from `first` on. Errors: the batch is damaged within. Memory is bounded by the batch limits.
    pub fn records(&self) -> Result<Vec<ConsumedRecord>, ConsumeError> {
        todo!()
    }
}

/// Reads a topic batch by batch: the fast way for programs that copy or count.
#[derive(Debug)]
pub struct BatchConsumer {}

impl BatchConsumer {
    pub(crate) async fn start(client: Client, topic: String, settings: Settings) -> Result<Self, Error> {
        let _ = (client, topic, settings.range, settings.from, settings.follow, settings.max_buffer_bytes);
        todo!()
    }
}

impl Stream for BatchConsumer {
    type Item = Result<ConsumedBatch, ConsumeError>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let _ = cx;
        todo!()
    }
}

/// Reads a topic record by record: each exactly once and, within a range, in order. It survives broken connections and
/// goes on after the last record it delivered.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use futures::StreamExt;
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
#[derive(Debug)]
pub struct Consumer {
    batches: BatchConsumer,
}

impl Consumer {
    pub(crate) fn new(batches: BatchConsumer) -> Self {
        Consumer { batches }
    }
}

impl Stream for Consumer {
    type Item = Result<ConsumedRecord, ConsumeError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let _ = Pin::new(&mut self.batches).poll_next(cx);
        todo!()
    }
}
