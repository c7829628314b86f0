//! One segment's bytes: the newest batches in memory, all of them in its file, and what of them tails may see.

use crate::entry::{self, Item, Piece};
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use seam_wire::batch;
use seam_wire::msg::Decision;
use seam_wire::{Offset, SegmentId, TraceContext};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use thiserror::Error;
use tokio::sync::watch;

/// The index holds one entry for so many bytes of file.
const INDEX_BYTES: u64 = 32 << 10;
/// One read of a segment file.
const FILE_CHUNK_BYTES: usize = 512 << 10;

/// What tails may see of a segment. Bounds only rise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    pub start: Option<Offset>,
    pub committed: Offset,
    pub decision: Option<Decision>,
    /// The trace of the roll it was begun in: a tail's first records carry it.
    pub fresh: Option<TraceContext>,
    /// This node may serve it.
    pub serves: bool,
    /// Gone for good; with where the log starts since, if retention did it.
    pub gone: Option<Option<Offset>>,
}

#[derive(Debug, Error)]
pub enum ReadError {
    #[error("{0} is not here")]
    Unknown(SegmentId),
    #[error("{segment} holds no record at {from} here")]
    Missing { segment: SegmentId, from: Offset },
    #[error("{segment} at byte {position}: {why}")]
    Corrupt { segment: SegmentId, position: u64, why: entry::EntryError },
    #[error("reading {segment}: {source}")]
    Io { segment: SegmentId, source: io::Error },
}

pub struct SegmentLog {
    id: SegmentId,
    path: PathBuf,
    state: Mutex<State>,
    published: watch::Sender<Published>,
    delivered: AtomicBool,
}

#[derive(Default)]
struct State {
    /// (base, next, batch), contiguous, newest last; at least all that the file does not hold yet.
    cache: VecDeque<(Offset, Offset, Bytes)>,
    cache_bytes: usize,
    file: Option<Arc<File>>,
    file_bytes: u64,
    /// The offset after the last record in the file.
    file_next: Option<Offset>,
    /// (base offset, position), one for `INDEX_BYTES`.
    index: Vec<(Offset, u64)>,
    decided_at: Option<Instant>,
}

impl SegmentLog {
    pub fn new(id: SegmentId, dir: &Path) -> Self {
        SegmentLog {
            id,
            path: dir.join(format!("{}.log", id.0)),
            state: Mutex::default(),
            published: watch::Sender::new(Published::default()),
            delivered: AtomicBool::new(false),
        }
    }

    pub fn id(&self) -> SegmentId {
        self.id
    }

    pub fn subscribe(&self) -> watch::Receiver<Published> {
        self.published.subscribe()
    }

    /// Records left for a tail. True the first time in this process.
    pub fn first_delivery(&self) -> bool {
        !self.delivered.load(Ordering::Relaxed) && !self.delivered.swap(true, Ordering::Relaxed)
    }

    pub fn publish(&self, change: impl FnOnce(&mut Published)) {
        self.published.send_modify(change);
        if self.published.borrow().decision.is_some() {
            self.state.lock().decided_at.get_or_insert_with(Instant::now);
        }
    }

    /// Keeps batches in memory: for tails, and until the file has them.
    pub fn remember(&self, payload: &Bytes, cache_bytes: usize) {
        let mut state = self.state.lock();
        for batch in batch::split(payload.clone()) {
            let batch = batch.expect("R2: the node checked these batches");
            let header = batch::BatchHeader::parse(&batch).expect("R2: split parsed this header");
            state.cache_bytes += batch.len();
            state.cache.push_back((header.base_offset, header.next_offset(), batch));
        }
        state.evict(cache_bytes);
    }

