//! Writing records.

mod builder;
mod completion;

pub use builder::{MAX_IN_FLIGHT, ProducerBuilder};
pub use completion::{Completion, SendHandle};

use crate::client::Client;
use crate::error::Error;
use crate::record::Record;
use builder::Settings;
use client_core::SendError;
use std::time::Instant;

/// Writes records to a topic. Cheap to clone; clones share everything. Always idempotent: what it retries is written once.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use seamlog::{Client, ClientConfig, Record};
/// use std::time::Duration;
///
/// let client = Client::connect(ClientConfig::load("client.toml")?)?;
/// let producer = client.producer("events").linger(Duration::from_millis(2)).build().await?;
/// let handle = producer.send(Record::new("hello").key("user-7")).await?;
/// let ack = handle.await?;
/// println!("range {} offset {}", ack.range, ack.offset);
/// producer.close().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Producer {}

impl Producer {
    pub(crate) async fn start(client: Client, topic: String, settings: Settings) -> Result<Producer, Error> {
        let _ = (client, topic, settings.linger);
        todo!()
    }

    /// Takes a record, waiting for room in the buffer where it must (at most the deadline). The handle has the outcome.
    /// Records of one key, sent one after the other, are written in that order.
    /// Errors: the record is too large; the buffer had no room within the deadline; the producer is closed.
    pub async fn send(&self, record: Record) -> Result<SendHandle, SendError> {
        let _ = record;
        todo!()
    }

    /// Takes a record without ever waiting: for open loops. All that fails, a full buffer too, comes out of the handle.
    /// May be called from any thread.
    pub fn submit(&self, record: Record) -> SendHandle {
        let _ = record;
        todo!()
    }

    /// As [`Producer::submit`], without a future: the outcome goes to `on_complete` with `token` and `due`. The cheapest
    /// way. Errors mean that the record was not taken and the callback is not called.
    pub fn send_due(&self, record: Record, due: Instant, token: u64) -> Result<(), SendError> {
        let _ = (record, due, token);
        todo!()
    }

    /// Sends what lingers and waits until every record taken before has its outcome.
    pub async fn flush(&self) {
        todo!()
    }

    /// Takes no more records, flushes, and ends the streams. All clones are closed.
    pub async fn close(&self) {
        todo!()
    }

    /// How many ranges the topic has.
    pub fn ranges(&self) -> u32 {
        todo!()
    }
}
