//! What all tasks of a router share: the picture of the chains, the connections, the running ranges.

use crate::config::Limits;
use crate::counters::Counters;
use crate::range::{self, RangeInbox};
use crate::upstreams::Upstreams;
use parking_lot::{Mutex, RwLock};
use router_core::{Chains, Tick};
use seam_transport::meta_client::MetaClient;
use seam_wire::RangeId;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub struct Shared {
    pub chains: RwLock<Chains>,
    /// Rises with every change of the chains.
    pub version: watch::Sender<u64>,
    pub upstreams: Upstreams,
    pub counters: Counters,
    pub limits: Limits,
    ranges: Mutex<BTreeMap<RangeId, RangeInbox>>,
    started: Instant,
}

impl Shared {
    pub fn new(upstreams: Upstreams, counters: Counters, limits: Limits) -> Arc<Shared> {
        Arc::new(Shared {
            chains: RwLock::default(),
            version: watch::Sender::new(0),
            upstreams,
            counters,
            limits,
            ranges: Mutex::default(),
            started: Instant::now(),
        })
    }

    pub fn now(&self) -> Tick {
        Tick(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    pub fn at(&self, tick: Tick) -> Instant {
        self.started + std::time::Duration::from_micros(tick.0)
    }

    /// The task that owns a range's appends, started at its first use.
    pub fn range(self: &Arc<Self>, range: RangeId) -> RangeInbox {
        let mut ranges = self.ranges.lock();
        let inbox = ranges.entry(range).or_insert_with(|| range::start(range, Arc::clone(self)));
        inbox.clone()
    }
}

/// Keeps the picture of the chains up to date, and every live segd node connected.
pub async fn follow(client: MetaClient, who: String, shared: Arc<Shared>, stop: CancellationToken) {
    let mut watch = client.watch(0, &who);
    loop {
        let update = tokio::select! {
            () = stop.cancelled() => return,
            update = watch.next() => update,
        };
        let Some(update) = update else { return };
        let nodes = {
            let mut chains = shared.chains.write();
            let changes = chains.apply(update);
            if changes.stale {
                continue;
            }
            changes.nodes.then(|| chains.live_nodes().cloned().collect::<Vec<_>>())
        };
        for node in nodes.into_iter().flatten() {
            shared.upstreams.dial(node.id, &node.name, &node.addr);
        }
        shared.version.send_modify(|version| *version += 1);
    }
}
