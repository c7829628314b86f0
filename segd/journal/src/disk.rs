//! What the journal asks of a directory on a disk. One contract, two implementations: [`crate::RealDisk`] and the
//! simulated [`crate::sim::SimDisk`]; one conformance suite runs against both.
//!
//! The contract:
//!
//! - D1 A write is seen by every later read through any handle, at once, whether or not it was synced.
//! - D2 After `sync_data` returns `Ok`, every write to that file that returned before the call survives a power cut, and
//!   so does the length those writes gave the file.
//! - D3 Before that, a power cut keeps any subset of the 512-byte sectors written; a sector is kept whole or not at all.
//!   A write broken off by an error or the end of the process ends between two sectors as well. A sector that was
//!   synced and not written since is never lost.
//! - D4 A created or removed name survives a power cut only after `sync_dir` returned `Ok`. Before that it may or may not.
//! - D5 After any error of a write or sync, nothing is known of the unsynced sectors of that file, and a later `Ok` from
//!   `sync_data` says nothing about them. The caller must not go on.
//! - D6 Files written within their length need no new space.
//!
//! Calls block. Handles may be used from several threads; writes to overlapping ranges at the same time are the
//! caller's mistake.

use std::io::{self, IoSlice};
use std::sync::Arc;

/// A directory of files.
pub trait Disk: Send + Sync + 'static {
    /// Names of all files, in any order.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Makes an empty file; `AlreadyExists` if the name is taken.
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Opens a file for reading and writing; `NotFound` if there is none.
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>>;
    /// Removes a name; `NotFound` if there is none. Open handles go on working.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Makes creations and removals durable (D4).
    fn sync_dir(&self) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Send + Sync {
    /// Length in bytes.
    fn bytes(&self) -> io::Result<u64>;
    /// Writes all of `pieces`, one after the other, at `offset`; extends the file if needed. `pieces` is used up.
    fn write_all_at(&self, pieces: &mut [IoSlice<'_>], offset: u64) -> io::Result<()>;
    /// Fills `buf` from `offset`; `UnexpectedEof` if the file ends before.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Makes what was written durable (D2).
    fn sync_data(&self) -> io::Result<()>;
}
