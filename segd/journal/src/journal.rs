//! The handle, and the two threads behind it: one writes and syncs, one keeps the supply of files.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::Lsn;
use crate::config::{Durability, JournalConfig};
use crate::disk::Disk;
use crate::entry::Entry;
use crate::error::{JournalError, OpenError};
use crate::health::Health;
use crate::ledger::Ledger;
use crate::pool::Pool;
use crate::queue::{Pending, Queue, Turn, cost};
use crate::real::RealDisk;
use crate::recover::{OpenReport, recover};
use crate::stats::{Counters, JournalStats};
use crate::writer::Writer;

/// Called once per accepted append, on the writer thread: it must be short and must not block.
pub type Completion = Box<dyn FnOnce(Result<Lsn, JournalError>) + Send>;

/// An open journal. Clones share it; dropping the last one shuts it down and waits for it.
#[derive(Clone)]
pub struct Journal {
    inner: Arc<Inner>,
}

struct Inner {
    parts: Arc<Parts>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the handle and the threads share.
struct Parts {
    config: JournalConfig,
    queue: Queue,
    ledger: Arc<Ledger>,
    pool: Arc<Pool>,
    health: Arc<Health>,
    counters: Arc<Counters>,
}

impl Journal {
    /// Opens the journal in `config.dir`, making it if there is none. Hands every intact entry to `replay`, in order,
    /// and makes sure they are durable, before it returns. Blocks.
    ///
    /// Entries that were released may be replayed too, since only whole files are let go. A replayed slice shares the
    /// memory of its group; copy it to keep it long. What `replay` was given counts only if the open succeeds.
    ///
    /// Errors: settings out of bounds, the directory in use, a disk error, or corruption of what was once synced.
    pub fn open(config: JournalConfig, replay: impl FnMut(Lsn, Bytes)) -> Result<(Journal, OpenReport), OpenError> {
        config.validate()?;
        let disk = Arc::new(RealDisk::open(&config.dir)?);
        Self::open_on(disk, config, replay)
    }

    /// Like [`Journal::open`], on any [`Disk`]; `config.dir` is not looked at. The disk is let go when every clone of
    /// the journal is dropped.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        config: JournalConfig,
        mut replay: impl FnMut(Lsn, Bytes),
    ) -> Result<(Journal, OpenReport), OpenError> {
        config.validate()?;
        let found = recover(&*disk, &config, &mut replay)?;
        let (health, counters) = (Arc::new(Health::default()), Arc::new(Counters::default()));
        let next_lsn = found.report.next_lsn;
        let pool = Pool::new(disk, config.clone(), health.clone(), counters.clone(), found.supply);
        pool.start(found.synced_through)?;
        let (pool, ledger) = (Arc::new(pool), Arc::new(Ledger::new(found.closed, next_lsn, found.synced_through)));
        let writer = Writer::new(pool.clone(), ledger.clone(), counters.clone(), found.run, next_lsn);
        let queue = Queue::new(&config, next_lsn);
        let parts = Arc::new(Parts { config, queue, ledger, pool, health, counters });
        let journal = Journal { inner: Arc::new(Inner { parts: parts.clone(), threads: Mutex::default() }) };
        // A failure found by either thread ends the other, and refuses appends before anything completes with it.
        let weak = Arc::downgrade(&parts);
        parts.health.on_failure(Box::new(move |error| {
            if let Some(parts) = weak.upgrade() {
                parts.queue.refuse(error.clone());
            }
        }));
        let pool = parts.pool.clone();
        let mut threads = journal.inner.threads.lock();
        threads.push(spawn("journal-writer", move || {
            Run { parts, writer, unsynced: Vec::new(), lazy_since: None }.run()
        })?);
        threads.push(spawn("journal-files", move || pool.run())?);
        drop(threads);
        Ok((journal, found.report))
    }

    /// Queues an entry and returns its number at once. `done` is called on the writer thread when the entry is as
    /// durable as asked; entries of the same durability complete in the order of their numbers.
    ///
    /// On `Err` nothing was queued and `done` is dropped uncalled.
    pub fn append(
        &self,
        entry: impl Into<Entry>,
        durability: Durability,
        done: Completion,
    ) -> Result<Lsn, JournalError> {
        self.append_all(vec![entry.into()], durability, done).map(|numbers| numbers[0])
    }

