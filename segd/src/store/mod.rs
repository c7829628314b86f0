//! The bytes of this node's replicas: one journal in front, a file a segment behind, the newest records in memory.
//!
//! Not the decisions about them. A write is durable when the journal says so; segment files are written behind by one thread
//! (`scribe`), and the journal lets go of what they have synced. The append path creates, renames and syncs no segment file.

mod log;
mod mark;
mod restore;
mod room;
mod scribe;

pub use log::{Published, ReadError, SegmentLog};

use crate::completions::Completions;
use crate::config::Limits;
use crate::entry::{self, Piece};
use bytes::Bytes;
use parking_lot::RwLock;
use scribe::{Scribe, Task};
use seam_journal::{Durability, Journal, JournalConfig, JournalError};
use seam_wire::{Offset, RangeId, SegmentId};
use segd_core::io::{self, Token, Write};
use segd_core::node::RestoredReplica;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub struct Store {
    journal: Journal,
    segments: RwLock<BTreeMap<SegmentId, Arc<SegmentLog>>>,
    /// Where the logs of ranges start that retention shortened since this process began. Bounded by the ranges there are.
    log_starts: RwLock<BTreeMap<RangeId, Offset>>,
    scribe: Scribe,
    data_dir: PathBuf,
    dir: PathBuf,
    cache_bytes: usize,
}

impl Store {
    /// Opens `data_dir`, making it if there is none, and reads back what it holds. Blocks.
    pub fn open(data_dir: &Path, limits: &Limits) -> anyhow::Result<(Arc<Store>, Vec<RestoredReplica>)> {
        let dir = data_dir.join("segments");
        std::fs::create_dir_all(&dir)?;
        let last_stop = mark::read(data_dir)?;
        let mut restored = restore::read_files(&dir)?;
        let mut config = JournalConfig::new(data_dir.join("journal"));
        config.file_bytes = limits.journal_file_bytes;
        room::check(&config)?;
        let (journal, report) = Journal::open(config, |lsn, bytes| restored.replay(lsn, bytes))?;
        tracing::info!(entries = report.entries, "journal replayed");
        let scribe = Scribe::start(dir.clone(), limits, journal.clone())?;
        let (logs, replicas) = restored.finish(&scribe, &last_stop)?;
        let segments = RwLock::new(logs);
        let log_starts = RwLock::default();
        let (data_dir, cache_bytes) = (data_dir.to_path_buf(), limits.cache_bytes);
        Ok((Arc::new(Store { journal, segments, log_starts, scribe, data_dir, dir, cache_bytes }), replicas))
    }

    /// From here on something is written: an end of this life that is not announced by [`Store::shutdown`] is unclean.
    pub fn begin(&self) -> std::io::Result<()> {
        mark::clear(&self.data_dir)
    }

    /// Carries out `Effect::Persist`: one journal entry an envelope; complete when the last one is durable.
    pub fn persist(
        &self,
        token: Token,
        segment: SegmentId,
        writes: &[Write],
        durability: io::Durability,
        completions: &Arc<Completions>,
    ) -> Result<(), JournalError> {
        let log = self.log_or_new(segment);
        let pieces: Vec<Piece> = writes.iter().flat_map(|write| entry::encode(segment, write)).collect();
        for write in writes {
            if let Write::Records { payload, .. } = write {
                log.remember(payload, self.cache_bytes);
            }
        }
        let durability = match durability {
            io::Durability::Synced => Durability::Synced,
            io::Durability::Received => Durability::Written,
        };
        completions.issue(token);
        let told = Arc::clone(completions);
        // A failure is told once, by the journal itself, for all that is queued.
        let done = Box::new(move |outcome: Result<_, JournalError>| {
            if outcome.is_ok() {
                told.complete(token);
            }
        });
        let entries = pieces.iter().map(|piece| vec![piece.header.clone(), piece.body.clone()].into()).collect();
        let numbers = self.journal.append_all(entries, durability, done)?;
        for (lsn, piece) in numbers.into_iter().zip(pieces) {
            self.scribe.send(Task::Write { lsn, log: Arc::clone(&log), piece });
        }
        Ok(())
    }

    /// Retention moved the start of a range's log.
    pub fn log_starts(&self, range: RangeId, start: Offset) {
        let mut starts = self.log_starts.write();
        let known = starts.entry(range).or_insert(start);
        *known = (*known).max(start);
    }

    /// Where the range's log starts, if retention moved it since this process began.
    pub fn log_start(&self, range: RangeId) -> Option<Offset> {
        self.log_starts.read().get(&range).copied()
    }

    /// The segment is gone: its tails end (told where the log starts, if it was in the chain), a tombstone goes into the
    /// journal, then its file goes.
    pub fn forget(&self, segment: SegmentId, log_start: Option<Offset>) {
        let log = self.segments.write().remove(&segment);
        if let Some(log) = log {
            log.publish(|published| published.gone = Some(log_start));
        }
        let piece = entry::reclaimed(segment);
        let done = Box::new(|outcome: Result<_, JournalError>| {
            if let Err(error) = outcome {
                tracing::error!(%error, "a tombstone was not written");
            }
        });
        match self.journal.append(vec![piece.header, piece.body], Durability::Synced, done) {
            Ok(lsn) => self.scribe.send(Task::Forget { lsn, segment }),
            Err(error) => tracing::error!(%error, %segment, "a tombstone was not written"),
        }
    }

    /// What tails may see changed.
    pub fn publish(&self, segment: SegmentId, change: impl FnOnce(&mut Published)) {
        self.log_or_new(segment).publish(change);
    }

    pub fn log(&self, segment: SegmentId) -> Option<Arc<SegmentLog>> {
        self.segments.read().get(&segment).cloned()
    }

    fn log_or_new(&self, segment: SegmentId) -> Arc<SegmentLog> {
        if let Some(log) = self.log(segment) {
            return log;
        }
        let mut segments = self.segments.write();
        Arc::clone(segments.entry(segment).or_insert_with(|| Arc::new(SegmentLog::new(segment, &self.dir))))
    }

    /// Batches from the one that holds `from`, up to `max_bytes` (at least one). Blocks on a cold segment.
    pub fn read(&self, segment: SegmentId, from: Offset, max_bytes: u32) -> Result<(Offset, Offset, Bytes), ReadError> {
        let log = self.log(segment).ok_or(ReadError::Unknown(segment))?;
        log.read(from, None, max_bytes as usize)
    }

    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Writes everything behind and syncs it, within the journal's own bounds; then leaves the mark of a clean stop.
    /// `unknown` are the replicas whose tail this life did not know. Blocks.
    pub fn shutdown(&self, unknown: &BTreeSet<SegmentId>) {
        self.scribe.stop();
        if let Err(error) = self.journal.shutdown() {
            tracing::error!(%error, "the journal did not shut down cleanly");
            return;
        }
        if let Err(error) = mark::leave(&self.data_dir, unknown) {
            tracing::error!(%error, "the mark of a clean stop could not be left; the next start takes it for an unclean one");
        }
    }
}
