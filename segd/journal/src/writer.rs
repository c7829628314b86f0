//! The writing end: turns entries into groups in files and syncs them. Single-threaded; knows nothing of queues.

use std::io::{self, IoSlice};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use crate::Lsn;
use crate::disk::DiskFile;
use crate::entry::Entry;
use crate::format::{BLOCK_BYTES, FileHeader, GroupHeader, HEADER_BYTES, Run, group_bytes};
use crate::ledger::{ClosedFile, Ledger};
use crate::pool::{Pool, Slot};
use crate::stats::Counters;

static ZEROES: [u8; BLOCK_BYTES as usize] = [0; BLOCK_BYTES as usize];

struct Active {
    slot: Slot,
    generation: u64,
    first_lsn: Lsn,
    /// Where the next group goes.
    position: u64,
}

impl Active {
    fn has_room(&self, bytes: u64) -> bool {
        self.position + bytes <= self.slot.file_bytes
    }
}

pub(crate) struct Writer {
    pool: Arc<Pool>,
    ledger: Arc<Ledger>,
    counters: Arc<Counters>,
    active: Option<Active>,
    next_generation: u64,
    /// The number of the next entry to write.
    next_lsn: Lsn,
    unsynced: Vec<Arc<dyn DiskFile>>,
    unsynced_bytes: u64,
    /// Whether a group was written that no later one vouches for.
    lacks_witness: bool,
}

impl Writer {
    pub fn new(pool: Arc<Pool>, ledger: Arc<Ledger>, counters: Arc<Counters>, run: Run, next_lsn: Lsn) -> Self {
        let (active, next_generation) = (None, run.mark() + 1);
        let (unsynced, unsynced_bytes, lacks_witness) = (Vec::new(), 0, false);
        Writer { pool, ledger, counters, active, next_generation, next_lsn, unsynced, unsynced_bytes, lacks_witness }
    }

    /// Bytes written to files since the last sync.
    pub fn unsynced_bytes(&self) -> u64 {
        self.unsynced_bytes
    }

    /// Writes `entries` in order, in as few groups as the files allow. After an error the writer must not be used again.
    pub fn write(&mut self, mut entries: &[Entry]) -> io::Result<()> {
        while let Some(first) = entries.first() {
            if !self.active.as_ref().is_some_and(|active| active.has_room(group_bytes(1, first.len() as u64))) {
                self.rotate()?;
            }
            let count = self.fitting(entries);
            self.write_group(&entries[..count])?;
            entries = &entries[count..];
        }
        Ok(())
    }

    /// How many of `entries` the active file takes in one group.
    fn fitting(&self, entries: &[Entry]) -> usize {
        let Some(active) = &self.active else { return 0 };
        let (mut count, mut payload) = (0, 0);
        for entry in entries {
            payload += entry.len() as u64;
            if !active.has_room(group_bytes(count + 1, payload)) {
                break;
            }
            count += 1;
        }
        count as usize
    }

    /// Closes the active file and starts the next. Nothing is synced here: the header goes with the first group.
    fn rotate(&mut self) -> io::Result<()> {
        let slot = self.pool.take()?;
        if let Some(Active { slot, first_lsn, .. }) = self.active.take() {
            self.ledger.note_closed(ClosedFile { slot, first_lsn, end_lsn: self.next_lsn }, &self.pool);
        }
        let generation = self.next_generation;
        self.next_generation += 1;
        self.ledger.note_active(self.next_lsn, BLOCK_BYTES, self.next_lsn);
        let header = FileHeader {
            live: true,
            generation,
            file_bytes: slot.file_bytes,
            first_lsn: self.next_lsn,
            floor: self.ledger.floor(),
            synced_through: self.ledger.synced_through(),
        };
        // The whole block, so that a recycled file need not be read first.
        let header_bytes = header.encode();
        slot.file.write_all_at(&mut [IoSlice::new(&header_bytes), IoSlice::new(&ZEROES[HEADER_BYTES..])], 0)?;
        self.unsynced.push(slot.file.clone());
        self.active = Some(Active { slot, generation, first_lsn: self.next_lsn, position: BLOCK_BYTES });
        Ok(())
    }

    fn write_group(&mut self, entries: &[Entry]) -> io::Result<()> {
        let active = self.active.as_mut().expect("write() made room in an active file");
        let payload: u64 = entries.iter().map(|entry| entry.len() as u64).sum();
        let padded = group_bytes(entries.len() as u64, payload);
        let lengths: Vec<u8> = entries.iter().flat_map(|entry| (entry.len() as u32).to_le_bytes()).collect();
        let pieces = || entries.iter().flat_map(Entry::pieces);
        let header = GroupHeader {
            generation: active.generation,
            position: active.position,
            first_lsn: self.next_lsn,
            synced_through: self.ledger.synced_through(),
            count: entries.len() as u32,
            body_bytes: (lengths.len() as u64 + payload) as u32,
            body_crc: pieces().fold(crc32c::crc32c(&lengths), |crc, piece| crc32c::crc32c_append(crc, piece)),
        };
        let header_bytes = header.encode();
        let padding = padded as usize - HEADER_BYTES - header.body_bytes as usize;
        let mut slices = vec![IoSlice::new(&header_bytes), IoSlice::new(&lengths)];
        slices.extend(pieces().map(|piece| IoSlice::new(piece)));
        slices.push(IoSlice::new(&ZEROES[..padding]));
        active.slot.file.write_all_at(&mut slices, active.position)?;

        active.position += padded;
        self.next_lsn = header.end_lsn();
        self.ledger.note_active(active.first_lsn, active.position, self.next_lsn);
        if !self.unsynced.iter().any(|file| Arc::ptr_eq(file, &active.slot.file)) {
            self.unsynced.push(active.slot.file.clone());
        }
        self.unsynced_bytes += padded;
        self.lacks_witness = !entries.is_empty();
        self.counters.groups.fetch_add(1, Relaxed);
        self.counters.max_group.fetch_max(entries.len() as u64, Relaxed);
        self.counters.bytes.fetch_add(payload, Relaxed);
        self.counters.disk_bytes.fetch_add(padded, Relaxed);
        Ok(())
    }

    /// Makes everything written durable, or with `SyncMode::None` calls it so. After an error the writer must not be used again.
    pub fn sync(&mut self) -> io::Result<()> {
        if self.unsynced.is_empty() {
            return Ok(());
        }
        let started = Instant::now();
        for file in self.unsynced.drain(..) {
            self.pool.sync(&*file)?;
        }
        if self.pool.is_durable() {
            self.counters.sync.record(started.elapsed());
        }
        self.unsynced_bytes = 0;
        self.ledger.note_synced(Lsn(self.next_lsn.0 - 1), &self.pool);
        Ok(())
    }

    /// Ends with a group that vouches for the one before, so that damage to it is told from a torn tail.
    pub fn close(&mut self) -> io::Result<()> {
        self.sync()?;
        let has_room = self.active.as_ref().is_some_and(|active| active.has_room(group_bytes(0, 0)));
        if self.lacks_witness && has_room {
            self.write_group(&[])?;
            self.sync()?;
        }
        Ok(())
    }
}
