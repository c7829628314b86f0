//! The types openraft works with here. An API break of openraft should touch this folder only.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A member of the metadata log: the `id` of its configuration.
pub type MemberId = u64;

/// An opaque command.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Command(pub Bytes);

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "command of {} bytes", self.0.len())
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What the state machine said.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Response(pub Bytes);

openraft::declare_raft_types!(
    /// openraft, configured for metad: members are known by id, their addresses are local configuration.
    pub Types:
        D = Command,
        R = Response,
        NodeId = MemberId,
        Node = openraft::EmptyNode,
);

pub type Entry = openraft::type_config::alias::EntryOf<Types>;
pub type LogId = openraft::type_config::alias::LogIdOf<Types>;
pub type Vote = openraft::type_config::alias::VoteOf<Types>;
pub type SnapshotMeta = openraft::type_config::alias::SnapshotMetaOf<Types>;
pub type StoredMembership = openraft::type_config::alias::StoredMembershipOf<Types>;
/// A snapshot in flight: small enough to be held in memory whole.
pub type Snapshot = openraft::type_config::alias::SnapshotOf<Types, Bytes>;
pub type AppendRequest = openraft::raft::AppendEntriesRequest<Types>;
pub type AppendResult = openraft::raft::StreamAppendResult<Types>;
pub type VoteRequest = openraft::raft::VoteRequest<Types>;
pub type VoteResponse = openraft::raft::VoteResponse<Types>;
