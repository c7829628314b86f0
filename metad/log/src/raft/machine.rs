//! The state machine as openraft drives it: applied entries, membership, snapshots. The state itself is in memory and
//! rebuilt at start from the snapshot file and the entries after it.

use super::snapshot::SnapshotFile;
use super::types::{LogId, Response, Snapshot, SnapshotMeta, StoredMembership, Types};
use crate::contract::StateMachine;
use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend, RaftSnapshotBuilder};
use parking_lot::Mutex;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Figures the log reports without asking the state machine.
#[derive(Debug, Default)]
pub struct Progress {
    pub applied_index: AtomicU64,
    pub snapshot_index: AtomicU64,
    pub snapshot_bytes: AtomicU64,
}

/// The newest snapshot, in memory as on disk.
type Newest = Arc<Mutex<Option<(SnapshotMeta, Bytes)>>>;

/// openraft's view of a [`StateMachine`].
pub struct Machine {
    state: Box<dyn StateMachine>,
    applied: Option<LogId>,
    membership: StoredMembership,
    file: SnapshotFile,
    newest: Newest,
    progress: Arc<Progress>,
}

impl Machine {
    /// Takes over `state`, which must be fresh, and brings it to the newest snapshot.
    pub fn open(state: Box<dyn StateMachine>, file: SnapshotFile, progress: Arc<Progress>) -> io::Result<Self> {
        let newest = file.read()?;
        let mut machine = Machine {
            state,
            applied: None,
            membership: StoredMembership::default(),
            file,
            newest: Arc::new(Mutex::new(newest.clone())),
            progress,
        };
        if let Some((meta, data)) = newest {
            machine.adopt(&meta, &data)?;
        }
        Ok(machine)
    }

    fn adopt(&mut self, meta: &SnapshotMeta, data: &Bytes) -> io::Result<()> {
        let index = meta.last_log_id.map_or(0, |id| id.index);
        self.state.restore(index, data).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))?;
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.progress.applied_index.store(index, Ordering::Relaxed);
        note_snapshot(&self.progress, meta, data);
        Ok(())
    }
}

fn note_snapshot(progress: &Progress, meta: &SnapshotMeta, data: &Bytes) {
    progress.snapshot_index.store(meta.last_log_id.map_or(0, |id| id.index), Ordering::Relaxed);
    progress.snapshot_bytes.store(data.len() as u64, Ordering::Relaxed);
}

/// Writes the file off the async threads; keeps the newest in memory only once it is durable.
async fn persist(file: &SnapshotFile, newest: &Newest, meta: SnapshotMeta, data: Bytes) -> io::Result<()> {
    let (file, newest) = (file.clone(), newest.clone());
    tokio::task::spawn_blocking(move || {
        // The lock orders writers: a snapshot being built never replaces a newer one that was installed.
        let mut newest = newest.lock();
        if newest.as_ref().is_some_and(|(have, _)| have.last_log_id > meta.last_log_id) {
            return Ok(());
        }
        file.write(&meta, &data)?;
        *newest = Some((meta, data));
        Ok(())
    })
    .await
    .map_err(io::Error::other)?
}

/// A state frozen at one index, to be written beside the commands that follow.
pub struct Builder {
    meta: SnapshotMeta,
    data: Bytes,
    file: SnapshotFile,
    newest: Newest,
    progress: Arc<Progress>,
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Bytes;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        persist(&self.file, &self.newest, self.meta.clone(), self.data.clone()).await?;
        note_snapshot(&self.progress, &self.meta, &self.data);
        Ok(Snapshot { meta: self.meta.clone(), snapshot: self.data.clone() })
    }
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = Bytes;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            let index = entry.log_id.index;
            let response = match entry.payload {
                EntryPayload::Blank => Bytes::new(),
                EntryPayload::Normal(command) => self.state.apply(index, &command.0),
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                    Bytes::new()
                }
            };
            self.applied = Some(entry.log_id);
            self.progress.applied_index.store(index, Ordering::Relaxed);
            if let Some(responder) = responder {
                responder.send(Response(response));
            }
        }
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder {
            meta: SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone() },
            data: Bytes::from(self.state.snapshot()),
            file: self.file.clone(),
            newest: self.newest.clone(),
            progress: self.progress.clone(),
        }
    }

    async fn install_snapshot(&mut self, meta: &SnapshotMeta, snapshot: Bytes) -> Result<(), io::Error> {
        // Durable first: the log below it is purged as soon as this returns.
        persist(&self.file, &self.newest, meta.clone(), snapshot.clone()).await?;
        self.adopt(meta, &snapshot)
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        Ok(self.newest.lock().clone().map(|(meta, snapshot)| Snapshot { meta, snapshot }))
    }
}
