//! The log as openraft sees it: written to the journal, read from memory.
//!
//! Everything that changes the log goes through the journal in the order openraft asked for it, and the journal keeps
//! that order, so a vote, an append, a truncation and a purge can never overtake each other.

use super::image::Image;
use super::record::Record;
use super::settings::Limits;
use super::types::{Entry, LogId, Types, Vote};
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::{LogState, OptionalSend, RaftLogReader};
use parking_lot::{Mutex, RwLock};
use seam_journal::{Completion, Durability, Journal, JournalConfig, JournalError, Lsn};
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// Entries read at once for replication. Bytes; well below the limit of a message.
const READ_BYTES: u64 = 1 << 20;
/// Pause before a full journal queue is tried again.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// A member's log. Clones share it.
#[derive(Clone)]
pub struct LogStore {
    shared: Arc<Shared>,
}

struct Shared {
    journal: Journal,
    image: RwLock<Image>,
    /// Bytes of entries since a snapshot was last asked for.
    since_snapshot: AtomicU64,
    snapshot_log_bytes: u64,
    snapshot_due: Notify,
}

type Durable = oneshot::Receiver<Result<Lsn, JournalError>>;

fn failed(why: JournalError) -> io::Error {
    io::Error::other(why)
}

impl LogStore {
    /// Opens the journal in `dir` and plays it back. Entries up to `covered` are in a snapshot already.
    pub async fn open(dir: PathBuf, limits: &Limits, covered: u64) -> io::Result<LogStore> {
        let config = JournalConfig {
            file_bytes: limits.journal_file_bytes,
            spare_files: 1,
            keep_files: 4,
            max_entry_bytes: limits.command_bytes + (64 << 10),
            ..JournalConfig::new(dir)
        };
        let snapshot_log_bytes = limits.snapshot_log_bytes;
        let opening = tokio::task::spawn_blocking(move || {
            let mut played = Ok(Image::default());
            let replay = |lsn: Lsn, bytes: bytes::Bytes| {
                if let Ok(image) = &mut played
                    && let Err(why) =
                        Record::decode(&bytes).and_then(|record| image.play(record, lsn.0, bytes.len() as u64))
                {
                    played = Err(io::Error::new(why.kind(), format!("record {lsn}: {why}")));
                }
            };
            let (journal, report) = Journal::open(config, replay).map_err(io::Error::other)?;
            let image = played?;
            tracing::info!(records = report.entries, last = ?image.last(), "metadata log opened");
            Ok::<_, io::Error>((journal, image))
        });
        let (journal, image) = opening.await.map_err(io::Error::other)??;
        let since_snapshot = AtomicU64::new(image.bytes_after(covered));
        let shared = Shared {
            journal,
            image: RwLock::new(image),
            since_snapshot,
            snapshot_log_bytes,
            snapshot_due: Notify::new(),
        };
        Ok(LogStore { shared: Arc::new(shared) })
    }

    /// Index of the last entry, committed or not; 0: none.
    pub fn last_index(&self) -> u64 {
        self.shared.image.read().last().map_or(0, |last| last.index)
    }

    /// Bytes of the entries held.
    pub fn bytes(&self) -> u64 {
        self.shared.image.read().bytes()
    }

    /// The highest index such that the entries after it take no more than `keep_bytes`; `None` if all do.
    pub fn index_keeping(&self, keep_bytes: u64) -> Option<u64> {
        self.shared.image.read().index_keeping(keep_bytes)
    }

    /// Resolves each time the entries since the last call exceed the limit in bytes.
    pub async fn snapshot_due(&self) {
        self.shared.snapshot_due.notified().await;
    }

