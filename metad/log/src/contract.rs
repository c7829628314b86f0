//! The contract of a replicated command log. Not an implementation: those are [`crate::raft`] and [`crate::memory`].
//!
//! R11: a state is a function of its committed log alone. The log carries opaque bytes; what they mean is the state
//! machine's business.

use bytes::Bytes;
use futures::future::BoxFuture;
use thiserror::Error;
use tokio::sync::watch;

/// What the log drives. Deterministic: the same commands in the same order give the same state and the same responses
/// on every member, whatever the time, the place and the process.
pub trait StateMachine: Send + Sync + 'static {
    /// Applies the committed command at `index` and returns what its proposer gets.
    ///
    /// Called once per index in one life of the process, in order, with gaps where the log holds entries of its own.
    /// After a restart the same indexes come again, from the last snapshot on. Must not block on anything that waits
    /// for this log.
    fn apply(&mut self, index: u64, command: &[u8]) -> Bytes;

    /// The whole state, as [`StateMachine::restore`] reads it. Equal states give equal bytes.
    fn snapshot(&self) -> Vec<u8>;

    /// Replaces the state by a snapshot that covers everything up to and including `index`.
    ///
    /// # Errors
    /// The bytes are not a snapshot this version reads. The log stops: a member never runs on half a state.
    fn restore(&mut self, index: u64, snapshot: &[u8]) -> Result<(), RestoreError>;
}

/// A snapshot the state machine cannot read.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("cannot read the metadata snapshot: {0}; a newer version may have written it, or the file is damaged")]
pub struct RestoreError(pub String);

/// Who leads, as this member sees it. It may lag: only [`MetaLog::barrier`] is proof.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leadership {
    pub term: u64,
    /// This member leads. Its state may still lack what earlier leaders committed: pass a barrier before deciding.
    pub is_leader: bool,
    /// The leader's name, where known.
    pub leader: Option<String>,
}

/// A look at the log, for people and metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogStatus {
    pub term: u64,
    /// Index of the last entry stored here, committed or not. 0: none.
    pub last_index: u64,
    /// Index of the last entry applied here. 0: none.
    pub applied_index: u64,
    /// Index up to which a snapshot covers the log. 0: none.
    pub snapshot_index: u64,
    /// Bytes of entries kept here. Bounded by the snapshot policy.
    pub log_bytes: u64,
    /// Bytes of the newest snapshot.
    pub snapshot_bytes: u64,
    /// Why the log stopped for good, e.g. a failed disk. The process should exit and say so.
    pub failed: Option<String>,
}

/// Why a proposal gave no response.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// Not taken, will never be applied. `leader` is a hint; this member's own name means: no lease yet, try again here.
    #[error("not the leader of the metadata log{}; ask the leader", hint(.leader.as_deref()))]
    NotLeader { leader: Option<String> },
    /// It may have been committed, or may yet be. Commands are compare-and-set, so proposing it again is safe.
    #[error("the proposal's outcome is unknown: {0}; look at the state or propose it again")]
    Unknown(String),
    /// Not taken, and never will be: the command is over the limit. Split it.
    #[error("a metadata command of {bytes} bytes is over the limit of {limit}; split it or raise the limit")]
    TooLarge { bytes: usize, limit: usize },
    /// Not taken: too many proposals in flight. Try again later.
    #[error("too many metadata proposals in flight; try again later")]
    Overloaded,
    /// Not taken: this member is stopping or has failed. Ask another.
    #[error("this metadata member is stopping; ask another member")]
    ShuttingDown,
}

fn hint(leader: Option<&str>) -> String {
    leader.map(|name| format!(" ({name} is)")).unwrap_or_default()
}

/// A replicated log of commands with a state machine at each member.
///
/// What holds for every implementation, and is checked by one suite run against each (`tests/conformance.rs`):
///
/// 1. All members apply the same commands in the same order at the same indexes.
/// 2. A proposal that returned `Ok((index, response))` is durable on a quorum and applied here, at `index`, and
///    `response` is what the state machine said. It is never lost and never reordered afterwards.
/// 3. A proposal that returned `NotLeader`, `TooLarge`, `Overloaded` or `ShuttingDown` is never applied. `Unknown` says nothing.
/// 4. After `barrier()` returns `Ok`, the local state holds every command whose proposal had returned `Ok` anywhere
///    before `barrier()` was called.
/// 5. A restarted member comes back with what it had made durable and catches up, by entries or by a snapshot. Its
///    state is then equal, bit for bit, to that of a member that never stopped.
///    After `caught_up()` it holds at least what the member had applied in its life before.
/// 6. A proposal costs one round trip to the nearest member of a quorum and one disk sync at each end, side by side;
///    nothing waits to gather more of them.
pub trait MetaLog: Send + Sync + 'static {
    /// Commits `command` and returns where it landed and the state machine's response.
    fn propose(&self, command: Bytes) -> BoxFuture<'_, Result<(u64, Bytes), ProposeError>>;

    /// Waits until this member is shown to lead and its state holds all that was committed before the call.
    fn barrier(&self) -> BoxFuture<'_, Result<(), ProposeError>>;

    /// Waits until the state holds all that this member's log held when it started, as far as it was committed. Before that it
    /// may be older than what this member had told in its life before.
    fn caught_up(&self) -> BoxFuture<'_, ()>;

    /// Changes of leadership. The newest value is always there; intermediate ones may be skipped.
    fn leadership(&self) -> watch::Receiver<Leadership>;

    /// The log as it stands now.
    fn status(&self) -> LogStatus;

    /// Hands leadership to another member if this one leads; returns when it no longer does, or after a bounded wait.
    fn transfer(&self) -> BoxFuture<'_, ()>;

    /// Stops the log: proposals in flight end, nothing is applied afterwards. Idempotent.
    fn shutdown(&self) -> BoxFuture<'_, ()>;
}
