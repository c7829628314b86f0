//! The log in memory under the suite.

use crate::cluster::Cluster;
use crate::recorder::{Recorder, Seen};
use futures::future::{BoxFuture, FutureExt};
use metad_log::MetaLog;
use metad_log::memory::{MemoryCluster, MemoryLog};
use std::sync::Arc;

pub struct Memory {
    cluster: MemoryCluster,
    logs: [Option<Arc<MemoryLog>>; 3],
    seen: [Seen; 3],
}

impl Memory {
    pub fn new() -> Self {
        let names = (1..=3).map(|id| format!("metad-{id}")).collect();
        Memory { cluster: MemoryCluster::new(names, 32), logs: Default::default(), seen: Default::default() }
    }
}

impl Cluster for Memory {
    fn size(&self) -> usize {
        3
    }

    fn log(&self, at: usize) -> Option<Arc<dyn MetaLog>> {
        self.logs[at].clone().map(|log| log as Arc<dyn MetaLog>)
    }

    fn seen(&self, at: usize) -> Seen {
        self.seen[at].clone()
    }

    fn start(&mut self, at: usize) -> BoxFuture<'_, ()> {
        self.seen[at] = Seen::default();
        self.logs[at] = Some(self.cluster.join(at, Box::new(Recorder(self.seen[at].clone()))));
        async {}.boxed()
    }

    fn kill(&mut self, at: usize) -> BoxFuture<'_, ()> {
        self.logs[at] = None;
        self.cluster.leave(at);
        async {}.boxed()
    }

    fn snapshot_entries(&self) -> u64 {
        32
    }
}
