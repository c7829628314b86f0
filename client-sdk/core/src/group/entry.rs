//! What stands in a group's log: one entry a record, in its value. A format byte, then postcard.
//!
//! An entry of an unknown format is not skipped: a reader that skipped what others count would see another group than they.
//! A value that is no entry at all is skipped by everybody alike.

use super::state::Group;
use seam_wire::{Offset, RangeId};
use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// The format this version writes, and the newest one it reads.
const FORMAT: u8 = 1;

/// A member in one of its lives. `session` is drawn at random by its process; `life` counts up when it was evicted and
/// joins again, so that nothing it wrote in an earlier life can count in a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct MemberId {
    pub session: u64,
    pub life: u32,
}

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}.{}", self.session, self.life)
    }
}

/// A topic as a member found it. Range ids are never reused, so the first one tells a topic from a later one of its name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscription {
    pub topic: String,
    pub first_range: RangeId,
    /// 1 to 256.
    pub ranges: u32,
}

/// A position in a range: the offset after the last record that is done with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    pub topic: String,
    pub range: u32,
    pub offset: Offset,
}

/// What a member does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Act {
    /// From here on it is a member. `label` is for people.
    Join { label: String, session_timeout_ms: u64, topics: Vec<Subscription> },
    /// It lives.
    Beat,
    /// It is no member any more.
    Leave,
    /// It is done with all below these offsets. `generation` is the one it knows.
    Commit { generation: u64, places: Vec<Place> },
    /// It delivers no more of a range that is to go to another; `offset` is committed with it.
    Release { generation: u64, topic: String, range: u32, offset: Option<Offset> },
}

/// One record of a group's log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// `seq` counts the entries of this member, so that it knows its own when it reads them.
    Member { member: MemberId, seq: u64, act: Act },
    /// Somebody heard nothing of `member` for its session timeout. Counts only if its last entry is still the one at
    /// `last_seen`: whoever is slow to read evicts nobody.
    Evict { member: MemberId, last_seen: Offset },
    /// An operator moves committed offsets. Counts only while nobody is subscribed to the topic, unless forced.
    Reset { ticket: u64, force: bool, topic: Subscription, offsets: Vec<(u32, Offset)> },
    /// The group as all entries below `at` made it: where a reader may begin.
    Snapshot { at: Offset, group: Group },
}

/// Why a record's value is no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EntryError {
    /// Written by a newer version: reading on would see another group than its members see.
    #[error("an entry of format {0}; this version knows formats up to {FORMAT}: update it")]
    Newer(u8),
    /// Not written by a member. Everybody skips it.
    #[error("no entry of a group")]
    Foreign,
}

impl Entry {
    pub fn encode(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![FORMAT]).expect("plain data without maps of unknown length")
    }

    /// Errors: see [`EntryError`].
    pub fn decode(value: &[u8]) -> Result<Entry, EntryError> {
        match value.split_first() {
            Some((&FORMAT, body)) => postcard::from_bytes(body).map_err(|_| EntryError::Foreign),
            Some((&newer, _)) if newer > FORMAT => Err(EntryError::Newer(newer)),
            Some(_) | None => Err(EntryError::Foreign),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_comes_back_and_what_is_none_is_told_apart() {
        let member = MemberId { session: 7, life: 1 };
        let release = Act::Release { generation: 3, topic: "t".into(), range: 2, offset: Some(Offset(9)) };
        for entry in [
            Entry::Member { member, seq: 4, act: release },
            Entry::Evict { member, last_seen: Offset(5) },
            Entry::Snapshot { at: Offset(8), group: Group::default() },
        ] {
            assert_eq!(Entry::decode(&entry.encode()), Ok(entry));
        }
        assert_eq!(Entry::decode(b""), Err(EntryError::Foreign));
        assert_eq!(Entry::decode(&[0, 1]), Err(EntryError::Foreign));
        assert_eq!(Entry::decode(&[1, 200]), Err(EntryError::Foreign));
        assert_eq!(Entry::decode(&[2, 0]), Err(EntryError::Newer(2)));
    }
}
