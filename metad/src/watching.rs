//! One watcher's stream: the whole state first where it must be, then every update in order.

use crate::engine::Engine;
use crate::hub::{Next, encode};
use bytes::Bytes;
use futures::Stream;
use seam_grpc::WatchUpdate;
use seam_wire::meta::{MetaItem, MetaUpdate};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;
use tonic::Status;

/// Items of a snapshot sent in one message.
const PART_ITEMS: usize = 2048;
/// How long a watcher that knows more than this member waits for it to catch up.
pub const CATCH_UP: Duration = Duration::from_secs(10);

/// Counts itself while it lives.
struct Counted(Arc<Engine>);

impl Counted {
    fn new(engine: Arc<Engine>) -> Self {
        engine.counts.watchers.fetch_add(1, Ordering::Relaxed);
        Counted(engine)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.counts.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Watcher {
    engine: Counted,
    changes: watch::Receiver<u64>,
    /// Everything up to here was sent or stands in `ready`.
    version: u64,
    ready: VecDeque<Bytes>,
    idle: Duration,
    /// Set while this member is behind the watcher.
    behind_since: Option<Instant>,
    has_ended: bool,
}

/// Updates after `after_version`; the whole state first if that is 0 or no longer held. An idle stream sends a sign of
/// life every `idle`.
pub fn watch(
    engine: Arc<Engine>,
    after_version: u64,
    idle: Duration,
) -> impl Stream<Item = Result<WatchUpdate, Status>> + Send + 'static {
    let changes = engine.hub.changes();
    let mut watcher = Watcher {
        engine: Counted::new(engine),
        changes,
        version: after_version,
        ready: VecDeque::new(),
        idle,
        behind_since: None,
        has_ended: false,
    };
    if after_version == 0 || watcher.engine.0.hub.after(after_version) == Next::TooOld {
        watcher.take_snapshot();
    }
    futures::stream::unfold(watcher, |mut watcher| async move {
        if watcher.has_ended {
            return None;
        }
        let next = watcher.next().await;
        watcher.has_ended = next.is_err();
        Some((next.map(|update| WatchUpdate { update }), watcher))
    })
}

impl Watcher {
    fn take_snapshot(&mut self) {
        let (version, items) = {
            let view = self.engine.0.view();
            (view.meta().version(), view.meta().all_items())
        };
        self.engine.0.counts.snapshots_sent.fetch_add(1, Ordering::Relaxed);
        self.version = version;
        self.ready = snapshot_parts(version, items).into();
    }

    async fn next(&mut self) -> Result<Bytes, Status> {
        loop {
            if let Some(update) = self.ready.pop_front() {
                return Ok(update);
            }
            match self.engine.0.hub.after(self.version) {
                Next::Updates(updates) => {
                    self.behind_since = None;
                    self.version += updates.len() as u64;
                    self.ready = updates.into();
                }
                Next::TooOld => {
                    self.engine.0.counts.watchers_dropped.fetch_add(1, Ordering::Relaxed);
                    return Err(Status::aborted(
                        "too slow: the next update is gone; watch again to get the whole state",
                    ));
                }
                Next::UpToDate => {
                    self.behind_since = None;
                    if let Some(sign_of_life) = self.wait().await? {
                        return Ok(sign_of_life);
                    }
                }
                Next::NotYet => {
                    let since = *self.behind_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > CATCH_UP {
                        return Err(Status::unavailable("this member is behind the watcher; ask another"));
                    }
                    if let Some(sign_of_life) = self.wait().await? {
                        return Ok(sign_of_life);
                    }
                }
            }
        }
    }

