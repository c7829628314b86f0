//! The group-commit journal: one directory of zero-filled, recycled files, one writer thread, one `fdatasync` per group.
//!
//! It is the durable front of everything that must survive a power cut: segd's data (one journal per disk) and metad's
//! Raft log. It is not a store: nothing is read back but once, at [`Journal::open`], which hands every intact entry to
//! the owner in order.
//!
//! Invariants, checked at every open (see [`mod@format`] for the bytes behind them):
//!
//! - J1 *no lost start*: the oldest live file starts at or below the release floor.
//! - J2 *no hole*: live entries are dense in [`Lsn`]; each file starts where the one before it ends.
//! - J3 *no lost end*: everything the journal once wrote down as synced is there. An end below that mark is corruption
//!   and fails the open; an end at or above it is a torn tail and is cut.
//! - J4 *no ghost*: bytes of an earlier life of a file are never taken for live ones. Every group names its file's
//!   generation and its own position under a checksum, and every open writes under a new generation.
//!
//! A failed write or sync fails the journal for ever. It is never retried: after a failed sync the kernel may have
//! dropped the dirty pages and called them clean.

pub mod disk;
pub mod engine;
pub mod format;
pub mod sim;

mod config;
mod entry;
mod error;
mod health;
mod journal;
mod ledger;
mod pool;
mod queue;
mod real;
mod recover;
mod stats;
mod writer;

#[cfg(test)]
mod tests;

pub use config::{Durability, JournalConfig, SyncMode};
pub use disk::{Disk, DiskFile};
pub use entry::Entry;
pub use error::{JournalError, OpenError};
pub use journal::{Completion, Journal};
pub use real::RealDisk;
pub use recover::OpenReport;
pub use stats::JournalStats;

/// The number of an entry: dense, starting at 1, never reused for an entry that was reported durable.
///
/// An entry that was never completed may be cut at the next open; its number is then given to another entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl Lsn {
    /// The number of the first entry of a new journal.
    pub const FIRST: Lsn = Lsn(1);

    /// The number after this one.
    pub fn next(self) -> Lsn {
        Lsn(self.0 + 1)
    }
}

impl std::fmt::Display for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
