//! Keeps the log bounded in bytes: openraft counts entries only, and entries come in all sizes.

use super::machine::Machine;
use super::settings::Limits;
use super::store::LogStore;
use super::types::Types;
use openraft::Raft;

/// Asks for a snapshot whenever the entries since the last request exceed the limit.
pub async fn snapshot_by_bytes(raft: Raft<Types, Machine>, store: LogStore) {
    loop {
        store.snapshot_due().await;
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}

/// Purges what a snapshot covers, down to the bytes kept for slow members.
pub async fn purge_by_bytes(raft: Raft<Types, Machine>, store: LogStore, limits: Limits) {
    let mut snapshots = raft.watch_snapshot_progress();
    loop {
        if let (Some(covered), Some(over)) = (snapshots.get(), store.index_keeping(limits.keep_log_bytes)) {
            let upto = over.min(covered.index);
            if raft.trigger().purge_log(upto).await.is_err() {
                return;
            }
        }
        if snapshots.changed().await.is_err() {
            return;
        }
    }
}
