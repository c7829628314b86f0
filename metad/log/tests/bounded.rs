//! Disk and restart time are bounded in bytes, whatever was ever written (field report 26).

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use metad_log::raft::{Dialer, Limits, Member, RaftLog, Settings, Timing};
use metad_log::{MetaLog, RestoreError, StateMachine};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const COMMAND_BYTES: usize = 32 << 10;
const PATIENCE: Duration = Duration::from_secs(60);

/// A sum and a count: a state that stays small while its log grows.
#[derive(Clone, Default)]
struct Sum(Arc<AtomicU64>, Arc<AtomicU64>);

impl StateMachine for Sum {
    fn apply(&mut self, _index: u64, command: &[u8]) -> Bytes {
        self.1.fetch_add(1, Ordering::Relaxed);
        let sum = command.iter().map(|byte| u64::from(*byte)).sum();
        Bytes::from((self.0.fetch_add(sum, Ordering::Relaxed) + sum).to_string())
    }

    fn snapshot(&self) -> Vec<u8> {
        self.0.load(Ordering::Relaxed).to_le_bytes().to_vec()
    }

    fn restore(&mut self, _index: u64, snapshot: &[u8]) -> Result<(), RestoreError> {
        let bytes = snapshot.try_into().map_err(|_| RestoreError("not 8 bytes".to_owned()))?;
        self.0.store(u64::from_le_bytes(bytes), Ordering::Relaxed);
        Ok(())
    }
}

fn settings(dir: &Path) -> Settings {
    Settings {
        id: 1,
        data_dir: dir.to_owned(),
        members: vec![Member { id: 1, name: "metad-1".to_owned(), addr: "127.0.0.1:1".to_owned() }],
        timing: Timing { heartbeat_ms: 50, election_min_ms: 100, election_max_ms: 200 },
        limits: Limits {
            snapshot_log_bytes: 256 << 10,
            // Far away: it is the bytes that count here.
            snapshot_log_entries: 1 << 40,
            keep_log_entries: 1 << 40,
            keep_log_bytes: 128 << 10,
            journal_file_bytes: 2 << 20,
            ..Limits::default()
        },
    }
}

async fn start(dir: &Path, state: Sum) -> Arc<RaftLog> {
    let dial: Dialer = Arc::new(|_: &Member| unreachable!("a cluster of one dials nobody"));
    let log = RaftLog::start(settings(dir), Box::new(state), dial).await.unwrap();
    let started = Instant::now();
    while log.barrier().await.is_err() {
        assert!(started.elapsed() < PATIENCE, "no leader");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    log
}

/// Files go while they are counted: those that are gone by then take nothing.
fn bytes_on_disk(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(found) if found.is_dir() => bytes_on_disk(&entry.path()),
        Ok(found) => found.len(),
        Err(gone) if gone.kind() == std::io::ErrorKind::NotFound => 0,
        Err(error) => panic!("{error}"),
    };
    entries.map(bytes).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_written_many_times_over_stays_small() {
    let dir = tempfile::tempdir().unwrap();
    let state = Sum::default();
    let log = start(dir.path(), state.clone()).await;
    let mut highest = 0;
    let command = Bytes::from(vec![1; COMMAND_BYTES]);
    // Sixty-four megabytes through a log of a quarter.
    for _ in 0..2048 {
        log.propose(command.clone()).await.unwrap();
        highest = highest.max(log.status().log_bytes);
    }
    let limits = settings(dir.path()).limits;
    // One window before the snapshot is asked for, and a few more while it is made: far below what was written.
    let bound = 16 * limits.snapshot_log_bytes + limits.keep_log_bytes;
    assert!(bound < 2048 * COMMAND_BYTES as u64 / 8);
    assert!(highest < bound, "{highest} bytes of log, the bound is {bound}");
    let started = Instant::now();
    while bytes_on_disk(dir.path()) > 6 * limits.journal_file_bytes {
        assert!(started.elapsed() < PATIENCE, "{} bytes on disk", bytes_on_disk(dir.path()));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    log.shutdown().await;
    drop(log);

    let again = Sum::default();
    let log = start(dir.path(), again.clone()).await;
    assert_eq!(again.0.load(Ordering::Relaxed), 2048 * COMMAND_BYTES as u64);
    let replayed = again.1.load(Ordering::Relaxed) * COMMAND_BYTES as u64;
    assert!(replayed < bound, "a restart replayed {replayed} bytes; the rest is in the snapshot");
    log.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_oversized_command_is_refused_and_nothing_else_suffers() {
    let dir = tempfile::tempdir().unwrap();
    let log = start(dir.path(), Sum::default()).await;
    let limit = settings(dir.path()).limits.command_bytes;
    let outcome = log.propose(Bytes::from(vec![1; limit + 1])).await;
    assert!(matches!(outcome, Err(metad_log::ProposeError::TooLarge { .. })), "{outcome:?}");
    log.propose(Bytes::from(vec![1; limit])).await.unwrap();
    log.shutdown().await;
}
