//! Writes segment files behind the journal, on one thread, and syncs them in small paced steps.
//!
//! Neither a roll nor this thread makes a periodic jitter: files are made when a replica opens, long before its first
//! record, and one file is synced at a time, with a pause. The journal lets go of what all files have synced.

use super::log::SegmentLog;
use crate::config::Limits;
use crate::entry::Piece;
use seam_journal::{Journal, Lsn};
use seam_wire::SegmentId;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a decided segment keeps its newest records in memory.
const COOL_AFTER: Duration = Duration::from_secs(5);
const COOL_EVERY: Duration = Duration::from_secs(1);

pub enum Task {
    Write { lsn: Lsn, log: Arc<SegmentLog>, piece: Piece },
    Forget { lsn: Lsn, segment: SegmentId },
    Stop,
}

pub struct Scribe {
    tasks: mpsc::Sender<Task>,
    thread: parking_lot::Mutex<Option<JoinHandle<()>>>,
}

impl Scribe {
    pub fn start(dir: PathBuf, limits: &Limits, journal: Journal) -> std::io::Result<Scribe> {
        let (tasks, queue) = mpsc::channel();
        let run = Run {
            dir,
            limits: limits.clone(),
            journal,
            dirty: BTreeMap::new(),
            logs: BTreeMap::new(),
            done_through: Lsn(0),
            last_sync: Instant::now(),
            last_cool: Instant::now(),
            failed: false,
        };
        let thread = std::thread::Builder::new().name("scribe".to_owned()).spawn(move || run.run(&queue))?;
        Ok(Scribe { tasks, thread: parking_lot::Mutex::new(Some(thread)) })
    }

    pub fn send(&self, task: Task) {
        if self.tasks.send(task).is_err() {
            tracing::error!("the scribe is gone; the journal keeps everything until a restart");
        }
    }

    /// Writes and syncs what is queued, then ends.
    pub fn stop(&self) {
        if let Some(thread) = self.thread.lock().take() {
            self.send(Task::Stop);
            if thread.join().is_err() {
                tracing::error!("the scribe panicked");
            }
        }
    }
}

struct Dirty {
    first_lsn: Lsn,
    since: Instant,
    bytes: u64,
}

struct Run {
    dir: PathBuf,
    limits: Limits,
    journal: Journal,
    dirty: BTreeMap<SegmentId, Dirty>,
    logs: BTreeMap<SegmentId, Arc<SegmentLog>>,
    /// Everything up to here is in a file (or needs none), synced or dirty.
    done_through: Lsn,
    last_sync: Instant,
    last_cool: Instant,
    failed: bool,
}

impl Run {
    fn run(mut self, queue: &mpsc::Receiver<Task>) {
        let pause = Duration::from_millis(self.limits.sync_pause_ms.max(1));
        loop {
            match queue.recv_timeout(pause) {
                Ok(Task::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(task) => self.take(task),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.sync_one_if_due(pause);
            self.cool();
        }
        while let Some((&segment, _)) = self.dirty.first_key_value() {
            self.sync(segment);
        }
        self.release();
    }

    fn take(&mut self, task: Task) {
        match task {
            Task::Write { lsn, log, piece } => {
                if self.failed {
                    return;
                }
                let segment = log.id();
                if let Err(error) = log.write_behind(&piece, self.limits.cache_bytes) {
                    self.failed = true;
                    tracing::error!(%error, %segment, "writing behind failed; the journal keeps everything from here on, until the disk is full. \
                         Free space or repair the disk, then restart segd");
                    return;
                }
                let fresh = Dirty { first_lsn: lsn, since: Instant::now(), bytes: 0 };
                self.dirty.entry(segment).or_insert(fresh).bytes += piece.len() as u64;
                self.logs.entry(segment).or_insert(log);
                self.done_through = lsn;
            }
            Task::Forget { lsn, segment } => {
                self.dirty.remove(&segment);
                self.logs.remove(&segment);
                let path = self.dir.join(format!("{}.log", segment.0));
                if let Err(error) = std::fs::remove_file(&path)
                    && error.kind() != std::io::ErrorKind::NotFound
                {
                    tracing::error!(%error, %segment, "a reclaimed segment's file stays");
                }
                self.done_through = lsn;
            }
            Task::Stop => {}
        }
    }

    fn sync_one_if_due(&mut self, pause: Duration) {
        if self.last_sync.elapsed() < pause {
            return;
        }
        let age = Duration::from_millis(self.limits.sync_age_ms);
        let due = |dirty: &Dirty| dirty.bytes >= self.limits.sync_bytes || dirty.since.elapsed() >= age;
        let oldest = self.dirty.iter().filter(|(_, dirty)| due(dirty)).min_by_key(|(_, dirty)| dirty.first_lsn);
        if let Some((&segment, _)) = oldest {
            self.sync(segment);
            self.release();
        }
    }

    fn sync(&mut self, segment: SegmentId) {
        let Some(dirty) = self.dirty.remove(&segment) else { return };
        self.last_sync = Instant::now();
        let Some(log) = self.logs.get(&segment) else { return };
        if let Err(error) = log.sync() {
            self.failed = true; // Never retried: the journal keeps what this file may have lost.
            self.dirty.insert(segment, Dirty { since: Instant::now() + Duration::from_secs(u32::MAX.into()), ..dirty });
            tracing::error!(%error, %segment, "syncing a segment file failed; the journal keeps everything from here on");
        }
    }

    fn release(&self) {
        if self.failed {
            return;
        }
        let oldest_dirty = self.dirty.values().map(|dirty| dirty.first_lsn).min();
        self.journal.release(oldest_dirty.unwrap_or(self.done_through.next()));
    }

    fn cool(&mut self) {
        if self.last_cool.elapsed() < COOL_EVERY {
            return;
        }
        self.last_cool = Instant::now();
        self.logs.values().for_each(|log| log.cool(COOL_AFTER));
        let dirty = &self.dirty;
        self.logs.retain(|segment, log| dirty.contains_key(segment) || log.subscribe().borrow().decision.is_none());
    }
}
