//! What the application's threads and a range's driver share: records that were taken, and requests to flush.

use super::completion::{Completion, SendHandle};
use crate::record::Ack;
use client_core::SendError;
use client_core::accumulate::Accumulator;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::{Notify, oneshot};

/// Who waits for a record's outcome.
#[derive(Debug)]
pub(super) enum Waiter {
    Handle(oneshot::Sender<Result<Ack, SendError>>),
    /// The callback, with a token and the due time.
    Due {
        token: u64,
        due: Instant,
    },
}

impl Waiter {
    pub fn handle() -> (Waiter, SendHandle) {
        let (sender, outcome) = oneshot::channel();
        (Waiter::Handle(sender), SendHandle::waiting(outcome))
    }

    pub fn tell(
        self,
        done: Instant,
        result: Result<Ack, SendError>,
        sink: Option<&(dyn Fn(Completion) + Send + Sync)>,
    ) {
        match self {
            // The application may have dropped its handle.
            Waiter::Handle(outcome) => drop(outcome.send(result)),
            Waiter::Due { token, due } => {
                if let Some(sink) = sink {
                    sink(Completion { token, due, done, result });
                }
            }
        }
    }
}

#[derive(Debug)]
pub(super) struct Contents {
    pub records: Accumulator<Waiter>,
    /// No more records are taken.
    pub closed: bool,
    /// The driver has ended: everything has its outcome.
    pub done: bool,
    /// Told when all batches below the order have their outcome.
    pub flushes: Vec<(u64, oneshot::Sender<()>)>,
}

/// The inbox of one range.
#[derive(Debug)]
pub(super) struct Inbox {
    contents: Mutex<Contents>,
    /// Wakes the driver.
    pub wake: Arc<Notify>,
}

impl Inbox {
    pub fn new(records: Accumulator<Waiter>) -> Self {
        let contents = Contents { records, closed: false, done: false, flushes: Vec::new() };
        Inbox { contents: Mutex::new(contents), wake: Arc::default() }
    }

    pub fn lock(&self) -> parking_lot::MutexGuard<'_, Contents> {
        self.contents.lock()
    }

    /// Sends what lingers; resolves when everything taken so far has its outcome.
    pub fn flush(&self) -> oneshot::Receiver<()> {
        let (sender, done) = oneshot::channel();
        let mut contents = self.lock();
        let below = contents.records.flush();
        if !contents.done {
            contents.flushes.push((below, sender));
        }
        drop(contents);
        self.wake.notify_one();
        done
    }

    /// Takes no more records and sends what lingers.
    pub fn close(&self) {
        let mut contents = self.lock();
        contents.closed = true;
        contents.records.flush();
        drop(contents);
        self.wake.notify_one();
    }
}