    /// Queues entries that belong together: the writer finds all of them in its queue or none, so that they share a sync
    /// where the group has room. `done` is called once, for the last.
    ///
    /// On `Err` nothing was queued and `done` is dropped uncalled.
    pub fn append_all(
        &self,
        entries: Vec<Entry>,
        durability: Durability,
        done: Completion,
    ) -> Result<Vec<Lsn>, JournalError> {
        let parts = &self.inner.parts;
        let pushed = parts.queue.push_all(entries, durability, done);
        match &pushed {
            Ok(numbers) => parts.counters.appends.fetch_add(numbers.len() as u64, Relaxed),
            Err(JournalError::Overloaded { .. }) => parts.counters.overloaded.fetch_add(1, Relaxed),
            Err(JournalError::TooLarge { .. } | JournalError::Failed { .. } | JournalError::Closed) => 0,
        };
        pushed
    }

    /// Like [`Journal::append`], with a channel for the completion.
    #[allow(clippy::type_complexity)]
    pub fn submit(
        &self,
        entry: impl Into<Entry>,
        durability: Durability,
    ) -> Result<(Lsn, oneshot::Receiver<Result<Lsn, JournalError>>), JournalError> {
        let (sender, receiver) = oneshot::channel();
        // A receiver that was dropped no longer cares.
        let done = Box::new(move |outcome| drop(sender.send(outcome)));
        Ok((self.append(entry, durability, done)?, receiver))
    }

    /// Appends and waits. Dropping the future does not undo the append.
    pub async fn write(&self, entry: impl Into<Entry>, durability: Durability) -> Result<Lsn, JournalError> {
        let (_, receiver) = self.submit(entry, durability)?;
        receiver.await.unwrap_or_else(|_| Err(self.inner.parts.health.failure().unwrap_or(JournalError::Closed)))
    }

    /// Everything before `before` is no longer needed. Files wholly below it are recycled once they are synced. A lower
    /// value than an earlier one does nothing.
    pub fn release(&self, before: Lsn) {
        self.inner.parts.ledger.release(before, &self.inner.parts.pool);
    }

    /// Bytes of files that cannot be recycled yet: whole files for those written full or by an earlier run, the used part
    /// for the one being written (none of it, if all was released).
    pub fn pinned_bytes(&self) -> u64 {
        self.inner.parts.ledger.pinned_bytes()
    }

    /// The number the next append gets.
    pub fn next_lsn(&self) -> Lsn {
        self.inner.parts.queue.next_lsn()
    }

    /// Everything up to here, inclusive, is durable. `Lsn(0)` if nothing is.
    pub fn synced_through(&self) -> Lsn {
        self.inner.parts.ledger.synced_through()
    }

    /// Counters since the open.
    pub fn stats(&self) -> JournalStats {
        let parts = &self.inner.parts;
        JournalStats {
            files_ready: parts.pool.ready() as u64,
            queued_bytes: parts.queue.bytes() as u64,
            pinned_bytes: parts.ledger.pinned_bytes(),
            ..parts.counters.snapshot()
        }
    }

    /// The failure, if the journal failed.
    pub fn failed(&self) -> Option<JournalError> {
        self.inner.parts.health.failure()
    }

    /// Calls `listener` once when the journal fails, on the thread that found out, or now if it has already failed.
    pub fn on_failure(&self, listener: impl FnOnce(&JournalError) + Send + 'static) {
        self.inner.parts.health.on_failure(Box::new(listener));
    }

    /// Refuses further appends, writes and syncs what is queued, and waits for the threads. Blocks. Not from a
    /// completion. `Err` if the journal has failed.
    pub fn shutdown(&self) -> Result<(), JournalError> {
        self.inner.shut_down();
        self.failed().map_or(Ok(()), Err)
    }
}

impl std::fmt::Debug for Journal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Journal").field("next_lsn", &self.next_lsn()).field("failed", &self.failed()).finish()
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, OpenError> {
    thread::Builder::new().name(name.to_owned()).spawn(body).map_err(OpenError::io("start thread", name))
}

