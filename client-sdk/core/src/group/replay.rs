//! From records to the group: the fold over a log of which the beginning may be gone. Then the first snapshot that was taken
//! at or above the log's start is the base, and what came between its position and itself is folded onto it.

use super::entry::{Entry, EntryError};
use super::state::{Group, Outcome};
use seam_wire::Offset;
use thiserror::Error;

/// Records that may come before a usable snapshot. Members write one every thousand records or so.
const MAX_HELD: usize = 1_000_000;

/// Why a log cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplayError {
    #[error("offset {offset} of the group's log: {error}")]
    Unreadable { offset: Offset, error: EntryError },
    #[error("the group's log begins at {start}, and no snapshot follows: its beginning was trimmed too early")]
    NoBase { start: Offset },
}

/// An entry and what it brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Folded {
    pub offset: Offset,
    /// `None`: the record is no entry.
    pub entry: Option<Entry>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug)]
struct Held {
    offset: Offset,
    bytes: usize,
    entry: Option<Entry>,
}

/// A group being read.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    /// What came before the base, from the log's start on.
    held: Vec<Held>,
    group: Option<Group>,
}

impl Replay {
    pub fn new() -> Self {
        Replay::default()
    }

    /// The group, once its base was found.
    pub fn group(&self) -> Option<&Group> {
        self.group.as_ref()
    }

    /// Says that the log ends here. Errors: there were records, but no base.
    pub fn at_end(&mut self) -> Result<&Group, ReplayError> {
        if let (None, Some(first)) = (&self.group, self.held.first()) {
            return Err(ReplayError::NoBase { start: first.offset });
        }
        Ok(self.group.get_or_insert_with(Group::default))
    }

    /// An operator gave up what `[from, next)` of the log may have held. What was folded stands, and all who read the log agree
    /// on it. False: what is folded here is not in the log any more, so begin anew.
    #[must_use]
    pub fn skip(&mut self, from: Offset, next: Offset) -> bool {
        self.held.clear();
        if self.group.is_none() && from == Offset(0) {
            self.group = Some(Group::default());
        }
        self.group.as_mut().is_none_or(|group| group.skip(from, next))
    }

    /// Takes the next record of the log. What is folded by it comes back: several entries where it is the base, none while
    /// there is no base yet.
    pub fn take(&mut self, offset: Offset, value: Option<&[u8]>) -> Result<Vec<Folded>, ReplayError> {
        let value = value.unwrap_or_default();
        let entry = match Entry::decode(value) {
            Ok(entry) => Some(entry),
            Err(EntryError::Foreign) => None,
            Err(error @ EntryError::Newer(_)) => return Err(ReplayError::Unreadable { offset, error }),
        };
        let record = Held { offset, bytes: value.len(), entry };
        if self.group.is_none() && self.held.is_empty() && offset == Offset(0) {
            self.group = Some(Group::default());
        }
        if let Some(group) = &mut self.group {
            return Ok(vec![record.fold(group)]);
        }
        let base = match &record.entry {
            // One taken below the log's start lacks what came between.
            Some(Entry::Snapshot { at, group }) => {
                let start = self.held.first().map_or(offset, |first| first.offset);
                (group.next() == *at && (start..=offset).contains(at)).then(|| group.clone())
            }
            Some(Entry::Member { .. } | Entry::Evict { .. } | Entry::Reset { .. }) | None => None,
        };
        self.held.push(record);
        let Some(mut group) = base else {
            let start = self.held[0].offset;
            return if self.held.len() > MAX_HELD { Err(ReplayError::NoBase { start }) } else { Ok(Vec::new()) };
        };
        let held = std::mem::take(&mut self.held).into_iter().filter(|record| record.offset >= group.next());
        let folded = held.collect::<Vec<_>>().into_iter().map(|record| record.fold(&mut group)).collect();
        self.group = Some(group);
        Ok(folded)
    }
}

impl Held {
    fn fold(self, group: &mut Group) -> Folded {
        let Held { offset, bytes, entry } = self;
        let outcome = group.fold(offset, bytes, entry.as_ref());
        Folded { offset, entry, outcome }
    }
}
