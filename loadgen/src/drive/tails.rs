//! A consumer as an application would run it: takes each record as it comes, stamps it, checks its content.

use crate::clock::Clock;
use crate::measure::sample::Sample;
use crate::measure::verify::Seen;
use crate::record;
use crate::target::Consumer;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// What a consumer was handed since it was last asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deliveries {
    /// In the order of delivery.
    pub samples: Vec<Sample>,
    pub seen: Vec<Seen>,
    /// Offsets of records whose content was not ours.
    pub corrupt_offsets: Vec<u64>,
    pub errors: Vec<String>,
}

/// A running consumer.
pub struct Tail {
    deliveries: Arc<Mutex<Deliveries>>,
    /// The offset after the highest one delivered; the sender goes when the tail is over.
    through: watch::Receiver<u64>,
    task: JoinHandle<()>,
}

impl Tail {
    pub fn start<C: Consumer>(clock: Clock, mut consumer: C, from: u64) -> Self {
        let deliveries = Arc::new(Mutex::new(Deliveries::default()));
        let (through_tx, through) = watch::channel(from);
        let shared = Arc::clone(&deliveries);
        let task = tokio::spawn(async move {
            loop {
                match consumer.next().await {
                    Ok(Some(delivered)) => {
                        let done_us = clock.now_us();
                        take(&mut shared.lock(), &delivered.value, delivered.offset, done_us);
                        through_tx.send_modify(|through| *through = (delivered.offset + 1).max(*through));
                    }
                    Ok(None) => {
                        shared.lock().errors.push("the tail ended while it was followed".to_owned());
                        return;
                    }
                    Err(error) => {
                        shared.lock().errors.push(format!("tail: {error}"));
                        return;
                    }
                }
            }
        });
        Tail { deliveries, through, task }
    }

    /// Waits until everything below `end` was delivered. `false` when the tail made no progress for `patience`, or is over.
    pub async fn reach(&mut self, end: u64, patience: Duration) -> bool {
        while *self.through.borrow_and_update() < end {
            match tokio::time::timeout(patience, self.through.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return false,
            }
        }
        true
    }

    /// Hands over what came since the last call.
    pub fn drain(&self) -> Deliveries {
        std::mem::take(&mut self.deliveries.lock())
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn take(deliveries: &mut Deliveries, value: &[u8], offset: u64, done_us: u64) {
    match record::decode(value) {
        Ok(header) => {
            deliveries.samples.push(Sample { due_us: header.due_us, done_us, offset, ok: true });
            deliveries.seen.push(Seen { offset, id: (header.producer, header.seq), hash: header.hash });
        }
        Err(error) => {
            deliveries.corrupt_offsets.push(offset);
            deliveries.errors.push(format!("offset {offset}: {error}"));
        }
    }
}
