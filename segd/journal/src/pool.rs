//! The supply of zero-filled files: makes spares ahead of the writer and turns released files back into spares.
//!
//! A released file is first marked free, and the mark synced, oldest file first; only then is it ready for reuse or
//! deleted. So the live files on disk are one unbroken run at every instant.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::config::{JournalConfig, SyncMode};
use crate::disk::{Disk, DiskFile};
use crate::format::{FileHeader, Run};
use crate::health::Health;
use crate::stats::Counters;
use crate::{JournalError, Lsn, OpenError};

const FILL_STEP_BYTES: usize = 1 << 20;

/// A file of the journal, whatever it holds.
#[derive(Clone)]
pub(crate) struct Slot {
    pub name: String,
    pub file: Arc<dyn DiskFile>,
    pub file_bytes: u64,
}

pub(crate) fn file_name(number: u64) -> String {
    format!("{number:08}.journal")
}

/// The number in a file name of ours.
pub(crate) fn file_number(name: &str) -> Option<u64> {
    let number = name.strip_suffix(".journal")?.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// What an open found of files that hold nothing.
pub(crate) struct FoundSupply {
    /// Usable files. Those that carry a floor in the order of it, highest last.
    pub ready: VecDeque<Slot>,
    /// Files to delete.
    pub doomed: Vec<String>,
    pub next_number: u64,
    pub run: Run,
    pub floor: Lsn,
}

struct Retired {
    slot: Slot,
    header: FileHeader,
}

struct Supply {
    ready: VecDeque<Slot>,
    retiring: VecDeque<Retired>,
    next_number: u64,
    /// The disk was full at the last try; waits for the next change before trying again.
    is_full: bool,
    is_stopping: bool,
}

enum Work {
    Retire(Retired),
    Make { name: String, is_urgent: bool },
    Remove(Slot),
}

pub(crate) struct Pool {
    disk: Arc<dyn Disk>,
    config: JournalConfig,
    health: Arc<Health>,
    counters: Arc<Counters>,
    doomed: Vec<String>,
    run: Run,
    floor: Lsn,
    supply: Mutex<Supply>,
    changed: Condvar,
}

impl Pool {
    pub fn new(
        disk: Arc<dyn Disk>,
        config: JournalConfig,
        health: Arc<Health>,
        counters: Arc<Counters>,
        found: FoundSupply,
    ) -> Self {
        let FoundSupply { ready, doomed, next_number, run, floor } = found;
        let retiring = VecDeque::new();
        let supply = Supply { ready, retiring, next_number, is_full: false, is_stopping: false };
        Pool { disk, config, health, counters, doomed, run, floor, supply: Mutex::new(supply), changed: Condvar::new() }
    }

    /// Makes a file if there is none ready, so that the first append need not, and puts the mark of this run and the
    /// floor on it. Only when that is durable may anything be written or deleted.
    pub fn start(&self, synced_through: Lsn) -> Result<(), OpenError> {
        let mut supply = self.supply.lock();
        if supply.ready.is_empty() {
            let name = supply.take_name();
            // Nobody else uses the pool yet, so the lock may be let go.
            let slot = MutexGuard::unlocked(&mut supply, || self.make(&name, Duration::ZERO));
            supply.ready.push_back(slot.map_err(OpenError::io("make", &name))?);
        }
        let slot = supply.ready.back().expect("a file was just made if there was none");
        let header = self.free_header(slot, self.floor, synced_through);
        self.write_header(slot, &header).map_err(OpenError::io("mark", &slot.name))?;
        for name in &self.doomed {
            self.disk.remove(name).map_err(OpenError::io("remove", name))?;
        }
        if self.is_durable() {
            self.disk.sync_dir().map_err(OpenError::io("sync", "directory"))?;
        }
        Ok(())
    }

    fn free_header(&self, slot: &Slot, floor: Lsn, synced_through: Lsn) -> FileHeader {
        let (live, generation, first_lsn) = (false, self.run.mark(), Lsn(0));
        FileHeader { live, generation, file_bytes: slot.file_bytes, first_lsn, floor, synced_through }
    }

    pub fn is_durable(&self) -> bool {
        self.config.sync == SyncMode::Durable
    }

    pub fn ready(&self) -> usize {
        self.supply.lock().ready.len()
    }

    /// A file for the writer: a ready one, or one made here and now.
    pub fn take(&self) -> io::Result<Slot> {
        let name = {
            let mut supply = self.supply.lock();
            supply.is_full = false;
            self.changed.notify_all();
            match supply.ready.pop_front() {
                Some(slot) => return Ok(slot),
                None => supply.take_name(),
            }
        };
        self.counters.file_waits.fetch_add(1, Relaxed);
        self.make(&name, Duration::ZERO)
    }

    /// Queues a released file, whose entries all lie below `floor`, for reuse. The caller keeps the order of the files.
    pub fn retire(&self, slot: Slot, floor: Lsn, synced_through: Lsn) {
        let header = self.free_header(&slot, floor, synced_through);
        self.supply.lock().retiring.push_back(Retired { slot, header });
        self.changed.notify_all();
    }

    /// The background thread: works until told to stop or until the journal fails.
    pub fn run(&self) {
        while !self.health.is_failed() {
            let work = {
                let mut supply = self.supply.lock();
                loop {
                    if supply.is_stopping {
                        return;
                    }
                    if let Some(work) = supply.next_work(&self.config) {
                        break work;
                    }
                    self.changed.wait(&mut supply);
                }
            };
            let _ = self.execute(work);
        }
    }

    pub fn stop(&self) {
        self.supply.lock().is_stopping = true;
        self.changed.notify_all();
    }

    /// Does one piece of waiting work; `false` if there is none.
    pub fn work_once(&self) -> Result<bool, JournalError> {
        let work = self.supply.lock().next_work(&self.config);
        work.map_or(Ok(false), |work| self.execute(work).map(|()| true))
    }

    fn execute(&self, work: Work) -> Result<(), JournalError> {
        match work {
            Work::Retire(Retired { slot, header }) => {
                self.write_header(&slot, &header).map_err(|error| self.fail("recycle", &slot.name, &error))?;
                self.counters.files_recycled.fetch_add(1, Relaxed);
                let mut supply = self.supply.lock();
                supply.is_full = false;
                supply.ready.push_back(slot);
            }
            Work::Make { name, is_urgent } => {
                let pause = if is_urgent { Duration::ZERO } else { self.config.fill_pause };
                match self.make(&name, pause) {
                    Ok(slot) => self.supply.lock().ready.push_back(slot),
                    // No space for a spare is no harm yet: released files may still keep the writer going.
                    Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                        tracing::warn!(%name, "no space for a spare journal file; release entries or free space");
                        self.supply.lock().is_full = true;
                        let removed = self.disk.remove(&name).and_then(|()| self.disk.sync_dir());
                        removed.map_err(|error| self.fail("remove", &name, &error))?;
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(self.fail("make", &name, &error)),
                }
            }
            Work::Remove(slot) => {
                self.disk.remove(&slot.name).map_err(|error| self.fail("remove", &slot.name, &error))?;
            }
        }
        Ok(())
    }

    fn fail(&self, action: &str, name: &str, error: &io::Error) -> JournalError {
        self.health.fail(format!("could not {action} file {name}: {error}"))
    }

    pub fn sync(&self, file: &dyn DiskFile) -> io::Result<()> {
        match self.config.sync {
            SyncMode::Durable => file.sync_data(),
            SyncMode::None => Ok(()),
        }
    }

    fn write_header(&self, slot: &Slot, header: &FileHeader) -> io::Result<()> {
        slot.file.write_all_at(&mut [IoSlice::new(&header.encode())], 0)?;
        self.sync(&*slot.file)
    }

    /// Makes a file of zeroes that were really written: reserved-only space would still cost a metadata write at each
    /// first use. Synced in steps, so that no sync of the writer waits behind a whole file.
    fn make(&self, name: &str, pause: Duration) -> io::Result<Slot> {
        let file = self.disk.create(name)?;
        let zeroes = vec![0; FILL_STEP_BYTES.min(self.config.file_bytes as usize)];
        let mut at = 0;
        while at < self.config.file_bytes {
            let step = zeroes.len().min((self.config.file_bytes - at) as usize);
            file.write_all_at(&mut [IoSlice::new(&zeroes[..step])], at)?;
            self.sync(&*file)?;
            at += step as u64;
            if !pause.is_zero() && at < self.config.file_bytes && self.pause_is_cut_short(pause) {
                // Stopping: the open after this one finds the short file and removes it.
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
        if self.is_durable() {
            self.disk.sync_dir()?;
        }
        // The header says that all of the above is durable: an open deletes a file without one.
        let slot = Slot { name: name.to_owned(), file, file_bytes: self.config.file_bytes };
        self.write_header(&slot, &self.free_header(&slot, self.floor, Lsn(0)))?;
        self.counters.files_made.fetch_add(1, Relaxed);
        Ok(slot)
    }

    /// Waits between two steps of a fill, or not if the writer has nothing left; true if the pool is stopping.
    fn pause_is_cut_short(&self, pause: Duration) -> bool {
        let mut supply = self.supply.lock();
        if !supply.is_stopping && !supply.ready.is_empty() {
            self.changed.wait_for(&mut supply, pause);
        }
        supply.is_stopping
    }
}

impl Supply {
    fn take_name(&mut self) -> String {
        let name = file_name(self.next_number);
        self.next_number += 1;
        name
    }

    /// Recycling comes before making. Deleting takes the oldest mark: the newest one carries the floor.
    fn next_work(&mut self, config: &JournalConfig) -> Option<Work> {
        if let Some(retired) = self.retiring.pop_front() {
            return Some(Work::Retire(retired));
        }
        if self.ready.len() > config.keep_files {
            return self.ready.pop_front().map(Work::Remove);
        }
        if self.ready.len() < config.spare_files && !self.is_full {
            let is_urgent = self.ready.is_empty();
            return Some(Work::Make { name: self.take_name(), is_urgent });
        }
        None
    }
}
