//! Writing records.

mod builder;
mod completion;
mod driver;
mod inbox;
mod open;
mod room;
mod traces;

pub use builder::{MAX_IN_FLIGHT, ProducerBuilder};
pub use completion::{Completion, SendHandle};

use crate::client::Client;
use crate::clock::{micros, timestamp_ms};
use crate::error::Error;
use crate::query;
use crate::record::Record;
use builder::Settings;
use client_core::SendError;
use client_core::accumulate::{Accumulator, Contents, Pushed, Settings as AccumulatorSettings};
use client_core::partition::range_of;
use client_core::producer::{ProducerSettings, RangeProducer};
use driver::{Common, Driver};
use inbox::{Inbox, Waiter};
use room::Room;
use seam_wire::{ErrorCode, ProducerId, WireError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;

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
#[derive(Clone)]
pub struct Producer {
    core: Arc<Core>,
}

/// Dropped with the last clone of its producer.
struct Core {
    common: Arc<Common>,
    inboxes: Vec<Arc<Inbox>>,
    /// Every record goes here; `None`: by key.
    range: Option<usize>,
    linger: Duration,
    deadline: Duration,
    /// The range of the open batch of records without a key.
    keyless: AtomicUsize,
}

impl Drop for Core {
    /// Records that were taken still go, and their handles still get an outcome.
    fn drop(&mut self) {
        self.inboxes.iter().for_each(|inbox| inbox.close());
    }
}

impl fmt::Debug for Producer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer").field("topic", &self.core.common.topic).finish_non_exhaustive()
    }
}

impl Producer {
    pub(crate) async fn start(client: Client, topic: String, settings: Settings) -> Result<Producer, Error> {
        settings.validate()?;
        let no_router = |source| Error::Request { what: format!("produce to {topic:?}"), source };
        client.inner.lane().map_err(no_router)?;
        let ranges = query::ranges(&client, &topic).await?;
        if let Some(range) = settings.range.filter(|range| *range >= ranges) {
            return Err(Error::Setting(format!(
                "topic {topic:?} has no range {range}; its ranges are 0 to {}",
                ranges - 1
            )));
        }
        let accumulator = AccumulatorSettings {
            linger_us: micros(settings.linger),
            deadline_us: micros(settings.deadline),
            max_batch_bytes: settings.max_batch_bytes,
            compression: settings.compression,
        };
        let machine = ProducerSettings { max_in_flight: settings.max_in_flight, ..ProducerSettings::default() };
        let room = Room::new(settings.max_buffer_bytes);
        let routers = client.inner.config.routers.iter();
        let peers = routers.map(|peer| format!("{} at {}", peer.name, peer.addr)).collect::<Vec<_>>().join(", ");
        let running = watch::Sender::new(ranges as usize);
        let common = Arc::new(Common {
            client,
            topic,
            room,
            sink: settings.on_complete,
            trace_share: settings.trace_share,
            running,
        });
        let inboxes: Vec<Arc<Inbox>> =
            (0..ranges).map(|_| Arc::new(Inbox::new(Accumulator::new(accumulator)))).collect();
        for (inbox, index) in inboxes.iter().zip(0u32..) {
            let machine = RangeProducer::new(ProducerId(rand::random()), machine).peers(peers.clone());
            tokio::spawn(Driver::new(Arc::clone(&common), Arc::clone(inbox), index, machine).run());
        }
        let range = settings.range.map(|range| range as usize);
        let (linger, deadline) = (settings.linger, settings.deadline);
        Ok(Producer { core: Arc::new(Core { common, inboxes, range, linger, deadline, keyless: AtomicUsize::new(0) }) })
    }

    /// Takes a record, waiting for room in the buffer where it must (at most the deadline). The handle has the outcome.
    /// Records of one key, sent one after the other, are written in that order.
    /// Errors: the record is too large; the buffer had no room within the deadline; the producer is closed.
    pub async fn send(&self, record: Record) -> Result<SendHandle, SendError> {
        let deadline = tokio::time::Instant::now() + self.core.deadline;
        if !self.core.common.room.take(cost(&record), deadline).await {
            return Err(self.no_room());
        }
        let (waiter, handle) = Waiter::handle();
        self.push(record, waiter).map(|()| handle)
    }

    /// Takes a record without ever waiting: for open loops. All that fails, a full buffer too, comes out of the handle.
    /// May be called from any thread.
    pub fn submit(&self, record: Record) -> SendHandle {
        if !self.core.common.room.try_take(cost(&record)) {
            return SendHandle::failed(self.no_room());
        }
        let (waiter, handle) = Waiter::handle();
        match self.push(record, waiter) {
            Ok(()) => handle,
            Err(error) => SendHandle::failed(error),
        }
    }

