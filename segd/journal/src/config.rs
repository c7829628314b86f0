//! The settings of a journal, their defaults and their bounds.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::OpenError;
use crate::format::{self, BLOCK_BYTES};

/// What a sync means for the whole journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncMode {
    /// Every group is followed by `fdatasync`: completed entries survive a power cut.
    Durable,
    /// Nothing is ever synced: completed entries survive the death of the process, but not of the machine. After a
    /// power cut the open may find a hole it cannot explain and refuse.
    None,
}

/// When an append completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// After the sync that covers it.
    Synced,
    /// After the write; the sync follows within [`JournalConfig::lazy_sync_delay`]. Such an entry may complete before an
    /// earlier `Synced` one.
    Written,
}

/// Settings of one journal.
#[derive(Clone, Debug)]
pub struct JournalConfig {
    /// Directory of the files; made if missing. Only [`crate::Journal::open`] looks at it.
    pub dir: PathBuf,
    /// Size of each file in bytes: a multiple of 4096, from 8 KiB to 1 GiB. Default 64 MiB.
    pub file_bytes: u64,
    /// Zero-filled files kept ready ahead of the writer. Default 2.
    pub spare_files: usize,
    /// Released files kept for reuse; those beyond are deleted. At least `spare_files`, and at least 1. Default 16.
    pub keep_files: usize,
    /// Largest entry in bytes. An entry never spans files, so one group holding it must fit in a file. Default 20 MiB.
    pub max_entry_bytes: usize,
    /// Bytes that may wait to be written, each entry counted with 64 bytes of upkeep; beyond it appends are refused
    /// with `Overloaded`. Room for one largest entry at least. Default 64 MiB.
    pub queue_bytes: usize,
    /// Bytes after which a group is closed and synced even if more is queued, so that a full queue does not make one
    /// huge sync. A single larger entry makes a group of its own. Default 8 MiB.
    pub max_group_bytes: usize,
    /// Longest wait of a [`Durability::Written`] entry for its sync when no `Synced` entry asks for one. Default 5 ms.
    pub lazy_sync_delay: Duration,
    /// Unsynced bytes of `Written` entries after which a sync starts without waiting. Default 4 MiB.
    pub lazy_sync_bytes: u64,
    /// Pause between the 1 MiB steps of making a spare file, so that filling does not disturb the syncs of the writer.
    /// Left out while no spare is ready. Default 5 ms.
    pub fill_pause: Duration,
    /// Whether groups are synced. Default `Durable`.
    pub sync: SyncMode,
}

impl JournalConfig {
    /// The defaults, in `dir`.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        JournalConfig {
            dir: dir.into(),
            file_bytes: 64 << 20,
            spare_files: 2,
            keep_files: 16,
            max_entry_bytes: 20 << 20,
            queue_bytes: 64 << 20,
            max_group_bytes: 8 << 20,
            lazy_sync_delay: Duration::from_millis(5),
            lazy_sync_bytes: 4 << 20,
            fill_pause: Duration::from_millis(5),
            sync: SyncMode::Durable,
        }
    }

    /// The smallest file that can take the largest entry.
    pub(crate) fn least_file_bytes(&self) -> u64 {
        BLOCK_BYTES + format::group_bytes(1, self.max_entry_bytes as u64)
    }

    pub(crate) fn validate(&self) -> Result<(), OpenError> {
        let rule = |ok: bool, what: &'static str| if ok { Ok(()) } else { Err(OpenError::Settings { what }) };
        rule(self.file_bytes.is_multiple_of(BLOCK_BYTES), "make file_bytes a multiple of 4096")?;
        rule((2 * BLOCK_BYTES..=1 << 30).contains(&self.file_bytes), "keep file_bytes between 8 KiB and 1 GiB")?;
        rule(self.max_entry_bytes <= 1 << 30, "keep max_entry_bytes at or below 1 GiB")?;
        rule(
            self.least_file_bytes() <= self.file_bytes,
            "raise file_bytes or lower max_entry_bytes: it must fit a file",
        )?;
        rule(self.keep_files >= self.spare_files.max(1), "raise keep_files to spare_files, and to 1 at least")?;
        rule(self.max_group_bytes >= 1, "raise max_group_bytes above 0")?;
        let one_entry = crate::queue::cost(self.max_entry_bytes);
        rule(self.queue_bytes >= one_entry, "raise queue_bytes to max_entry_bytes + 64 at least")
    }
}
