//! The log as an embedded Raft: openraft over our journal, gRPC between members.
//!
//! | module | what it is |
//! | --- | --- |
//! | `settings` | members, clocks, limits |
//! | `types`, `codec` | openraft's types as used here, and their bytes on the wire |
//! | `record`, `image`, `store` | the log on disk, in memory, and as openraft sees it |
//! | `machine`, `snapshot` | the applied state and its snapshot file |
//! | `peers`, `network`, `service` | connections, the calling and the answering side |
//! | `form`, `upkeep` | founding the cluster, bounding the log |
//!
//! Only this folder names openraft.

mod codec;
mod form;
mod image;
mod machine;
mod member_file;
mod network;
mod peers;
mod record;
mod service;
mod settings;
mod snapshot;
mod store;
#[cfg(test)]
mod suite;
mod types;
mod upkeep;

pub use peers::Dialer;
pub use service::{Admit, RaftService};
pub use settings::{Limits, Member, Settings, SettingsError, Timing};

use crate::contract::{Leadership, LogStatus, MetaLog, ProposeError, StateMachine};
use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use machine::{Machine, Progress};
use network::Network;
use openraft::async_runtime::WatchReceiver;
use openraft::errors::{ClientWriteError, ForwardReason, ForwardToLeader, LinearizableReadError, RaftError};
use openraft::{Config, Raft, ReadPolicy, SnapshotPolicy};
use peers::Peers;
use seam_grpc::raft_server::RaftServer;
use snapshot::SnapshotFile;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use store::LogStore;
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use types::{Command, Types};