impl Inner {
    fn shut_down(&self) {
        self.parts.queue.refuse(JournalError::Closed);
        // Held throughout: whoever shuts down second waits as well. The writer comes first.
        let mut threads = self.threads.lock();
        for thread in threads.drain(..) {
            // The last handle may be dropped by a completion, on the writer thread itself: it ends on its own.
            if thread.thread().id() != thread::current().id() && thread.join().is_err() {
                self.parts.health.fail("a journal thread panicked".to_owned());
            }
            self.parts.pool.stop();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shut_down();
    }
}

impl Parts {
    /// Refuses appends from now on and completes all that is queued with the error.
    fn refuse_all(&self, error: &JournalError) {
        // The thread that found the failure may not have come to this yet; nothing may slip in behind the drain.
        self.queue.refuse(error.clone());
        for pending in self.queue.drain() {
            (pending.done)(Err(error.clone()));
        }
    }
}

/// The writer thread.
struct Run {
    parts: Arc<Parts>,
    writer: Writer,
    /// Written, and to be completed by the next sync.
    unsynced: Vec<(Lsn, Completion)>,
    /// When the oldest write was made that no sync has covered yet.
    lazy_since: Option<Instant>,
}

impl Run {
    fn run(mut self) {
        let guard = PanicGuard(self.parts.clone());
        while !self.parts.health.is_failed() {
            let deadline = self.lazy_since.map(|since| since + self.parts.config.lazy_sync_delay);
            let outcome = match self.parts.queue.take(deadline) {
                Turn::Write(batch) => self.write(batch),
                Turn::Deadline => self.sync(),
                Turn::End if self.parts.health.is_failed() => break,
                Turn::End => {
                    if let Err(error) = self.writer.close() {
                        self.fail("sync at the end", &error);
                    }
                    break;
                }
            };
            if outcome.is_err() {
                break;
            }
        }
        if let Some(error) = self.parts.health.failure() {
            self.complete_unsynced(&Err(error.clone()));
            self.parts.refuse_all(&error);
        }
        drop(guard);
    }

    fn write(&mut self, batch: Vec<Pending>) -> Result<(), JournalError> {
        let bytes = batch.iter().map(|pending| cost(pending.entry.len())).sum();
        let (entries, waiting): (Vec<Entry>, Vec<_>) =
            batch.into_iter().map(|pending| (pending.entry, (pending.lsn, pending.durability, pending.done))).unzip();
        let written = self.writer.write(&entries);
        drop(entries);
        self.parts.queue.written(bytes);
        let error = written.err().map(|error| self.fail("write", &error));
        self.lazy_since.get_or_insert_with(Instant::now);
        for (lsn, durability, done) in waiting {
            match durability {
                // After an error all of them wait for the end of the thread, which completes them with it, in order.
                Durability::Written if error.is_none() => done(Ok(lsn)),
                Durability::Written | Durability::Synced => self.unsynced.push((lsn, done)),
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        let is_lazy_over = self.lazy_since.is_some_and(|since| since.elapsed() >= self.parts.config.lazy_sync_delay);
        let is_lazy_full = self.writer.unsynced_bytes() >= self.parts.config.lazy_sync_bytes;
        if self.unsynced.is_empty() && !is_lazy_over && !is_lazy_full { Ok(()) } else { self.sync() }
    }

    fn sync(&mut self) -> Result<(), JournalError> {
        self.lazy_since = None;
        match self.writer.sync() {
            Ok(()) => {
                self.complete_unsynced(&Ok(()));
                Ok(())
            }
            Err(error) => Err(self.fail("sync", &error)),
        }
    }

    fn complete_unsynced(&mut self, outcome: &Result<(), JournalError>) {
        for (lsn, done) in self.unsynced.drain(..) {
            done(outcome.clone().map(|()| lsn));
        }
    }

    fn fail(&self, action: &str, error: &std::io::Error) -> JournalError {
        self.parts.health.fail(format!("could not {action}: {error}"))
    }
}

/// Nothing may wait for ever on a thread that panicked.
struct PanicGuard(Arc<Parts>);

impl Drop for PanicGuard {
    fn drop(&mut self) {
        if thread::panicking() {
            let error = self.0.health.fail("the journal writer panicked".to_owned());
            self.0.refuse_all(&error);
        }
    }
}