    /// Writes out what is queued and lets the folder go.
    pub async fn close(&self) {
        let journal = self.shared.journal.clone();
        match tokio::task::spawn_blocking(move || journal.shutdown()).await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => tracing::error!(%why, "the journal of the metadata log did not close in order"),
            Err(why) => tracing::error!(%why, "the journal of the metadata log did not close"),
        }
    }

    /// Queues a record; what `done` makes is called once it is durable. Waits while the journal's queue is full.
    async fn queue(&self, record: &Record, done: &(dyn Fn() -> Completion + Sync)) -> io::Result<(Lsn, u64)> {
        let bytes = record.encode()?;
        let length = bytes.len() as u64;
        loop {
            match self.shared.journal.append(bytes.clone(), Durability::Synced, done()) {
                Ok(lsn) => return Ok((lsn, length)),
                Err(JournalError::Overloaded { .. }) => tokio::time::sleep(FULL_PAUSE).await,
                Err(why @ (JournalError::TooLarge { .. } | JournalError::Failed { .. } | JournalError::Closed)) => {
                    return Err(failed(why));
                }
            }
        }
    }

    /// Queues a record; the receiver hears when it is durable.
    async fn submit(&self, record: &Record) -> io::Result<(Lsn, Durable)> {
        let (sender, receiver) = oneshot::channel();
        let sender = Arc::new(Mutex::new(Some(sender)));
        let done = || {
            let sender = sender.clone();
            Box::new(move |outcome| {
                if let Some(sender) = sender.lock().take() {
                    // A receiver that was dropped no longer cares.
                    drop(sender.send(outcome));
                }
            }) as Completion
        };
        let (lsn, _) = self.queue(record, &done).await?;
        Ok((lsn, receiver))
    }

    /// Queues a record and waits until it is durable.
    async fn write(&self, record: &Record) -> io::Result<Lsn> {
        let (_, durable) = self.submit(record).await?;
        durable.await.unwrap_or(Err(JournalError::Closed)).map_err(failed)
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let start = match range.start_bound() {
            Bound::Included(start) => *start,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        Ok(self.shared.image.read().read(start, end, u64::MAX))
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.shared.image.read().vote())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        Ok(self.shared.image.read().read(start, end, READ_BYTES))
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let image = self.shared.image.read();
        Ok(LogState { last_purged_log_id: image.purged(), last_log_id: image.last() })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        // Durable before anyone hears of it: a vote forgotten is a vote cast twice.
        let record = Record::Vote(*vote);
        let lsn = self.write(&record).await?;
        self.shared.image.write().play(record, lsn.0, 0)
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        // Written with the next entry: it only saves time at a restart, so it gets no sync of its own.
        self.shared.image.write().note_committed(committed);
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        let image = self.shared.image.read();
        // The entry it names may have been cut off by a crash; then nothing is known.
        Ok(image.committed().filter(|committed| Some(*committed) <= image.last()))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let committed = self.shared.image.read().committed();
        let mut entries = entries.into_iter().peekable();
        // The journal completes in order, so the last entry's completion speaks for all of them; an error comes to every
        // entry from the failed one on, so it reaches the last one too.
        let callback = Arc::new(Mutex::new(Some(callback)));
        let mut added = 0u64;
        while let Some(entry) = entries.next() {
            let is_last = entries.peek().is_none();
            let record = Record::Entry { committed, entry };
            let done = || {
                let callback = callback.clone();
                Box::new(move |outcome: Result<Lsn, JournalError>| {
                    if is_last && let Some(callback) = callback.lock().take() {
                        callback.io_completed(outcome.map(drop).map_err(failed));
                    }
                }) as Completion
            };
            let (lsn, bytes) = self.queue(&record, &done).await?;
            added += bytes;
            // Readable before it is durable: followers write it while this disk does.
            self.shared.image.write().play(record, lsn.0, bytes)?;
        }
        if added == 0
            && let Some(callback) = callback.lock().take()
        {
            callback.io_completed(Ok(()));
        }
        let since = self.shared.since_snapshot.fetch_add(added, Ordering::Relaxed) + added;
        if since >= self.shared.snapshot_log_bytes {
            self.shared.since_snapshot.store(0, Ordering::Relaxed);
            self.shared.snapshot_due.notify_one();
        }
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let record = Record::Truncate { after: last_log_id };
        let lsn = self.write(&record).await?;
        self.shared.image.write().play(record, lsn.0, 0)
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        let base = {
            let mut image = self.shared.image.write();
            image.purge(log_id);
            image.base()
        };
        let (lsn, durable) = self.submit(&base).await?;
        let below = {
            let mut image = self.shared.image.write();
            image.play(base, lsn.0, 0)?;
            image.release_below()
        };
        // What lies below may go only when the base that replaces it is durable.
        let journal = self.shared.journal.clone();
        tokio::spawn(async move {
            if let (Ok(Ok(_)), Some(below)) = (durable.await, below) {
                journal.release(Lsn(below));
            }
        });
        Ok(())
    }
}
