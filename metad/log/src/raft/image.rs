//! The log in memory: every entry back to the last purge, and where in the journal it lies. Pure; no I/O.
//!
//! A restart rebuilds it by playing the journal's records in order, so writing and recovering share one function.

use super::record::Record;
use super::types::{Entry, LogId, Vote};
use std::collections::VecDeque;
use std::io;

/// A place in the journal; grows with every record.
pub type Position = u64;

#[derive(Clone, Debug)]
struct Stored {
    entry: Entry,
    bytes: u64,
    position: Position,
}

/// What the journal says, played up to its end.
#[derive(Clone, Debug, Default)]
pub struct Image {
    vote: Option<Vote>,
    purged: Option<LogId>,
    committed: Option<LogId>,
    entries: VecDeque<Stored>,
    bytes: u64,
    /// Where the newest base lies: the journal must keep it.
    base_position: Option<Position>,
}

impl Image {
    pub fn vote(&self) -> Option<Vote> {
        self.vote
    }

    pub fn purged(&self) -> Option<LogId> {
        self.purged
    }

    pub fn committed(&self) -> Option<LogId> {
        self.committed
    }

    /// Bytes of the entries held.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn last(&self) -> Option<LogId> {
        self.entries.back().map(|stored| stored.entry.log_id).or(self.purged)
    }

    /// Index of the first entry held, where there is one.
    fn first_index(&self) -> Option<u64> {
        self.entries.front().map(|stored| stored.entry.log_id.index)
    }

    /// Entries of `start..end` that are held, at least one where there is one, then no more than fit `max_bytes`.
    pub fn read(&self, start: u64, end: u64, max_bytes: u64) -> Vec<Entry> {
        let Some(first) = self.first_index() else { return Vec::new() };
        let from = usize::try_from(start.saturating_sub(first)).unwrap_or(usize::MAX).min(self.entries.len());
        let to = usize::try_from(end.saturating_sub(first)).unwrap_or(usize::MAX).min(self.entries.len());
        let mut taken = 0u64;
        let mut read = Vec::new();
        for stored in self.entries.range(from..to.max(from)) {
            taken += stored.bytes;
            if taken > max_bytes && !read.is_empty() {
                break;
            }
            read.push(stored.entry.clone());
        }
        read
    }

    /// The highest index such that the entries after it take no more than `keep_bytes`.
    pub fn index_keeping(&self, keep_bytes: u64) -> Option<u64> {
        let mut kept = 0u64;
        for stored in self.entries.iter().rev() {
            kept += stored.bytes;
            if kept > keep_bytes {
                return Some(stored.entry.log_id.index);
            }
        }
        None
    }

    /// Bytes of the entries after `index`.
    pub fn bytes_after(&self, index: u64) -> u64 {
        self.entries
            .iter()
            .rev()
            .take_while(|stored| stored.entry.log_id.index > index)
            .map(|stored| stored.bytes)
            .sum()
    }

    /// Notes the committed id. It is written with the next record, never by itself.
    pub fn note_committed(&mut self, committed: Option<LogId>) {
        self.committed = committed;
    }

    /// The record that makes everything before the first entry held superfluous.
    pub fn base(&self) -> Record {
        Record::Base { vote: self.vote, purged: self.purged, committed: self.committed }
    }

    /// Everything before this place is no longer needed.
    pub fn release_below(&self) -> Option<Position> {
        let first_entry = self.entries.front().map(|stored| stored.position);
        let base = self.base_position?;
        // The base repeats the vote, so an older vote may go; a newer one lies behind the base anyway.
        Some(first_entry.map_or(base, |position| position.min(base)))
    }

    /// Drops entries up to `upto`, inclusive, and remembers it.
    pub fn purge(&mut self, upto: LogId) {
        while self.first_index().is_some_and(|index| index <= upto.index) {
            if let Some(gone) = self.entries.pop_front() {
                self.bytes -= gone.bytes;
            }
        }
        self.purged = self.purged.max(Some(upto));
    }

    /// Drops entries after `after`; `None` drops all.
    pub fn truncate(&mut self, after: Option<LogId>) {
        let keep_to = after.map(|id| id.index);
        while let Some(stored) = self.entries.back() {
            if keep_to.is_some_and(|index| stored.entry.log_id.index <= index) {
                break;
            }
            self.bytes -= stored.bytes;
            self.entries.pop_back();
        }
    }

    /// Plays one record of `bytes` that lies at `position`.
    ///
    /// # Errors
    /// A hole in the log: the journal lost a record, and going on would lose entries.
    pub fn play(&mut self, record: Record, position: Position, bytes: u64) -> io::Result<()> {
        match record {
            Record::Entry { committed, entry } => {
                self.committed = self.committed.max(committed);
                self.push(entry, position, bytes)?;
            }
            Record::Vote(vote) => self.vote = Some(vote),
            Record::Truncate { after } => self.truncate(after),
            Record::Base { vote, purged, committed } => {
                self.vote = vote;
                self.committed = self.committed.max(committed);
                if let Some(purged) = purged {
                    self.purge(purged);
                }
                self.base_position = Some(position);
            }
        }
        Ok(())
    }

    /// Appends an entry that lies at `position`.
    pub fn push(&mut self, entry: Entry, position: Position, bytes: u64) -> io::Result<()> {
        let index = entry.log_id.index;
        // An empty log that was never purged takes any first index: its base lies further on in the journal.
        let expected = self.last().map(|last| last.index + 1);
        if expected.is_some_and(|expected| expected != index) {
            let text = format!("entry {index} follows {:?} in the metadata log: a hole", self.last());
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        self.bytes += bytes;
        self.entries.push_back(Stored { entry, bytes, position });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::types::Types;
    use openraft::testing::{blank_ent, log_id};

    fn filled(indexes: std::ops::RangeInclusive<u64>) -> Image {
        let mut image = Image::default();
        for index in indexes {
            image.push(blank_ent::<Types>(1, 1, index), index * 10, 100).unwrap();
        }
        image
    }

    fn indexes(entries: &[Entry]) -> Vec<u64> {
        entries.iter().map(|entry| entry.log_id.index).collect()
    }

    #[test]
    fn reads_are_bounded_by_bytes_but_never_empty() {
        let image = filled(3..=9);
        assert_eq!(indexes(&image.read(0, 100, u64::MAX)), [3, 4, 5, 6, 7, 8, 9]);
        assert_eq!(indexes(&image.read(4, 8, 250)), [4, 5]);
        assert_eq!(indexes(&image.read(4, 8, 1)), [4]);
        assert!(image.read(10, 12, 1000).is_empty());
        assert!(image.read(1, 3, 1000).is_empty());
    }

    #[test]
    fn bytes_follow_purge_and_truncate() {
        let mut image = filled(1..=10);
        image.purge(log_id::<Types>(1, 1, 4));
        assert_eq!((image.bytes(), image.purged().map(|id| id.index)), (600, Some(4)));
        image.truncate(Some(log_id::<Types>(1, 1, 8)));
        assert_eq!((image.bytes(), image.last().map(|id| id.index)), (400, Some(8)));
        assert_eq!(image.bytes_after(6), 200);
        assert_eq!(image.index_keeping(250), Some(6));
        assert_eq!(image.index_keeping(400), None);
        image.purge(log_id::<Types>(2, 1, 50));
        assert_eq!((image.bytes(), image.last().map(|id| id.index)), (0, Some(50)));
    }

    #[test]
    fn a_hole_is_refused() {
        let mut image = filled(1..=3);
        assert!(image.push(blank_ent::<Types>(1, 1, 5), 50, 1).is_err());
        image.purge(log_id::<Types>(1, 1, 7));
        assert!(image.push(blank_ent::<Types>(1, 1, 9), 90, 1).is_err());
        image.push(blank_ent::<Types>(1, 1, 8), 80, 1).unwrap();
    }

    #[test]
    fn the_journal_keeps_the_base_and_the_first_entry() {
        let mut image = filled(1..=5);
        assert_eq!(image.release_below(), None, "without a base nothing may go");
        image.purge(log_id::<Types>(1, 1, 3));
        image.play(image.base(), 60, 10).unwrap();
        assert_eq!(image.release_below(), Some(40));
        image.purge(log_id::<Types>(1, 1, 5));
        image.play(image.base(), 70, 10).unwrap();
        assert_eq!(image.release_below(), Some(70));
    }

    #[test]
    fn a_released_journal_plays_back_to_the_same_log() {
        // Entries 4 and 5 are left of an older journal, then the base that says 3 was purged, then a new term.
        let mut image = Image::default();
        for index in [4, 5] {
            let entry = blank_ent::<Types>(1, 1, index);
            image.play(Record::Entry { committed: None, entry }, index, 10).unwrap();
        }
        let base =
            Record::Base { vote: Some(Vote::new(2, 1)), purged: Some(log_id::<Types>(1, 1, 3)), committed: None };
        image.play(base, 6, 10).unwrap();
        image.play(Record::Truncate { after: Some(log_id::<Types>(1, 1, 4)) }, 7, 10).unwrap();
        let entry = blank_ent::<Types>(2, 1, 5);
        image.play(Record::Entry { committed: Some(log_id::<Types>(1, 1, 4)), entry }, 8, 10).unwrap();
        assert_eq!(image.last(), Some(log_id::<Types>(2, 1, 5)));
        assert_eq!(image.committed(), Some(log_id::<Types>(1, 1, 4)));
        assert_eq!(image.vote(), Some(Vote::new(2, 1)));
    }
}
