//! Where a consumer starts, as an offset: ends are asked of a router, a moment is searched for by reading single batches.

use super::builder::ReadFrom;
use super::range::{RangeTail, Step};
use crate::client::Offsets;
use crate::clock::Clock;
use crate::lane::Lane;
use crate::query;
use client_core::seek::{Seek, SeekStep};
use client_core::tail::{Tail, TailFailure, TailSettings};
use seam_wire::Offset;
use seam_wire::batch::{BatchHeader, Record};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::TailFrom;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// What tails of one topic have in common.
#[derive(Clone)]
pub(crate) struct Source {
    pub lane: Arc<Lane>,
    pub clock: Clock,
    pub topic: String,
    pub machine: TailSettings,
    /// Of one question.
    pub timeout: Duration,
    /// Counts tails that heard nothing though records waited.
    pub stuck: Arc<AtomicU64>,
}

impl Source {
    pub fn tail(&self, range: u32, from: TailFrom, decode: bool) -> RangeTail {
        RangeTail::new(self, range, decode, Tail::new(from, self.machine))
    }

    /// Both ends of a range. Who follows asks until somebody answers.
    async fn ends(&self, range: u32) -> Result<Offsets, WireError> {
        loop {
            let asked = query::offsets(&self.lane, &self.topic, range, self.timeout, query::UNKNOWN_PATIENCE).await;
            match asked {
                Err(error) if error.retryable && self.machine.give_up_us.is_none() => {
                    tracing::debug!(topic = %self.topic, range, %error, "where it starts cannot be told yet");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                answered => return answered,
            }
        }
    }

    /// The batch that holds `at`, below `end`. A gap entry has no time: it is taken together with the batch behind it.
    async fn batch(&self, range: u32, at: Offset, end: Offset) -> Result<Probe, WireError> {
        // The first batch is all that is wanted; the tail is dropped with what came behind it.
        let mut tail = self.tail(range, TailFrom::Offset(at), true);
        let mut gap = None;
        loop {
            match tail.next(true).await {
                Step::Chunk(chunk) => {
                    let header = BatchHeader::parse(&chunk.bytes).expect("it was decoded");
                    let base = gap.unwrap_or(header.base_offset);
                    let (next, max_timestamp_ms) = (header.next_offset(), header.max_timestamp_ms);
                    return Ok(Probe { base, next, max_timestamp_ms, records: chunk.into_records() });
                }
                Step::Lost { from, next } if next >= end => {
                    let (base, records) = (gap.unwrap_or(from), Vec::new().into_iter());
                    return Ok(Probe { base, next, max_timestamp_ms: i64::MAX, records });
                }
                Step::Lost { from, .. } => gap = gap.or(Some(from)),
                Step::Trimmed { from, start } => {
                    let detail = format!("the log starts at {start} now, above {from}");
                    return Err(WireError::refused(ErrorCode::Trimmed { start }, detail));
                }
                Step::Finished => {
                    return Err(WireError::retry(ErrorCode::Internal, "a tail that follows came to an end"));
                }
                Step::Failed(TailFailure::Refused(error)) => return Err(error),
                Step::Failed(failure @ (TailFailure::Hole { .. } | TailFailure::Damaged { .. })) => {
                    return Err(WireError::refused(ErrorCode::Internal, format!("{failure:?}")));
                }
            }
        }
    }
}

/// What was found at an offset.
struct Probe {
    base: Offset,
    next: Offset,
    max_timestamp_ms: i64,
    /// What of it begins at or above the offset.
    records: std::vec::IntoIter<Record>,
}

/// As a tail takes it: only a moment has to be searched for.
pub(crate) async fn place(source: &Source, range: u32, from: ReadFrom) -> Result<TailFrom, WireError> {
    Ok(match from {
        ReadFrom::Earliest => TailFrom::Earliest,
        ReadFrom::Latest => TailFrom::Latest,
        ReadFrom::Offset(offset) => TailFrom::Offset(offset),
        ReadFrom::Timestamp(moment_ms) => TailFrom::Offset(search(source, range, moment_ms).await?),
    })
}

/// As a number, fixed now.
pub(crate) async fn resolve(source: &Source, range: u32, from: ReadFrom) -> Result<Offset, WireError> {
    Ok(match from {
        ReadFrom::Earliest => source.ends(range).await?.earliest,
        ReadFrom::Latest => source.ends(range).await?.latest,
        ReadFrom::Offset(offset) => offset,
        ReadFrom::Timestamp(moment_ms) => search(source, range, moment_ms).await?,
    })
}

/// The earliest offset whose record is at or after the moment, or the end.
async fn search(source: &Source, range: u32, moment_ms: i64) -> Result<Offset, WireError> {
    let mut low = Offset(0);
    loop {
        let ends = source.ends(range).await?;
        match search_in(source, range, moment_ms, low.max(ends.earliest), ends.latest).await {
            // Retention took the log's beginning meanwhile: it is looked for above.
            Err(error) if matches!(error.code, ErrorCode::OffsetOutOfRange | ErrorCode::Trimmed { .. }) => {
                let earliest = source.ends(range).await?.earliest;
                if earliest <= low.max(ends.earliest) {
                    return Err(error);
                }
                low = earliest;
            }
            found => return found,
        }
    }
}

async fn search_in(
    source: &Source,
    range: u32,
    moment_ms: i64,
    mut low: Offset,
    end: Offset,
) -> Result<Offset, WireError> {
    loop {
        let mut seek = Seek::new(low, end, moment_ms);
        let found = loop {
            match seek.step() {
                SeekStep::Found(at) => break at,
                SeekStep::Read(at) => {
                    let probe = source.batch(range, at, end).await?;
                    seek.saw(probe.base, probe.next, probe.max_timestamp_ms);
                }
            }
        };
        if found >= end {
            return Ok(found);
        }
        let mut probe = source.batch(range, found, end).await?;
        match probe.records.find(|record| record.timestamp_ms >= moment_ms) {
            Some(record) => return Ok(record.offset),
            // What is late in this batch lies below where reading may begin.
            None => low = probe.next,
        }
    }
}
