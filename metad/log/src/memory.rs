//! A log within one process: members share one list of commands. For tests and for a single throw-away member.
//!
//! It fakes the network and the disk (whatever a member was told is durable at once, a member that left lost nothing)
//! and keeps all else of the contract: one order, a quorum, leadership, restarts, snapshots for those far behind.

use crate::contract::{Leadership, LogStatus, MetaLog, ProposeError, StateMachine};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;

/// The members of a log in memory, present or not.
#[derive(Clone)]
pub struct MemoryCluster {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    names: Vec<String>,
    members: Vec<Member>,
    term: u64,
    leader: Option<usize>,
    /// Entries after the snapshot. `None` is an entry of the log's own, as at a change of leader.
    entries: VecDeque<Option<Bytes>>,
    snapshot: Option<(u64, Vec<u8>)>,
    snapshot_every: u64,
}

struct Member {
    state: Option<Box<dyn StateMachine>>,
    applied: u64,
    leadership: watch::Sender<Leadership>,
}

impl Shared {
    fn base(&self) -> u64 {
        self.snapshot.as_ref().map_or(0, |(index, _)| *index)
    }

    fn last(&self) -> u64 {
        self.base() + self.entries.len() as u64
    }

    fn has_quorum(&self) -> bool {
        self.members.iter().filter(|member| member.state.is_some()).count() * 2 > self.members.len()
    }

    /// Brings every present member to the end; returns what `who` answered to the last entry.
    fn apply_all(&mut self, who: usize) -> Bytes {
        let last = self.last();
        let mut answer = Bytes::new();
        for at in 0..self.members.len() {
            let base = self.base();
            let snapshot = self.snapshot.as_ref();
            let member = &mut self.members[at];
            let Some(state) = member.state.as_mut() else { continue };
            if member.applied < base {
                let (index, bytes) = snapshot.expect("a base above 0 comes from a snapshot");
                state.restore(*index, bytes).expect("a snapshot of this process is readable");
                member.applied = base;
            }
            while member.applied < last {
                let next = member.applied + 1;
                let entry = &self.entries[usize::try_from(next - base - 1).expect("entries fit in memory")];
                let response = entry.as_ref().map(|command| state.apply(next, command)).unwrap_or_default();
                member.applied = next;
                if at == who {
                    answer = response;
                }
            }
        }
        self.compact();
        answer
    }

    fn compact(&mut self) {
        if (self.entries.len() as u64) < self.snapshot_every {
            return;
        }
        let last = self.last();
        let mut whole =
            self.members.iter().filter(|member| member.applied == last).filter_map(|member| member.state.as_ref());
        if let Some(state) = whole.next() {
            self.snapshot = Some((last, state.snapshot()));
            self.entries.clear();
        }
    }

    fn elect(&mut self, wanted: Option<usize>) {
        let present = |at: &usize| self.members[*at].state.is_some();
        let choice = wanted.filter(present).or_else(|| (0..self.members.len()).find(present));
        self.leader = if self.has_quorum() { choice } else { None };
        if let Some(leader) = self.leader {
            self.term += 1;
            self.entries.push_back(None);
            self.apply_all(leader);
        }
        let name = self.leader.map(|at| self.names[at].clone());
        for (at, member) in self.members.iter().enumerate() {
            let now = Leadership { term: self.term, is_leader: self.leader == Some(at), leader: name.clone() };
            member.leadership.send_replace(now);
        }
    }
}

impl MemoryCluster {
    /// A cluster of members with these names, all absent. A snapshot replaces the entries each `snapshot_every`.
    pub fn new(names: Vec<String>, snapshot_every: u64) -> Self {
        let members = names.iter().map(|_| Member {
            state: None,
            applied: 0,
            leadership: watch::Sender::new(Leadership::default()),
        });
        let members = members.collect();
        let shared = Shared {
            names,
            members,
            term: 0,
            leader: None,
            entries: VecDeque::new(),
            snapshot: None,
            snapshot_every: snapshot_every.max(1),
        };
        MemoryCluster { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Member `at` comes, or comes back, with a fresh state machine; it replays what it missed.
    pub fn join(&self, at: usize, state: Box<dyn StateMachine>) -> Arc<MemoryLog> {
        let mut shared = self.shared.lock();
        shared.members[at].state = Some(state);
        shared.members[at].applied = 0;
        if shared.leader.is_none() {
            shared.elect(None);
        }
        let last = shared.last();
        shared.apply_all(at);
        debug_assert!(shared.members[at].applied >= last);
        Arc::new(MemoryLog { at, shared: self.shared.clone() })
    }

    /// Member `at` is gone, as if killed.
    pub fn leave(&self, at: usize) {
        let mut shared = self.shared.lock();
        shared.members[at].state = None;
        if shared.leader == Some(at) || !shared.has_quorum() {
            shared.elect(None);
        }
    }

    /// Makes `at` the leader, if it is there and a quorum is.
    pub fn lead(&self, at: usize) {
        self.shared.lock().elect(Some(at));
    }
}

/// One member's handle.
pub struct MemoryLog {
    at: usize,
    shared: Arc<Mutex<Shared>>,
}

impl MemoryLog {
    fn check(&self, shared: &Shared) -> Result<(), ProposeError> {
        if shared.members[self.at].state.is_none() {
            return Err(ProposeError::ShuttingDown);
        }
        if shared.leader != Some(self.at) {
            return Err(ProposeError::NotLeader { leader: shared.leader.map(|at| shared.names[at].clone()) });
        }
        Ok(())
    }
}

impl MetaLog for MemoryLog {
    fn propose(&self, command: Bytes) -> BoxFuture<'_, Result<(u64, Bytes), ProposeError>> {
        async move {
            let mut shared = self.shared.lock();
            self.check(&shared)?;
            shared.entries.push_back(Some(command));
            let index = shared.last();
            Ok((index, shared.apply_all(self.at)))
        }
        .boxed()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), ProposeError>> {
        async move { self.check(&self.shared.lock()) }.boxed()
    }

    fn caught_up(&self) -> BoxFuture<'_, ()> {
        async {}.boxed() // A member that starts applies everything at once.
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.shared.lock().members[self.at].leadership.subscribe()
    }

    fn status(&self) -> LogStatus {
        let shared = self.shared.lock();
        LogStatus {
            term: shared.term,
            last_index: shared.last(),
            applied_index: shared.members[self.at].applied,
            snapshot_index: shared.base(),
            log_bytes: shared.entries.iter().flatten().map(|command| command.len() as u64).sum(),
            snapshot_bytes: shared.snapshot.as_ref().map_or(0, |(_, bytes)| bytes.len() as u64),
            failed: None,
        }
    }

    fn transfer(&self) -> BoxFuture<'_, ()> {
        async move {
            let mut shared = self.shared.lock();
            if shared.leader == Some(self.at) {
                let other = (0..shared.members.len()).find(|at| *at != self.at && shared.members[*at].state.is_some());
                if other.is_some() {
                    shared.elect(other);
                }
            }
        }
        .boxed()
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async move { MemoryCluster { shared: self.shared.clone() }.leave(self.at) }.boxed()
    }
}
