//! Which files hold what, and how far the owner has let go: decides when a file may be recycled.

use std::collections::VecDeque;

use parking_lot::Mutex;

use crate::Lsn;
use crate::pool::{Pool, Slot};

/// A file that is full, or that an earlier run wrote.
pub(crate) struct ClosedFile {
    pub slot: Slot,
    /// The number after its last entry.
    pub end_lsn: Lsn,
    pub first_lsn: Lsn,
}

struct Books {
    closed: VecDeque<ClosedFile>,
    /// Start and used bytes of the file being written.
    active: Option<(Lsn, u64)>,
    next_lsn: Lsn,
    synced_through: Lsn,
    /// Everything below is no longer needed, as far as the owner is concerned.
    released: Lsn,
}

pub(crate) struct Ledger(Mutex<Books>);

impl Ledger {
    pub fn new(closed: VecDeque<ClosedFile>, next_lsn: Lsn, synced_through: Lsn) -> Self {
        let released = Lsn(0);
        Ledger(Mutex::new(Books { closed, active: None, next_lsn, synced_through, released }))
    }

    pub fn synced_through(&self) -> Lsn {
        self.0.lock().synced_through
    }

    /// The first entry of the oldest live file: the floor a new header states.
    pub fn floor(&self) -> Lsn {
        let books = self.0.lock();
        books
            .closed
            .front()
            .map(|file| file.first_lsn)
            .or(books.active.map(|(first, _)| first))
            .unwrap_or(books.next_lsn)
    }

    pub fn note_active(&self, first_lsn: Lsn, used_bytes: u64, next_lsn: Lsn) {
        let mut books = self.0.lock();
        books.active = Some((first_lsn, used_bytes));
        books.next_lsn = next_lsn;
    }

    pub fn note_closed(&self, file: ClosedFile, pool: &Pool) {
        let mut books = self.0.lock();
        books.active = None;
        books.closed.push_back(file);
        books.recycle(pool);
    }

    pub fn note_synced(&self, through: Lsn, pool: &Pool) {
        let mut books = self.0.lock();
        books.synced_through = books.synced_through.max(through);
        books.recycle(pool);
    }

    pub fn release(&self, before: Lsn, pool: &Pool) {
        let mut books = self.0.lock();
        books.released = books.released.max(before);
        books.recycle(pool);
    }

    pub fn pinned_bytes(&self) -> u64 {
        let books = self.0.lock();
        let closed: u64 = books.closed.iter().map(|file| file.slot.file_bytes).sum();
        let active = books.active.filter(|_| books.released < books.next_lsn).map_or(0, |(_, used)| used);
        closed + active
    }
}

impl Books {
    /// Hands released files to the pool, oldest first. What was not synced is not let go even if released: the floor
    /// must never pass what a torn tail may take.
    fn recycle(&mut self, pool: &Pool) {
        let floor = self.released.min(self.synced_through.next());
        while self.closed.front().is_some_and(|file| file.end_lsn <= floor) {
            if let Some(file) = self.closed.pop_front() {
                // Under this lock, so that the order of retiring is the order of the files.
                pool.retire(file.slot, file.end_lsn, self.synced_through);
            }
        }
    }
}
