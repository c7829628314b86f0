//! openraft's own log-store suite, run against our store and state machine.

use super::machine::{Machine, Progress};
use super::settings::Limits;
use super::snapshot::SnapshotFile;
use super::store::LogStore;
use super::types::Types;
use crate::contract::{RestoreError, StateMachine};
use bytes::Bytes;
use openraft::StorageError;
use openraft::testing::log::{StoreBuilder, Suite};
use std::sync::Arc;
use tempfile::TempDir;

/// Counts what it applied.
#[derive(Default)]
struct Count(u64);

impl StateMachine for Count {
    fn apply(&mut self, _index: u64, _command: &[u8]) -> Bytes {
        self.0 += 1;
        Bytes::copy_from_slice(&self.0.to_le_bytes())
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.to_le_bytes().to_vec()
    }

    fn restore(&mut self, _index: u64, snapshot: &[u8]) -> Result<(), RestoreError> {
        let bytes = snapshot.try_into().map_err(|_| RestoreError("not 8 bytes".to_owned()))?;
        self.0 = u64::from_le_bytes(bytes);
        Ok(())
    }
}

struct Builder;

impl StoreBuilder<Types, LogStore, Machine, TempDir> for Builder {
    async fn build(&self) -> Result<(TempDir, LogStore, Machine), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let limits = Limits { journal_file_bytes: 2 << 20, ..Limits::default() };
        let store = LogStore::open(dir.path().join("journal"), &limits, 0).await.unwrap();
        let file = SnapshotFile::new(dir.path());
        let machine = Machine::open(Box::<Count>::default(), file, Arc::<Progress>::default()).unwrap();
        Ok((dir, store, machine))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn openrafts_own_suite_passes() {
    Suite::test_all(Builder).await.unwrap();
}