    /// As [`Producer::submit`], without a future: the outcome goes to `on_complete` with `token` and `due`. The cheapest
    /// way. Errors mean that the record was not taken and the callback is not called.
    pub fn send_due(&self, record: Record, due: Instant, token: u64) -> Result<(), SendError> {
        if self.core.common.sink.is_none() {
            let detail = "the producer has no callback; set one with on_complete when building it";
            return Err(SendError::refused(ErrorCode::InvalidArgument, detail));
        }
        if !self.core.common.room.try_take(cost(&record)) {
            return Err(self.no_room());
        }
        self.push(record, Waiter::Due { token, due })
    }

    /// Sends what lingers and waits until every record taken before has its outcome.
    pub async fn flush(&self) {
        let flushes: Vec<_> = self.core.inboxes.iter().map(|inbox| inbox.flush()).collect();
        for flushed in flushes {
            // An error means that the driver is done: it was closed, and everything has its outcome.
            let _ = flushed.await;
        }
    }

    /// Takes no more records, sends what lingers, waits for every outcome, and ends the streams. All clones are closed.
    pub async fn close(&self) {
        self.core.inboxes.iter().for_each(|inbox| inbox.close());
        let mut running = self.core.common.running.subscribe();
        // An error is impossible: the sender is in `self`.
        let _ = running.wait_for(|running| *running == 0).await;
    }

    /// How many ranges the topic has.
    pub fn ranges(&self) -> u32 {
        u32::try_from(self.core.inboxes.len()).expect("it was a u32")
    }

    /// Bytes taken and not acknowledged yet.
    pub fn buffered_bytes(&self) -> usize {
        self.core.common.room.used()
    }

    /// The room for the record has been taken.
    fn push(&self, record: Record, waiter: Waiter) -> Result<(), SendError> {
        let Record { key, value, headers, timestamp_ms: stamp } = &record;
        let contents = Contents {
            timestamp_ms: stamp.unwrap_or_else(timestamp_ms),
            key: key.as_deref(),
            value: value.as_deref(),
            headers,
        };
        let range = match (self.core.range, key) {
            (Some(fixed), _) => fixed,
            (None, Some(key)) => range_of(key, self.ranges()) as usize,
            (None, None) => self.keyless_range(contents.cost()),
        };
        let pushed = self.push_to(range, contents, waiter);
        if pushed.is_err() {
            self.core.common.room.give_back(contents.cost());
        }
        pushed
    }

    /// Records without a key stay with a range while it fills a batch, then go on to the next (sticky round robin).
    fn keyless_range(&self, cost: usize) -> usize {
        let keyless = &self.core.keyless;
        let current = keyless.load(Ordering::Relaxed);
        if self.core.inboxes.len() == 1 || self.core.inboxes[current].lock().records.has_room_for(cost) {
            return current;
        }
        let next = (current + 1) % self.core.inboxes.len();
        keyless.store(next, Ordering::Relaxed);
        next
    }

    fn push_to(&self, range: usize, contents: Contents<'_>, waiter: Waiter) -> Result<(), SendError> {
        let inner = &self.core.common.client.inner;
        let inbox = &self.core.inboxes[range];
        let mut held = inbox.lock();
        if held.closed {
            return Err(SendError::refused(ErrorCode::Unavailable, "the producer is closed"));
        }
        // Read under the lock: the ticks of an accumulator never go back.
        let pushed = held.records.push(inner.clock.now(), contents, waiter);
        drop(held);
        match pushed {
            Ok(Pushed::Joined) => Ok(()),
            Ok(Pushed::Opened { due, closed }) => {
                if closed || self.core.linger.is_zero() {
                    inbox.wake.notify_one();
                }
                if !self.core.linger.is_zero() {
                    inner.pacer.wake_at(inner.clock.instant(due), &inbox.wake);
                }
                Ok(())
            }
            Err((error, _)) => Err(WireError::from(error).into()),
        }
    }

    fn no_room(&self) -> SendError {
        let max_bytes = self.core.common.room.max_bytes();
        let detail = format!(
            "{max_bytes} bytes wait to be acknowledged, as many as max_buffer_bytes allows; send slower or raise it"
        );
        SendError::retry(ErrorCode::Overloaded, detail)
    }
}

fn cost(record: &Record) -> usize {
    let Record { key, value, headers, timestamp_ms: _ } = record;
    Contents { timestamp_ms: 0, key: key.as_deref(), value: value.as_deref(), headers }.cost()
}
