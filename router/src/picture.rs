//! The chains as metad last told them, shared by all tasks, and who is woken when they change. When metad is away the
//! picture stays as it is, and everything goes on from it.

use crate::counters::Counters;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use router_core::Chains;
use seam_wire::RangeId;
use seam_wire::meta::MetaUpdate;
use std::collections::BTreeMap;
use tokio::sync::watch;
use tokio_stream::{Stream, StreamExt};
use tokio_util::sync::CancellationToken;

pub struct Picture {
    chains: RwLock<Chains>,
    ranges: Mutex<BTreeMap<RangeId, watch::Sender<u64>>>,
    /// Version at which the nodes last changed.
    nodes: watch::Sender<u64>,
}

impl Picture {
    pub fn new() -> Picture {
        Picture { chains: RwLock::default(), ranges: Mutex::default(), nodes: watch::Sender::new(0) }
    }

    /// Hold it briefly: the watch waits for it.
    pub fn read(&self) -> RwLockReadGuard<'_, Chains> {
        self.chains.read()
    }

    /// Changes of `range`, and of nodes.
    pub fn subscribe(&self, range: RangeId) -> watch::Receiver<u64> {
        self.ranges.lock().entry(range).or_insert_with(|| watch::Sender::new(0)).subscribe()
    }

    pub fn nodes(&self) -> watch::Receiver<u64> {
        self.nodes.subscribe()
    }

    pub fn apply(&self, update: MetaUpdate, counters: &Counters) {
        let (version, reset) = (update.version, update.reset);
        let changes = self.chains.write().apply(update);
        if changes.stale {
            counters.stale_updates.inc();
            if reset {
                tracing::warn!(version, "a snapshot of the metadata is older than what is known; left out");
            }
            return;
        }
        counters.meta_version.set(i64::try_from(version).unwrap_or(i64::MAX));
        if changes.nodes {
            self.nodes.send_replace(version);
        }
        let mut ranges = self.ranges.lock();
        ranges.retain(|range, wake| {
            if changes.nodes || changes.ranges.contains(range) {
                wake.send_replace(version);
            }
            wake.receiver_count() > 0
        });
    }

    /// Takes updates until the stop.
    pub async fn follow(
        &self,
        updates: impl Stream<Item = MetaUpdate> + Send,
        counters: &Counters,
        stop: &CancellationToken,
    ) {
        let mut updates = std::pin::pin!(updates);
        loop {
            let update = tokio::select! {
                () = stop.cancelled() => return,
                update = updates.next() => update,
            };
            match update {
                Some(update) => self.apply(update, counters),
                None => return,
            }
        }
    }
}
