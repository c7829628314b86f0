//! Reads back what the disk holds at a start: segment files, then the journal over them.
//!
//! A torn tail of a segment file is cut: the journal still has what it lost, since it lets go only of what was synced.

use super::log::SegmentLog;
use super::mark::LastStop;
use super::scribe::{Scribe, Task};
use crate::entry::{self, Item, Piece};
use bytes::Bytes;
use seam_journal::Lsn;
use seam_wire::batch::BatchHeader;
use seam_wire::meta::SegmentSpec;
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::table::TableSnapshot;
use seam_wire::topic::AckMode;
use seam_wire::{Epoch, Offset, SegmentId};
use segd_core::node::{RestoredReplica, claim};
use segd_core::replica::RestoredState;
use segd_core::table::ProducerTable;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Default)]
struct Found {
    spec: Option<SegmentSpec>,
    start: Option<(Offset, TableSnapshot)>,
    end: Option<Offset>,
    table: ProducerTable,
    seal: Option<SealEntry>,
    promised: Epoch,
    decision: Option<Decision>,
    file: Option<(File, u64)>,
    batches: Vec<(Offset, Offset, u64)>,
    /// Of all batches, those of the journal alone too.
    bytes: u64,
    /// In the journal and not in the file: to be written behind again.
    missing: Vec<(Lsn, Piece)>,
}

pub struct Restored {
    dir: PathBuf,
    segments: BTreeMap<SegmentId, Found>,
    reclaimed: BTreeSet<SegmentId>,
}

/// Every segment file in `dir`.
pub fn read_files(dir: &Path) -> anyhow::Result<Restored> {
    let mut restored = Restored { dir: dir.to_path_buf(), segments: BTreeMap::new(), reclaimed: BTreeSet::new() };
    for file in std::fs::read_dir(dir)? {
        let path = file?.path();
        let id = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        if let Some(id) = id.filter(|_| path.extension().is_some_and(|ext| ext == "log")) {
            let found = read_file(SegmentId(id), &path)?;
            restored.segments.insert(SegmentId(id), found);
        }
    }
    Ok(restored)
}

fn read_file(segment: SegmentId, path: &Path) -> anyhow::Result<Found> {
    let mut found = Found::default();
    let bytes = Bytes::from(std::fs::read(path)?);
    let mut position = 0;
    while position < bytes.len() {
        match entry::decode(&bytes.slice(position..)) {
            Ok((owner, item, len)) if owner == segment => {
                found.take(item, Some(position as u64));
                position += len;
            }
            Ok((owner, _, _)) => {
                tracing::error!(%segment, %owner, position, "a foreign envelope; the file is cut here");
                break;
            }
            Err(why) => {
                tracing::warn!(%segment, position, %why, "torn tail; the file is cut here and the journal completes it");
                break;
            }
        }
    }
    let file = File::options().read(true).write(true).open(path)?;
    if position < bytes.len() {
        file.set_len(position as u64)?;
    }
    // What was read may still be in the page cache alone; the journal may let go of it once it is synced.
    file.sync_data()?;
    found.file = Some((file, position as u64));
    Ok(found)
}

impl Found {
    /// True if the item is news.
    fn take(&mut self, item: Item, position: Option<u64>) -> bool {
        match item {
            Item::Header(spec) => self.spec.replace(spec).is_none(),
            Item::Start { start, table } => {
                if self.start.is_some() {
                    return false;
                }
                self.table = ProducerTable::from_snapshot(&table);
                self.end = Some(start);
                self.start = Some((start, table));
                true
            }
            Item::Batch { base, batch } => {
                let Ok(header) = BatchHeader::parse(&batch) else { return false };
                if self.end.is_some_and(|end| base != end) {
                    return false; // Known already: the file and the journal overlap.
                }
                if let Some(claim) = claim(&header) {
                    self.table.record(&claim, base);
                }
                self.end = Some(header.next_offset());
                self.bytes += batch.len() as u64;
                if let Some(position) = position {
                    self.batches.push((base, header.next_offset(), position));
                }
                true
            }
            Item::Seal(seal) => self.seal.replace(seal).is_none(),
            Item::Promise(epoch) => {
                let news = epoch > self.promised;
                self.promised = self.promised.max(epoch);
                news
            }
            Item::Decided(decision) => self.decision.replace(decision).is_none(),
            Item::Reclaimed | Item::Other => false,
        }
    }