    /// Waits for a change; after a while without one gives a sign of life.
    async fn wait(&mut self) -> Result<Option<Bytes>, Status> {
        match tokio::time::timeout(self.idle, self.changes.changed()).await {
            Ok(Ok(())) => Ok(None),
            Ok(Err(_)) => Err(Status::unavailable("this member is stopping; ask another")),
            Err(_) => Ok(Some(encode(&MetaUpdate { version: self.version, reset: false, items: Vec::new() }))),
        }
    }
}

/// A snapshot in messages of bounded size. All but the last carry version 0: a watcher that breaks off in between knows
/// that it has nothing.
fn snapshot_parts(version: u64, mut items: Vec<MetaItem>) -> Vec<Bytes> {
    let mut parts = Vec::new();
    while items.len() > PART_ITEMS {
        let rest = items.split_off(PART_ITEMS);
        parts.push(encode(&MetaUpdate { version: 0, reset: true, items }));
        items = rest;
    }
    parts.push(encode(&MetaUpdate { version, reset: true, items }));
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::Hub;
    use crate::machine::Machine;
    use futures::StreamExt;
    use metad_core::Timing;
    use metad_log::memory::MemoryCluster;
    use seam_wire::meta::{NodeState, NodeView};
    use seam_wire::{Incarnation, NodeId};

    #[test]
    fn a_large_snapshot_comes_in_parts_and_only_the_last_has_its_version() {
        let node = |id: u32| {
            MetaItem::Node(NodeView {
                id: NodeId(id),
                name: format!("segd-{id}"),
                addr: String::new(),
                domain: String::new(),
                incarnation: Incarnation(1),
                state: NodeState::Live,
            })
        };
        let items: Vec<MetaItem> = (0..PART_ITEMS as u32 * 2 + 1).map(node).collect();
        let parts: Vec<MetaUpdate> =
            snapshot_parts(9, items.clone()).iter().map(|part| postcard::from_bytes(part).unwrap()).collect();
        assert_eq!(parts.iter().map(|part| part.version).collect::<Vec<_>>(), [0, 0, 9]);
        assert!(parts.iter().all(|part| part.reset));
        assert_eq!(parts.into_iter().flat_map(|part| part.items).collect::<Vec<_>>(), items);
        assert_eq!(snapshot_parts(3, Vec::new()).len(), 1);
    }

    /// An engine over a log in memory, with room for four updates.
    fn engine() -> Arc<Engine> {
        let engine = Engine::new(Timing::default(), Hub::new(4, usize::MAX), 1);
        let log = MemoryCluster::new(vec!["metad-1".to_owned()], 1000).join(0, Box::new(Machine(engine.clone())));
        engine.attach(log);
        engine
    }

    async fn update(stream: &mut (impl Stream<Item = Result<WatchUpdate, Status>> + Unpin)) -> Result<u64, Status> {
        let next = stream.next().await.expect("the stream goes on")?;
        Ok(postcard::from_bytes::<MetaUpdate>(&next.update).unwrap().version)
    }

    #[tokio::test]
    async fn a_slow_watcher_is_told_so_and_counted() {
        let engine = engine();
        let mut quick = Box::pin(watch(engine.clone(), 0, Duration::from_secs(60)));
        let mut slow = Box::pin(watch(engine.clone(), 0, Duration::from_secs(60)));
        assert_eq!(update(&mut quick).await.unwrap(), 0);
        assert_eq!(update(&mut slow).await.unwrap(), 0);
        assert_eq!(engine.counts.watchers.load(Ordering::Relaxed), 2);
        for version in 1..=5 {
            engine.hub.publish(version, Vec::new());
            assert_eq!(update(&mut quick).await.unwrap(), version);
        }
        assert_eq!(update(&mut slow).await.unwrap_err().code(), tonic::Code::Aborted);
        assert!(slow.next().await.is_none());
        drop(slow);
        assert_eq!(engine.counts.watchers.load(Ordering::Relaxed), 1);
        assert_eq!(engine.counts.watchers_dropped.load(Ordering::Relaxed), 1);
        engine.hub.publish(6, Vec::new());
        assert_eq!(update(&mut quick).await.unwrap(), 6, "a slow one costs a quick one nothing");
    }

    #[tokio::test]
    async fn a_watcher_ahead_of_this_member_waits_for_it() {
        let engine = engine();
        let mut ahead = Box::pin(watch(engine.clone(), 2, Duration::from_secs(60)));
        let publish = async {
            for version in 1..=3 {
                engine.hub.publish(version, Vec::new());
                tokio::task::yield_now().await;
            }
        };
        let (next, ()) = tokio::join!(update(&mut ahead), publish);
        assert_eq!(next.unwrap(), 3, "neither reset nor a version it has");
    }
}
