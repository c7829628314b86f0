//! The store over real files: what is persisted is there after a restart, wherever it had got to.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use seam_wire::batch::{BatchBuilder, Compression, stamped};
use seam_wire::meta::{Binder, SegmentSpec};
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::table::TableSnapshot;
use seam_wire::topic::{AckMode, TopicConfig};
use seam_wire::{Epoch, NodeId, Offset, ProducerId, RangeId, SegmentId, TopicId};
use segd::completions::Completions;
use segd::config::Limits;
use segd::driver::{Event, Inbox};
use segd::store::Store;
use segd_core::io::{Durability, Input, Token, Write};
use segd_core::node::RestoredReplica;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::mpsc;

const S: SegmentId = SegmentId(7);

struct Rig {
    store: Arc<Store>,
    completions: Arc<Completions>,
    events: mpsc::UnboundedReceiver<Event>,
    token: u64,
}

fn limits() -> Limits {
    Limits { journal_file_bytes: 64 << 20, sync_bytes: 1, sync_age_ms: 1, sync_pause_ms: 1, ..Limits::default() }
}

fn open(dir: &Path) -> (Rig, Vec<RestoredReplica>) {
    let (network, _) = mpsc::channel(1);
    let (internal, events) = mpsc::unbounded_channel();
    let completions = Arc::new(Completions::new(Inbox { network, internal }));
    let (store, restored) = Store::open(dir, &limits()).unwrap();
    (Rig { store, completions, events, token: 0 }, restored)
}

fn spec() -> SegmentSpec {
    SegmentSpec {
        id: S,
        topic: TopicId(1),
        range: RangeId(1),
        prior: None,
        attempt: 1,
        replicas: vec![NodeId(1), NodeId(2), NodeId(3)],
        ack_quorum: 2,
        binder: Binder::Root,
        config: TopicConfig::default(),
    }
}

fn batch(base: u64, sequence: i32, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, Some((ProducerId(5), 0, sequence)));
    builder.push(1, None, Some(value), &[]).unwrap();
    stamped(builder.build().unwrap(), Offset(base)).unwrap()
}

fn records(base: u64, sequence: i32, value: &[u8]) -> Write {
    let payload = batch(base, sequence, value);
    Write::Records { epoch: Epoch(0), base: Offset(base), next: Offset(base + 1), payload }
}

impl Rig {
    fn persist(&mut self, writes: &[Write]) {
        self.token += 1;
        let token = Token(self.token);
        self.store.persist(token, S, writes, Durability::Synced, &self.completions).unwrap();
        loop {
            if let Some(Event::Input(Input::Persisted { token: done })) = self.events.blocking_recv()
                && done == token
            {
                return;
            }
        }
    }

    fn fill(&mut self) {
        let start = Write::Start { start: Offset(10), table: TableSnapshot::default() };
        self.persist(&[Write::Header { spec: spec() }, start]);
        self.persist(&[records(10, 0, b"a")]);
        self.persist(&[records(11, 1, b"b"), Write::Promise(Epoch(3))]);
    }
}

#[test]
fn a_restart_finds_what_was_durable() {
    let dir = tempfile::tempdir().unwrap();
    let (mut rig, restored) = open(dir.path());
    assert!(restored.is_empty());
    rig.fill();
    rig.store.shutdown(&BTreeSet::new());
    drop(rig);
    let (rig, restored) = open(dir.path());
    let replica = restored.first().unwrap();
    assert_eq!(replica.spec, spec());
    assert_eq!((replica.state.start, replica.state.durable_end), (Some(Offset(10)), Offset(12)));
    assert_eq!((replica.state.promised, replica.table.len()), (Epoch(3), 1));
    let (base, next, payload) = rig.store.read(S, Offset(11), 1 << 20).unwrap();
    assert_eq!((base, next, payload), (Offset(11), Offset(12), batch(11, 1, b"b")));
    let (base, next, payload) = rig.store.read(S, Offset(10), 1 << 20).unwrap();
    assert_eq!((base, next, payload.len()), (Offset(10), Offset(12), 2 * batch(10, 0, b"a").len()));
    assert!(rig.store.read(S, Offset(12), 1).is_err(), "nothing above the end");
    rig.store.shutdown(&BTreeSet::new());
}