    /// Writes one envelope behind the others. The scribe only.
    pub fn write_behind(&self, piece: &Piece, cache_bytes: usize) -> io::Result<()> {
        let (file, position) = self.file_and_end()?;
        let mut joined = BytesMut::with_capacity(piece.len());
        joined.extend_from_slice(&piece.header);
        joined.extend_from_slice(&piece.body);
        file.write_all_at(&joined, position)?;
        let mut state = self.state.lock();
        if let Ok((_, Item::Batch { base, batch }, _)) = entry::decode(&joined.freeze()) {
            let header = batch::BatchHeader::parse(&batch).expect("R2: decode parsed this header");
            state.note_batch(base, header.next_offset(), position);
        }
        state.file_bytes = position + piece.len() as u64;
        state.evict(cache_bytes);
        Ok(())
    }

    fn file_and_end(&self) -> io::Result<(Arc<File>, u64)> {
        let mut state = self.state.lock();
        let file = match &state.file {
            Some(file) => Arc::clone(file),
            None => {
                let file = File::options().read(true).write(true).create(true).truncate(false).open(&self.path)?;
                let file = Arc::new(file);
                state.file = Some(Arc::clone(&file));
                file
            }
        };
        Ok((file, state.file_bytes))
    }

    pub fn sync(&self) -> io::Result<()> {
        let file = self.state.lock().file.clone();
        file.map_or(Ok(()), |file| file.sync_data())
    }

    /// As found at a restart.
    pub fn restored(&self, file: File, file_bytes: u64, batches: &[(Offset, Offset, u64)]) {
        let mut state = self.state.lock();
        state.file = Some(Arc::new(file));
        state.file_bytes = file_bytes;
        for (base, next, position) in batches {
            state.note_batch(*base, *next, *position);
        }
    }

    /// The offset after the last record in the file, if it holds any.
    pub fn file_next(&self) -> Option<Offset> {
        self.state.lock().file_next
    }

    /// Lets go of memory that a decided segment's tails have long read.
    pub fn cool(&self, after: std::time::Duration) {
        let mut state = self.state.lock();
        if state.decided_at.is_some_and(|at| at.elapsed() >= after) {
            state.evict(0);
        }
    }

    /// Batches from the one that holds `from` up to `until` (exclusive; whole batches), at most `max_bytes`, at least one.
    /// The answer's base may lie below `from`.
    pub fn read(
        &self,
        from: Offset,
        until: Option<Offset>,
        max_bytes: usize,
    ) -> Result<(Offset, Offset, Bytes), ReadError> {
        if let Some(found) = self.state.lock().cached(from, until, max_bytes) {
            return Ok(found);
        }
        self.read_file(from, until, max_bytes)
    }

    /// Whether `read(from)` would be answered from memory.
    pub fn is_hot(&self, from: Offset) -> bool {
        self.state.lock().cache.front().is_some_and(|(base, _, _)| *base <= from)
    }

    fn read_file(
        &self,
        from: Offset,
        until: Option<Offset>,
        max_bytes: usize,
    ) -> Result<(Offset, Offset, Bytes), ReadError> {
        let missing = || ReadError::Missing { segment: self.id, from };
        let (file, mut position, end) = {
            let state = self.state.lock();
            if state.file_next.is_none_or(|next| from >= next) {
                return Err(missing());
            }
            let at = state.index.partition_point(|(base, _)| *base <= from);
            let position = at.checked_sub(1).map(|at| state.index[at].1).ok_or_else(missing)?;
            (state.file.clone().ok_or_else(missing)?, position, state.file_bytes)
        };
        let mut found: Option<(Offset, Offset)> = None;
        let mut payload = BytesMut::new();
        let mut buffer = Bytes::new();
        while position < end {
            let (item, len) = self.next_item(&file, &mut buffer, position, end)?;
            position += len as u64;
            let Item::Batch { base, batch } = item else { continue };
            let next = batch::BatchHeader::parse(&batch).expect("R2: decode parsed this header").next_offset();
            if next <= from {
                continue;
            }
            let full = found.is_some() && payload.len() + batch.len() > max_bytes;
            if full || until.is_some_and(|until| next > until) {
                break;
            }
            payload.extend_from_slice(&batch);
            found = Some((found.map_or(base, |(first, _)| first), next));
        }
        found.map(|(base, next)| (base, next, payload.freeze())).ok_or_else(missing)
    }

