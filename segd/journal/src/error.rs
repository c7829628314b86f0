//! What can go wrong: with an append ([`JournalError`]) and with an open ([`OpenError`]).

use std::io;
use std::sync::Arc;

use crate::Lsn;

/// Why an append did not take place, or is not known to have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// The queue is full. Nothing was written; try again when the disk has caught up.
    #[error("journal queue is full: {queued_bytes} of {limit_bytes} bytes wait; slow down or raise queue_bytes")]
    Overloaded { queued_bytes: usize, limit_bytes: usize },
    /// The entry is over `max_entry_bytes`. Nothing was written.
    #[error("journal entry of {bytes} bytes is over the limit of {limit_bytes}; split it or raise max_entry_bytes")]
    TooLarge { bytes: usize, limit_bytes: usize },
    /// A write or sync failed, now or earlier. The entry may or may not be found at the next open. Never retried:
    /// take the disk out of service and reopen only after it was looked at.
    #[error("journal failed and stays failed: {reason}; take this disk out of service")]
    Failed { reason: Arc<str> },
    /// The journal was shut down before the append. Nothing was written.
    #[error("journal is shut down; open it again to append")]
    Closed,
}

/// Why a journal could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// A setting is out of bounds.
    #[error("journal settings: {what}")]
    Settings { what: &'static str },
    /// Another process, or another journal of this one, holds the directory.
    #[error("journal directory is in use; stop the other process that holds it")]
    InUse,
    /// The disk refused an operation.
    #[error("journal could not {action} {file}: {source}; check the disk, then open again")]
    Io { action: &'static str, file: String, source: io::Error },
    /// Entries that were synced are damaged or missing. Nothing was changed on disk.
    #[error("journal is corrupt at lsn {at} ({what}, file {file}); do not serve this copy: rebuild it from its peers")]
    Corrupt { at: Lsn, file: String, what: &'static str },
}

impl OpenError {
    pub(crate) fn io(action: &'static str, file: &str) -> impl FnOnce(io::Error) -> OpenError {
        move |source| OpenError::Io { action, file: file.to_owned(), source }
    }
}
