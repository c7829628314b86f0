//! The bounded queue between appenders and the writer thread: gives out numbers, and accounts for bytes until they are
//! written.

use std::collections::VecDeque;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::config::{Durability, JournalConfig};
use crate::entry::Entry;
use crate::journal::Completion;
use crate::{JournalError, Lsn};

/// What an entry counts beside its bytes, so that a flood of empty entries is bounded too.
const UPKEEP_BYTES: usize = 64;

pub(crate) fn cost(entry_bytes: usize) -> usize {
    entry_bytes + UPKEEP_BYTES
}

/// An accepted append.
pub(crate) struct Pending {
    pub lsn: Lsn,
    pub entry: Entry,
    pub durability: Durability,
    pub done: Completion,
}

struct Inner {
    waiting: VecDeque<Pending>,
    /// Cost of what is accepted and not yet written.
    bytes: usize,
    next_lsn: Lsn,
    /// Why nothing is accepted any more.
    refusal: Option<JournalError>,
}

pub(crate) struct Queue {
    inner: Mutex<Inner>,
    arrived: Condvar,
    limit_bytes: usize,
    max_entry_bytes: usize,
    max_group_bytes: usize,
}

impl Inner {
    fn is_failed(&self) -> bool {
        matches!(self.refusal, Some(JournalError::Failed { .. }))
    }
}

/// What the writer thread is to do next.
pub(crate) enum Turn {
    Write(Vec<Pending>),
    /// The deadline passed with nothing queued.
    Deadline,
    /// Closed and nothing is left, or failed.
    End,
}

impl Queue {
    pub fn new(config: &JournalConfig, next_lsn: Lsn) -> Self {
        Queue {
            inner: Mutex::new(Inner { waiting: VecDeque::new(), bytes: 0, next_lsn, refusal: None }),
            arrived: Condvar::new(),
            limit_bytes: config.queue_bytes,
            max_entry_bytes: config.max_entry_bytes,
            max_group_bytes: config.max_group_bytes,
        }
    }

    /// All of `entries`, in order, or none. `done` goes with the last; the others complete silently.
    pub fn push_all(
        &self,
        entries: Vec<Entry>,
        durability: Durability,
        done: Completion,
    ) -> Result<Vec<Lsn>, JournalError> {
        if let Some(entry) = entries.iter().find(|entry| entry.len() > self.max_entry_bytes) {
            return Err(JournalError::TooLarge { bytes: entry.len(), limit_bytes: self.max_entry_bytes });
        }
        let mut inner = self.inner.lock();
        if let Some(refusal) = &inner.refusal {
            return Err(refusal.clone());
        }
        let bytes = inner.bytes + entries.iter().map(|entry| cost(entry.len())).sum::<usize>();
        if bytes > self.limit_bytes {
            return Err(JournalError::Overloaded { queued_bytes: inner.bytes, limit_bytes: self.limit_bytes });
        }
        inner.bytes = bytes;
        let was_empty = inner.waiting.is_empty();
        let last = entries.len().saturating_sub(1);
        let mut done = Some(done);
        let mut numbers = Vec::with_capacity(entries.len());
        for (index, entry) in entries.into_iter().enumerate() {
            let lsn = inner.next_lsn;
            inner.next_lsn = lsn.next();
            let done = done.take_if(|_| index == last).unwrap_or_else(|| Box::new(|_| ()));
            inner.waiting.push_back(Pending { lsn, entry, durability, done });
            numbers.push(lsn);
        }
        if was_empty {
            self.arrived.notify_one();
        }
        Ok(numbers)
    }

    /// Takes everything queued, up to a group's worth; waits for something, at most until `deadline`.
    pub fn take(&self, deadline: Option<Instant>) -> Turn {
        let mut inner = self.inner.lock();
        while inner.waiting.is_empty() || inner.is_failed() {
            if inner.refusal.is_some() {
                return Turn::End;
            }
            match deadline {
                None => self.arrived.wait(&mut inner),
                Some(deadline) => {
                    if self.arrived.wait_until(&mut inner, deadline).timed_out() && inner.waiting.is_empty() {
                        return Turn::Deadline;
                    }
                }
            }
        }
        let (mut count, mut bytes) = (0, 0);
        for pending in &inner.waiting {
            bytes += cost(pending.entry.len());
            if count > 0 && bytes > self.max_group_bytes {
                break;
            }
            count += 1;
        }
        Turn::Write(inner.waiting.drain(..count).collect())
    }

    /// Gives back the cost of what was written.
    pub fn written(&self, bytes: usize) {
        self.inner.lock().bytes -= bytes;
    }

    /// Refuses appends from now on. After `Closed`, what is queued is still written; after `Failed`, nothing is.
    pub fn refuse(&self, error: JournalError) {
        let mut inner = self.inner.lock();
        if !inner.is_failed() {
            inner.refusal = Some(error);
        }
        self.arrived.notify_all();
    }

    /// Hands back what is queued, to be completed with an error.
    pub fn drain(&self) -> VecDeque<Pending> {
        let mut inner = self.inner.lock();
        inner.bytes = 0;
        std::mem::take(&mut inner.waiting)
    }

    pub fn bytes(&self) -> usize {
        self.inner.lock().bytes
    }

    pub fn next_lsn(&self) -> Lsn {
        self.inner.lock().next_lsn
    }
}