/// Why a member cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("cannot open the metadata log: {0}")]
    Storage(#[from] io::Error),
    #[error("the data folder belongs to member {found}, but this is member {id}; give each member a folder of its own")]
    OtherMember { id: u64, found: String },
    #[error("raft settings: {0}")]
    Config(#[from] openraft::ConfigError),
    #[error("the metadata log does not start: {0}")]
    Raft(String),
}

/// How often a member that was just started looks whether it has caught up with its own log.
const CATCH_UP_GLANCE: Duration = Duration::from_millis(2);

/// One member of an embedded Raft log.
pub struct RaftLog {
    settings: Settings,
    raft: Raft<Types, Machine>,
    store: LogStore,
    peers: Peers,
    progress: Arc<Progress>,
    /// Index of the last entry found at the start.
    restored: u64,
    leadership: watch::Receiver<Leadership>,
    in_flight: Arc<Semaphore>,
    stopping: AtomicBool,
    tasks: parking_lot::Mutex<JoinSet<()>>,
}

fn config_of(settings: &Settings) -> Result<Config, openraft::ConfigError> {
    let (timing, limits) = (settings.timing, settings.limits);
    Config {
        cluster_name: "seamlog".to_owned(),
        heartbeat_interval: timing.heartbeat_ms,
        election_timeout_min: timing.election_min_ms,
        election_timeout_max: timing.election_max_ms,
        install_snapshot_timeout: u64::try_from(limits.snapshot_timeout.as_millis()).unwrap_or(u64::MAX),
        // Entries are read in pieces of bounded bytes; this bounds the small ones.
        max_payload_entries: 1024,
        replication_lag_threshold: limits.snapshot_log_entries.saturating_mul(2),
        snapshot_policy: SnapshotPolicy::LogsSinceLast(limits.snapshot_log_entries),
        max_in_snapshot_log_to_keep: limits.keep_log_entries,
        // An entry goes out as soon as it is in memory: the followers' disks work beside ours.
        broadcast_submitted_on_append: Some(true),
        enable_pre_vote: Some(true),
        backoff: "100ms 200ms ..1s".to_owned(),
        ..Config::default()
    }
    .validate()
}

impl RaftLog {
    /// Opens the member's log, brings `state` (which must be fresh) to the newest snapshot and takes part in the
    /// cluster. Others can reach this member only once its [`RaftLog::service`] is served.
    ///
    /// # Errors
    /// Settings that cannot work, or a data folder that cannot be used.
    pub async fn start(
        settings: Settings,
        state: Box<dyn StateMachine>,
        dial: Dialer,
    ) -> Result<Arc<RaftLog>, StartError> {
        settings.validate()?;
        let config = Arc::new(config_of(&settings)?);
        let dir = settings.data_dir.clone();
        let (id, limits, timing) = (settings.id, settings.limits, settings.timing);
        member_file::claim(&dir, id)?;
        let progress = Arc::new(Progress::default());
        let opening = {
            let (dir, progress) = (dir.clone(), progress.clone());
            tokio::task::spawn_blocking(move || Machine::open(state, SnapshotFile::new(dir), progress))
        };
        let machine = opening.await.map_err(io::Error::other)??;
        let covered = progress.snapshot_index.load(Ordering::Relaxed);
        let store = LogStore::open(dir.join("journal"), &limits, covered).await?;
        let peers = Peers::new(&settings.members, id, &dial);
        let network = Network {
            peers: peers.clone(),
            stall: Duration::from_millis(timing.election_max_ms),
            snapshot_timeout: limits.snapshot_timeout,
        };
        let restored = store.last_index();
        let raft = Raft::new(id, config, network, store.clone(), machine)
            .await
            .map_err(|why| StartError::Raft(why.to_string()))?;

        let (tell, leadership) = watch::channel(Leadership::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(follow_leadership(raft.clone(), settings.clone(), tell));
        tasks.spawn(peers.clone().keep_warm(Duration::from_millis(timing.heartbeat_ms)));
        tasks.spawn(form::form(raft.clone(), peers.clone(), settings.clone()));
        tasks.spawn(upkeep::snapshot_by_bytes(raft.clone(), store.clone()));
        tasks.spawn(upkeep::purge_by_bytes(raft.clone(), store.clone(), limits));
        Ok(Arc::new(RaftLog {
            in_flight: Arc::new(Semaphore::new(limits.proposals)),
            settings,
            raft,
            store,
            peers,
            progress,
            restored,
            leadership,
            stopping: AtomicBool::new(false),
            tasks: parking_lot::Mutex::new(tasks),
        }))
    }

    /// The service other members call. `admit` lets members in and nobody else.
    pub fn service(&self, admit: Admit) -> RaftServer<RaftService> {
        RaftServer::new(RaftService::new(self.raft.clone(), admit, self.settings.limits.snapshot_bytes))
            .max_decoding_message_size(peers::MESSAGE_BYTES)
            .max_encoding_message_size(peers::MESSAGE_BYTES)
    }

    /// Round trips to the other members as last measured, in microseconds; 0 for one that was not reached yet.
    pub fn round_trips_us(&self) -> Vec<(String, u64)> {
        self.peers.all().map(|peer| (peer.member.name.clone(), peer.round_trip_us())).collect()
    }

    fn refused(&self, forward: &ForwardToLeader<Types>) -> ProposeError {
        let leader = match forward.reason {
            // This member still leads but has not heard from a quorum lately: trying here again is right.
            ForwardReason::LeaseExpired => Some(self.settings.id),
            ForwardReason::NotLeader | ForwardReason::LeadershipTransfer => forward.leader_id,
        };
        ProposeError::NotLeader { leader: leader.and_then(|id| self.settings.name_of(id)).map(str::to_owned) }
    }

    async fn write(&self, command: Bytes) -> Result<(u64, Bytes), ProposeError> {
        let limit = self.settings.limits.command_bytes;
        if command.len() > limit {
            return Err(ProposeError::TooLarge { bytes: command.len(), limit });
        }
        let _permit = self.in_flight.try_acquire().map_err(|_| ProposeError::Overloaded)?;
        if self.stopping.load(Ordering::Acquire) {
            return Err(ProposeError::ShuttingDown);
        }
        let write = self.raft.client_write(Command(command));
        let Ok(outcome) = tokio::time::timeout(self.settings.limits.propose_timeout, write).await else {
            return Err(ProposeError::Unknown("not committed in time".to_owned()));
        };
        match outcome {
            Ok(done) => Ok((done.log_id.index, done.data.0)),
            Err(RaftError::APIError(ClientWriteError::ForwardToLeader(forward))) => Err(self.refused(&forward)),
            Err(RaftError::APIError(ClientWriteError::LogEntryDiscarded(_))) => {
                Err(ProposeError::Unknown("leadership changed".to_owned()))
            }
            Err(RaftError::APIError(
                why @ (ClientWriteError::ChangeMembershipError(_) | ClientWriteError::PreconditionFailed(_)),
            )) => Err(ProposeError::Unknown(why.to_string())),
            Err(RaftError::Fatal(why)) => Err(ProposeError::Unknown(why.to_string())),
        }
    }

    /// A leader that was restarted leads on in its old term, and the log's own read index knows of nothing that was committed
    /// in this term before: what was found at the start counts as committed too, as it will be.
    async fn read_index(&self) -> Result<(), ProposeError> {
        let read = async {
            let read = self.raft.ensure_linearizable(ReadPolicy::ReadIndex).await;
            self.wait_until_caught_up().await;
            read
        };
        match tokio::time::timeout(self.settings.limits.propose_timeout, read).await {
            Err(_) => Err(ProposeError::Unknown("no quorum in time".to_owned())),
            Ok(Ok(_)) => Ok(()),
            Ok(Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward)))) => {
                Err(self.refused(&forward))
            }
            Ok(Err(RaftError::APIError(why @ LinearizableReadError::QuorumNotEnough(_)))) => {
                Err(ProposeError::Unknown(why.to_string()))
            }
            Ok(Err(RaftError::Fatal(_))) => Err(ProposeError::ShuttingDown),
        }
    }

    /// What was not committed at the start may have been taken back: then the log is shorter.
    async fn wait_until_caught_up(&self) {
        loop {
            let last = self.store.last_index();
            if self.progress.applied_index.load(Ordering::Acquire) >= self.restored.min(last) {
                return;
            }
            tokio::time::sleep(CATCH_UP_GLANCE).await;
        }
    }

    /// The other member with the longest log, while this one leads.
    fn successor(&self) -> Option<u64> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let replication = metrics.replication.as_ref()?;
        let others = replication.iter().filter(|(id, _)| **id != self.settings.id);
        others.max_by_key(|(_, matched)| **matched).map(|(id, _)| *id)
    }

    async fn hand_over(&self) {
        let mut leadership = self.leadership();
        // Twice: the chosen one may be stuck. An orderly stop goes on either way.
        for _ in 0..2 {
            if !leadership.borrow_and_update().is_leader {
                return;
            }
            let Some(to) = self.successor() else { return };
            if self.raft.trigger().transfer_leader(to).await.is_err() {
                return;
            }
            let gone = leadership.wait_for(|now| !now.is_leader);
            let bound = Duration::from_millis(self.settings.timing.election_min_ms) * 2;
            if tokio::time::timeout(bound, gone).await.is_ok() {
                return;
            }
        }
    }
}