    fn next_item(&self, file: &File, buffer: &mut Bytes, position: u64, end: u64) -> Result<(Item, usize), ReadError> {
        let io = |source| ReadError::Io { segment: self.id, source };
        let mut wanted = FILE_CHUNK_BYTES;
        loop {
            match entry::decode(buffer) {
                Ok((segment, item, len)) if segment == self.id => {
                    *buffer = buffer.slice(len..);
                    return Ok((item, len));
                }
                Ok((segment, _, _)) => {
                    tracing::error!(%segment, here = %self.id, position, "an envelope of another segment");
                    return Err(ReadError::Missing { segment: self.id, from: Offset(0) });
                }
                Err(why) => {
                    let left = usize::try_from(end - position).unwrap_or(usize::MAX);
                    if buffer.len() >= left.min(wanted) && wanted >= left.min(64 << 20) && !buffer.is_empty() {
                        return Err(ReadError::Corrupt { segment: self.id, position, why });
                    }
                    wanted = if buffer.is_empty() { wanted } else { (wanted.max(buffer.len()) * 2).min(64 << 20) };
                    let mut fresh = vec![0; left.min(wanted)];
                    file.read_exact_at(&mut fresh, position).map_err(io)?;
                    if fresh.len() == buffer.len() {
                        return Err(ReadError::Corrupt { segment: self.id, position, why });
                    }
                    *buffer = Bytes::from(fresh);
                }
            }
        }
    }
}

impl State {
    fn note_batch(&mut self, base: Offset, next: Offset, position: u64) {
        if self.index.last().is_none_or(|(_, last)| position - last >= INDEX_BYTES) {
            self.index.push((base, position));
        }
        self.file_next = Some(next);
    }

    /// Only what the file has may leave memory.
    fn evict(&mut self, limit: usize) {
        while self.cache_bytes > limit {
            let Some((_, next, batch)) = self.cache.front() else { return };
            if self.file_next.is_none_or(|written| *next > written) {
                return;
            }
            self.cache_bytes -= batch.len();
            self.cache.pop_front();
        }
    }

    fn cached(&self, from: Offset, until: Option<Offset>, max_bytes: usize) -> Option<(Offset, Offset, Bytes)> {
        let (first, _, _) = self.cache.front()?;
        if from < *first {
            return None;
        }
        let at = self.cache.partition_point(|(_, next, _)| *next <= from);
        let (base, mut end, batch) = self.cache.get(at)?.clone();
        if until.is_some_and(|until| end > until) {
            return None;
        }
        let fits = |total: usize, next: Offset| total <= max_bytes && until.is_none_or(|until| next <= until);
        let mut total = batch.len();
        let mut count = 1;
        for (_, next, more) in self.cache.iter().skip(at + 1) {
            if !fits(total + more.len(), *next) {
                break;
            }
            total += more.len();
            end = *next;
            count += 1;
        }
        if count == 1 {
            return Some((base, end, batch));
        }
        let mut payload = BytesMut::with_capacity(total);
        self.cache.iter().skip(at).take(count).for_each(|(_, _, batch)| payload.extend_from_slice(batch));
        Some((base, end, payload.freeze()))
    }
}

impl SegmentLog {
    /// A batch that the journal has and the file lacks: readable from memory until it is written behind.
    pub fn remember_piece(&self, piece: &Piece) {
        let mut joined = BytesMut::with_capacity(piece.len());
        joined.extend_from_slice(&piece.header);
        joined.extend_from_slice(&piece.body);
        if let Ok((_, Item::Batch { batch, .. }, _)) = entry::decode(&joined.freeze()) {
            self.remember(&batch, usize::MAX);
        }
    }
}