    fn replica(&self, segment: SegmentId, last_stop: &LastStop) -> Option<RestoredReplica> {
        let Some(spec) = self.spec.clone() else {
            tracing::error!(%segment, "no durable header: this replica answers nobody");
            return None;
        };
        // Without a sync before the ack, the end found after an unclean stop is not the end that was acked.
        let synced_first = spec.config.ack == AckMode::Durable;
        let tail_known = synced_first || self.decision.is_some() || last_stop.knows_tail(segment);
        if !tail_known {
            tracing::warn!(%segment, "its end is not known after an unclean stop: this replica answers nobody");
        }
        let state = RestoredState {
            start: self.start.as_ref().map(|(start, _)| *start),
            durable_end: self.end.unwrap_or_default(),
            seal: self.seal,
            promised: self.promised,
            decision: self.decision,
            tail_known,
        };
        let start_table = self.start.as_ref().map(|(_, table)| table.clone()).unwrap_or_default();
        Some(RestoredReplica { spec, state, start_table, table: self.table.clone(), bytes: self.bytes })
    }
}

impl Restored {
    /// One journal entry, in order.
    pub fn replay(&mut self, lsn: Lsn, bytes: Bytes) {
        let (segment, item, len) = match entry::decode(&bytes) {
            Ok(decoded) => decoded,
            Err(why) => {
                tracing::error!(?lsn, %why, "a journal entry that is no envelope; skipped");
                return;
            }
        };
        if matches!(item, Item::Reclaimed) {
            self.segments.remove(&segment);
            self.reclaimed.insert(segment);
            return;
        }
        let found = self.segments.entry(segment).or_default();
        if found.take(item, None) {
            let header = bytes.slice(..seam_wire::envelope::ENVELOPE_HEADER_LEN);
            let body = bytes.slice(seam_wire::envelope::ENVELOPE_HEADER_LEN..len);
            let copy = |bytes: Bytes| Bytes::copy_from_slice(&bytes);
            found.missing.push((lsn, Piece { header: copy(header), body: copy(body) }));
        }
    }

    /// The logs, and what the node needs to know. What files miss is written behind first.
    #[allow(clippy::type_complexity)]
    pub fn finish(
        self,
        scribe: &Scribe,
        last_stop: &LastStop,
    ) -> anyhow::Result<(BTreeMap<SegmentId, Arc<SegmentLog>>, Vec<RestoredReplica>)> {
        let mut logs = BTreeMap::new();
        let mut replicas = Vec::new();
        let mut missing = Vec::new();
        for segment in self.reclaimed {
            let path = self.dir.join(format!("{}.log", segment.0));
            if path.exists() {
                std::fs::remove_file(path)?;
            }
        }
        for (segment, mut found) in self.segments {
            let log = Arc::new(SegmentLog::new(segment, &self.dir));
            if let Some((file, bytes)) = found.file.take() {
                log.restored(file, bytes, &found.batches);
            }
            for (lsn, piece) in std::mem::take(&mut found.missing) {
                log.remember_piece(&piece);
                missing.push((lsn, Arc::clone(&log), piece));
            }
            replicas.extend(found.replica(segment, last_stop));
            logs.insert(segment, log);
        }
        missing.sort_by_key(|(lsn, _, _)| *lsn);
        for (lsn, log, piece) in missing {
            scribe.send(Task::Write { lsn, log, piece });
        }
        Ok((logs, replicas))
    }
}
