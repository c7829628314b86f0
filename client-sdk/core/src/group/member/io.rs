//! What a member is told and what it does.

use crate::group::entry::Subscription;
use crate::group::replay::ReplayError;
use seam_wire::Offset;
use std::collections::BTreeMap;
use thiserror::Error;

/// Settings of a member. Durations in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberSettings {
    pub subscription: Subscription,
    /// For people. At most [`MAX_LABEL_BYTES`](crate::group::state::MAX_LABEL_BYTES).
    pub label: String,
    /// Silent for so long, others take the member's ranges. It beats three times as often.
    pub session_timeout_us: u64,
    /// How often what the application is done with is committed; `None`: only when it says so.
    pub auto_commit_us: Option<u64>,
    /// How long a range that is to go to another member is kept for the application to be done with what it was handed.
    pub release_patience_us: u64,
    /// A commit without an answer for so long is answered with [`CommitFailure::Unknown`].
    pub commit_deadline_us: u64,
    /// A snapshot is due after so many records or bytes of the log.
    pub snapshot_records: u64,
    pub snapshot_bytes: u64,
}

/// Where the application stands in a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    pub term: u64,
    /// Where reading began in this term.
    pub start: Offset,
    /// The offset after the last record the application was handed.
    pub handed: Offset,
    /// The offset after the last record it came back from.
    pub done: Offset,
}

/// By range; of those whose reading has begun.
pub type Positions = BTreeMap<u32, Position>;

/// What an application wants committed of a range it had in `term`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    pub range: u32,
    pub term: u64,
    pub offset: Offset,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input<'r> {
    /// Join. The first input.
    Start,
    /// The next record of the group's log, from its start on.
    Record { offset: Offset, value: Option<&'r [u8]> },
    /// The application wants this committed.
    Commit { ticket: u64, claims: Vec<Claim> },
    /// Leave, and commit before what the application was handed (`handed`), or what it came back from, if the member commits
    /// by itself at all.
    Close { handed: bool },
    /// Time passed, or a position changed; due at `Member::next_deadline`.
    Tick,
}

/// What the shell does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Write this to the group's log, after what came before it.
    Append(Vec<u8>),
    /// Read the range from there, or from where the application said if nothing is committed.
    Begin { range: u32, term: u64, from: Option<Offset> },
    /// Hand out nothing more of the range for now, from before the next input on.
    Hold { range: u32 },
    /// Go on with it.
    Resume { range: u32 },
    /// The range is not this member's any more: read no more of it.
    End { range: u32 },
    /// The answer to a commit.
    Answer { ticket: u64, result: Result<(), CommitFailure> },
    /// Others took it for dead; it lost its ranges and joins again.
    Evicted,
    /// It left. `fenced` were committed at the end and did not count: others have them already. Nothing follows.
    Left { fenced: Vec<u32> },
    /// It cannot go on. Nothing follows.
    Failed(MemberFailure),
}

/// Why a commit did not count, or may not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitFailure {
    /// These ranges were another member's by then. The others counted.
    Fenced { ranges: Vec<u32> },
    /// It was not read back in time; it may count yet.
    Unknown,
}

/// Why a member cannot go on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum MemberFailure {
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error("the group has as many {0} as a group may have")]
    Full(&'static str),
}