#[test]
fn a_restart_without_shutdown_goes_on_from_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let (mut rig, _) = open(dir.path());
    rig.fill();
    // The process dies here: what is on disk now is all there is.
    copy_dir(dir.path(), copy.path());
    rig.store.shutdown(&BTreeSet::new());
    // Nor may the segment file be relied on: whatever was not synced of it may be gone.
    let file = copy.path().join("segments/7.log");
    if file.exists() {
        let len = std::fs::metadata(&file).unwrap().len();
        std::fs::File::options().write(true).open(&file).unwrap().set_len(len.saturating_sub(5)).unwrap();
    }
    let (mut rig, restored) = open(copy.path());
    assert_eq!(restored[0].state.durable_end, Offset(12));
    rig.persist(&[records(12, 2, b"c")]);
    // What the file has and what only memory has yet may come in two reads.
    let (mut at, mut bytes) = (Offset(10), 0);
    while at < Offset(13) {
        let (base, next, payload) = rig.store.read(S, at, 1 << 20).unwrap();
        assert!(base == at && next > at, "{base} to {next}");
        (at, bytes) = (next, bytes + payload.len());
    }
    assert_eq!(bytes, 3 * batch(10, 0, b"a").len());
    rig.store.shutdown(&BTreeSet::new());
}

#[test]
fn seal_and_decision_come_back_and_a_reclaimed_segment_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let (mut rig, _) = open(dir.path());
    rig.fill();
    let seal = SealEntry { end: Offset(12), next: SegmentId(8), table_hash: 4 };
    let decision = Decision { end: Offset(12), next: SegmentId(8) };
    rig.persist(&[Write::Seal(seal)]);
    rig.persist(&[Write::Decided(decision)]);
    rig.store.shutdown(&BTreeSet::new());
    drop(rig);
    let (rig, restored) = open(dir.path());
    assert_eq!((restored[0].state.seal, restored[0].state.decision), (Some(seal), Some(decision)));
    rig.store.forget(S, None);
    assert!(rig.store.read(S, Offset(10), 1).is_err());
    rig.store.shutdown(&BTreeSet::new());
    drop(rig);
    let (rig, restored) = open(dir.path());
    assert!(restored.is_empty());
    assert!(!dir.path().join("segments/7.log").exists());
    rig.store.shutdown(&BTreeSet::new());
}

/// Without a sync before the ack, what an unclean stop leaves is not known to be all that was acked.
#[test]
fn the_tail_of_a_replicated_topic_is_known_after_a_clean_stop_only() {
    let (dir, crashed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let config = TopicConfig { ack: AckMode::Replicated, ..TopicConfig::default() };
    let (mut rig, _) = open(dir.path());
    rig.store.begin().unwrap();
    rig.persist(&[Write::Header { spec: SegmentSpec { config, ..spec() } }]);
    rig.persist(&[Write::Start { start: Offset(10), table: TableSnapshot::default() }, records(10, 0, b"a")]);
    // The process dies here.
    copy_dir(dir.path(), crashed.path());
    rig.store.shutdown(&BTreeSet::new());
    drop(rig);

    let (rig, restored) = open(dir.path());
    assert!(restored[0].state.tail_known, "it was stopped in order");
    rig.store.begin().unwrap();
    let again = tempfile::tempdir().unwrap();
    copy_dir(dir.path(), again.path());
    rig.store.shutdown(&BTreeSet::new());
    let (rig, restored) = open(again.path());
    assert!(!restored[0].state.tail_known, "and this time it was not");
    rig.store.shutdown(&BTreeSet::from([S]));

    for _ in 0..2 {
        let (rig, restored) = open(crashed.path());
        assert!(!restored[0].state.tail_known, "a clean stop later does not bring back what was lost before");
        rig.store.begin().unwrap();
        rig.store.shutdown(&BTreeSet::from([S]));
    }
}

/// A tail of a segment is told where the log starts when retention takes the segment away, and so is one that comes later.
#[test]
fn the_tails_of_a_trimmed_segment_are_told_where_the_log_starts() {
    let dir = tempfile::tempdir().unwrap();
    let (mut rig, _) = open(dir.path());
    rig.fill();
    let published = rig.store.log(S).unwrap().subscribe();
    rig.store.log_starts(RangeId(1), Offset(12));
    rig.store.forget(S, Some(Offset(12)));
    assert_eq!(published.borrow().gone, Some(Some(Offset(12))));
    assert!(rig.store.log(S).is_none());
    rig.store.log_starts(RangeId(1), Offset(5));
    assert_eq!(rig.store.log_start(RangeId(1)), Some(Offset(12)), "it only rises");
    assert_eq!(rig.store.log_start(RangeId(2)), None);
    rig.store.shutdown(&BTreeSet::new());
    drop(rig);
    assert!(!dir.path().join("segments/7.log").exists());
}

/// What a recovery's report says of a segment's size is what its batches take, found again after a restart.
#[test]
fn the_bytes_of_a_segment_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let (mut rig, _) = open(dir.path());
    rig.fill();
    rig.store.shutdown(&BTreeSet::new());
    drop(rig);
    let (rig, restored) = open(dir.path());
    let (_, _, all) = rig.store.read(S, Offset(10), 1 << 20).unwrap();
    assert!(!all.is_empty() && restored[0].bytes == all.len() as u64, "{} and {}", restored[0].bytes, all.len());
    rig.store.shutdown(&BTreeSet::new());
}

fn copy_dir(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            std::fs::create_dir_all(&target).unwrap();
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}
