//! Steady load on a topic of one range: a producer at a rate that can be changed, and a tail that checks every record as it
//! comes. With one producer and no error, record `n` has offset `n`: whatever is lost, doubled, out of order or changed is
//! seen at once. A full buffer is back-pressure and waits; everything else that fails is an error.

use crate::harness::{eventually, soon};
use bytes::Bytes;
use parking_lot::Mutex;
use seamlog::{Client, ConsumedRecord, ErrorCode, Producer, ReadFrom, Record};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// Size of a record's value.
pub const RECORD_BYTES: u64 = 1024;
/// How often the producer looks at what is due.
const STEP: Duration = Duration::from_millis(5);
/// How long a record may take in the worst of these tests.
const DEADLINE: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Shared {
    rate_per_s: AtomicU64,
    stopped: AtomicBool,
    sent: AtomicU64,
    acked: AtomicU64,
    read: AtomicU64,
    errors: Mutex<Vec<String>>,
}

impl Shared {
    fn error(&self, error: String) {
        self.errors.lock().push(error);
    }
}

/// A producer and a tail at work.
pub struct Load {
    client: Client,
    topic: String,
    shared: Arc<Shared>,
    writer: JoinHandle<u64>,
    reader: JoinHandle<()>,
}

impl Load {
    /// Begins on a topic of one range to which nobody else writes and nobody has written.
    pub async fn start(client: &Client, topic: &str, rate_per_s: u64) -> Load {
        let shared = Arc::new(Shared::default());
        shared.rate_per_s.store(rate_per_s, Ordering::Relaxed);
        let acks = Arc::clone(&shared);
        let producer = client.producer(topic).deadline(DEADLINE).on_complete(move |done| match done.result {
            Ok(ack) if ack.offset.0 == done.token => drop(acks.acked.fetch_add(1, Ordering::Relaxed)),
            Ok(ack) => acks.error(format!("record {} was acked at offset {}", done.token, ack.offset)),
            Err(error) => acks.error(format!("record {}: {error}", done.token)),
        });
        let producer = producer.build().await.expect("a producer");
        let tail = client.consumer(topic).from(ReadFrom::Earliest).build().await.expect("a tail");
        Load {
            client: client.clone(),
            topic: topic.to_owned(),
            writer: tokio::spawn(write(producer, Arc::clone(&shared))),
            reader: tokio::spawn(read(tail, Arc::clone(&shared))),
            shared,
        }
    }

    pub fn set_rate(&self, rate_per_s: u64) {
        self.shared.rate_per_s.store(rate_per_s, Ordering::Relaxed);
    }

    pub fn acked(&self) -> u64 {
        self.shared.acked.load(Ordering::Relaxed)
    }

    /// Waits for the ack of a record that is sent after this call: whoever wrote before is not enough.
    pub async fn next_ack(&self) {
        let sent = self.shared.sent.load(Ordering::Relaxed);
        let ack = async {
            // Acks come in order: record `n` has offset `n`.
            while self.acked() <= sent {
                self.check();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        soon("the next ack", ack).await;
    }

    /// Fails if anything went wrong so far.
    pub fn check(&self) {
        let errors = self.shared.errors.lock();
        assert!(errors.is_empty(), "{} errors at the client: {:?}", errors.len(), &errors[..errors.len().min(5)]);
    }

    /// Waits until so many more records were acked and read.
    pub async fn progress(&self, records: u64) {
        let both = || self.acked().min(self.shared.read.load(Ordering::Relaxed));
        let goal = self.acked() + records;
        eventually("progress of the load", async || {
            self.check();
            both() >= goal
        })
        .await;
    }

    /// Stops writing, waits until all is acked and read, reads everything once more from the start. Returns how many
    /// records there are.
    pub async fn finish(self) -> u64 {
        self.shared.stopped.store(true, Ordering::Relaxed);
        let sent = soon("the end of the producer", self.writer).await.expect("the writer ends well");
        let read = &self.shared.read;
        eventually("the tail's last record", async || {
            let errors = self.shared.errors.lock();
            assert!(errors.is_empty(), "{} errors at the client: {:?}", errors.len(), &errors[..errors.len().min(5)]);
            drop(errors);
            read.load(Ordering::Relaxed) >= sent
        })
        .await;
        self.reader.abort();
        assert_eq!((self.shared.acked.load(Ordering::Relaxed), read.load(Ordering::Relaxed)), (sent, sent));
        assert_eq!(read_all(&self.client, &self.topic).await, sent);
        sent
    }
}

/// Reads a topic from the start to its end of now, checking every record. Returns how many there are.
pub async fn read_all(client: &Client, topic: &str) -> u64 {
    let consumer = client.consumer(topic).from(ReadFrom::Earliest).follow(false).build().await;
    let mut consumer = consumer.expect("a consumer");
    let mut expected = 0;
    while let Some(record) = soon("the next record", consumer.next()).await {
        check(&record.expect("no error"), expected).expect("as written");
        expected += 1;
    }
    expected
}

async fn write(producer: Producer, shared: Arc<Shared>) -> u64 {
    let (mut sent, mut due, mut last) = (0, 0.0, Instant::now());
    let mut step = tokio::time::interval(STEP);
    while !shared.stopped.load(Ordering::Relaxed) {
        step.tick().await;
        let now = Instant::now();
        due += shared.rate_per_s.load(Ordering::Relaxed) as f64 * (now - last).as_secs_f64();
        last = now;
        while sent < due as u64 {
            match producer.send_due(Record::new(value(sent)), now, sent) {
                Ok(()) => {
                    sent += 1;
                    shared.sent.store(sent, Ordering::Relaxed);
                }
                Err(error) if error.code == ErrorCode::Overloaded && error.is_definite() => break,
                Err(error) => {
                    shared.error(format!("record {sent} was not taken: {error}"));
                    return sent;
                }
            }
        }
    }
    producer.close().await;
    sent
}

async fn read(mut tail: seamlog::Consumer, shared: Arc<Shared>) {
    let mut expected = 0;
    loop {
        let checked = match tail.next().await {
            Some(Ok(record)) => check(&record, expected),
            Some(Err(error)) => Err(format!("the tail failed: {error}")),
            None => Err("the tail ended".to_owned()),
        };
        if let Err(error) = checked {
            return shared.error(error);
        }
        expected += 1;
        shared.read.store(expected, Ordering::Relaxed);
    }
}

fn check(record: &ConsumedRecord, expected: u64) -> Result<(), String> {
    if record.offset.0 != expected {
        return Err(format!("offset {expected} was due, {} came", record.offset));
    }
    if record.value.as_ref() != Some(&value(expected)) {
        return Err(format!("the record at offset {expected} is not the one that was written"));
    }
    Ok(())
}

/// The value of record `n`: its number, and a filling that differs from its neighbours'.
fn value(n: u64) -> Bytes {
    let mut value = vec![(n % 251) as u8; RECORD_BYTES as usize];
    value[..8].copy_from_slice(&n.to_be_bytes());
    Bytes::from(value)
}
