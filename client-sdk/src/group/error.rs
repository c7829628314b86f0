//! What can go wrong in a consumer group.

use crate::error::Error;
use thiserror::Error;

/// Why a member of a group cannot go on. Evictions and broken connections are not among them: those it survives by itself.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GroupError {
    #[error("group {group:?} was deleted; build the consumer anew to start it again")]
    Deleted { group: String },
    /// A bound of the group.
    #[error("group {group:?} has as many {what} as a group may have")]
    Full { group: String, what: &'static str },
    /// The group's log cannot be read to its end.
    #[error("group {group:?}: {detail}")]
    Log { group: String, detail: String },
}

/// Why a commit did not count, or may not have.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CommitError {
    /// Other members have these ranges by now and will get what was not committed of them. The other ranges' positions are
    /// committed.
    #[error("ranges {ranges:?} have moved to other members of the group; they get what was not committed")]
    Fenced { ranges: Vec<u32> },
    /// It may count yet. What was handed out stays to be committed: commit again.
    #[error("the commit was not confirmed within {waited_ms} ms and may count yet; commit again")]
    Unknown { waited_ms: u64 },
    /// The member is over.
    #[error(transparent)]
    Over(GroupError),
}

/// Why a group could not be looked at or changed.
#[derive(Debug, Error)]
pub enum GroupAdminError {
    #[error("there is no group {group:?}; `seam group list` shows those there are")]
    Unknown { group: String },
    /// The group's members would go on from where they are.
    #[error("group {group:?} is in use by {}; stop its consumers first, or force it", members.join(", "))]
    InUse { group: String, members: Vec<String> },
    #[error("group {group:?}: {detail}")]
    Log { group: String, detail: String },
    #[error("range {range} of {topic:?} holds offsets {earliest} to {latest}; {offset} is not among them")]
    OutOfRange { topic: String, range: u32, offset: u64, earliest: u64, latest: u64 },
    #[error(transparent)]
    Cluster(#[from] Error),
}
