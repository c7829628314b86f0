//! What the suite needs of a cluster under test, and the waits it is built of.

use crate::recorder::Seen;
use bytes::Bytes;
use futures::future::BoxFuture;
use metad_log::{MetaLog, ProposeError};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bound of every wait. Reaching it is a failure of the log, never a matter of speed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Three members; each may be absent.
pub trait Cluster: Send {
    fn size(&self) -> usize;
    fn log(&self, at: usize) -> Option<Arc<dyn MetaLog>>;
    fn seen(&self, at: usize) -> Seen;
    /// Starts member `at` on the disk it had, with a fresh state machine.
    fn start(&mut self, at: usize) -> BoxFuture<'_, ()>;
    /// Ends member `at` without warning to the others.
    fn kill(&mut self, at: usize) -> BoxFuture<'_, ()>;
    /// Entries after which the log is certainly replaced by a snapshot.
    fn snapshot_entries(&self) -> u64;
}

pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub async fn start_all(cluster: &mut dyn Cluster) {
    for at in 0..cluster.size() {
        cluster.start(at).await;
    }
}

/// The member that leads, once one is shown to by a barrier.
pub async fn leader(cluster: &dyn Cluster) -> usize {
    let started = Instant::now();
    loop {
        for at in 0..cluster.size() {
            let Some(log) = cluster.log(at) else { continue };
            let claims = log.leadership().borrow().is_leader;
            if claims && log.barrier().await.is_ok() {
                return at;
            }
        }
        assert!(started.elapsed() < PATIENCE, "no leader");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Proposes through whoever leads until it is known to be committed. Returns the index and the response.
pub async fn commit(cluster: &dyn Cluster, command: &str) -> (u64, Bytes) {
    let started = Instant::now();
    loop {
        let at = leader(cluster).await;
        let log = cluster.log(at).expect("a leader is there");
        match log.propose(Bytes::copy_from_slice(command.as_bytes())).await {
            Ok(done) => return done,
            Err(ProposeError::Unknown(_) | ProposeError::NotLeader { .. } | ProposeError::Overloaded) => {}
            Err(why @ (ProposeError::ShuttingDown | ProposeError::TooLarge { .. })) => panic!("{why}"),
        }
        assert!(started.elapsed() < PATIENCE, "cannot commit {command}");
    }
}

/// Waits until all present members hold the same commands, the last of them `last`.
pub async fn agree(cluster: &dyn Cluster, last: &str) {
    let present: Vec<usize> = (0..cluster.size()).filter(|at| cluster.log(*at).is_some()).collect();
    let what = format!("{present:?} agree up to {last}");
    until(&what, || {
        let first = cluster.seen(present[0]);
        let ends_right = first.commands().last().is_some_and(|(_, command)| command == last.as_bytes());
        let same = present.iter().all(|at| cluster.seen(*at).state() == first.state());
        (ends_right && same).then_some(())
    })
    .await;
}