/// Turns openraft's view into ours until it stops.
async fn follow_leadership(raft: Raft<Types, Machine>, settings: Settings, tell: watch::Sender<Leadership>) {
    let mut metrics = raft.metrics();
    loop {
        let now = {
            let metrics = metrics.borrow_and_update();
            Leadership {
                term: metrics.current_term,
                is_leader: metrics.running_state.is_ok() && metrics.state.is_leader(),
                leader: metrics.current_leader.and_then(|id| settings.name_of(id)).map(str::to_owned),
            }
        };
        tell.send_if_modified(|told| {
            let changed = *told != now;
            *told = now;
            changed
        });
        if metrics.changed().await.is_err() {
            tell.send_modify(|told| told.is_leader = false);
            return;
        }
    }
}

impl MetaLog for RaftLog {
    fn propose(&self, command: Bytes) -> BoxFuture<'_, Result<(u64, Bytes), ProposeError>> {
        self.write(command).boxed()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<(), ProposeError>> {
        self.read_index().boxed()
    }

    fn caught_up(&self) -> BoxFuture<'_, ()> {
        self.wait_until_caught_up().boxed()
    }

    fn leadership(&self) -> watch::Receiver<Leadership> {
        self.leadership.clone()
    }

    fn status(&self) -> LogStatus {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        LogStatus {
            term: metrics.current_term,
            last_index: metrics.last_log_index.unwrap_or(0),
            applied_index: self.progress.applied_index.load(Ordering::Relaxed),
            snapshot_index: self.progress.snapshot_index.load(Ordering::Relaxed),
            log_bytes: self.store.bytes(),
            snapshot_bytes: self.progress.snapshot_bytes.load(Ordering::Relaxed),
            failed: match &metrics.running_state {
                Ok(()) => None,
                Err(why) => (!self.stopping.load(Ordering::Acquire)).then(|| why.to_string()),
            },
        }
    }

    fn transfer(&self) -> BoxFuture<'_, ()> {
        self.hand_over().boxed()
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        async move {
            self.stopping.store(true, Ordering::Release);
            self.tasks.lock().abort_all();
            if let Err(why) = self.raft.shutdown().await {
                tracing::warn!(%why, "the metadata log did not stop in order");
            }
            self.store.close().await;
        }
        .boxed()
    }
}
