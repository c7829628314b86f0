//! Why a batch is refused, with the numbers that show it, and what to do about it.

use crate::error::{ErrorCode, WireError};
use thiserror::Error;

/// A batch that cannot be read, is not true, or could not be built. Always definite: nothing of it was taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BatchError {
    #[error("batch is cut short: {need} bytes needed, {have} there; send whole batches")]
    Truncated { need: usize, have: usize },
    #[error("{extra} bytes follow the batch of {length}; send exactly one batch here")]
    TrailingBytes { length: usize, extra: usize },
    #[error("batch length field {0} is below the 49 bytes of the header's rest; the batch is damaged")]
    Length(i32),
    #[error("magic byte {0} is not 2; only record batch format v2 is spoken here")]
    Magic(i8),
    #[error("offsets from {base_offset} over {records} records leave 0..=i64::MAX")]
    Offsets { base_offset: i64, records: u32 },
    #[error("compression {name} (codec {codec}) is not supported; use none or lz4")]
    UnsupportedCompression { codec: u8, name: &'static str },
    #[error("attributes {0:#06x} ask for transactions, control batches, log-append time or more; none is supported")]
    Attributes(u16),
    #[error(
        "counts are not true: record count {record_count}, last offset delta {last_offset_delta}; \
             count must be at least 1 and one more than the delta"
    )]
    Counts { record_count: i32, last_offset_delta: i32 },
    #[error(
        "producer id {id}, epoch {epoch}, base sequence {base_sequence}: with an id none may be negative or above its type"
    )]
    Producer { id: i128, epoch: i16, base_sequence: i32 },
    #[error(
        "checksum {computed:#010x} of the content differs from the stored {stored:#010x}; the batch is damaged, send it again"
    )]
    Crc { stored: u32, computed: u32 },
    #[error("record {index}: {fault}")]
    Record { index: u32, fault: &'static str },
    #[error("{extra} bytes follow the last of {records} records; the record count is not true")]
    TrailingRecordBytes { records: u32, extra: usize },
    #[error("max timestamp {stored} is not the largest of the records' ({largest})")]
    MaxTimestamp { stored: i64, largest: i64 },
    #[error("LZ4: {0}")]
    Decompress(String),
    /// `what` names the limit in words; counts are in its own unit.
    #[error("{what}: {actual} is above the limit of {limit}; send smaller batches or raise the limit")]
    TooLarge { what: &'static str, actual: u64, limit: u64 },
    #[error("a batch needs at least one record")]
    Empty,
    #[error("gap entry: {why}; it is damaged")]
    Gap { why: &'static str },
}

impl BatchError {
    pub(crate) fn record(index: u32, fault: &'static str) -> Self {
        BatchError::Record { index, fault }
    }

    /// `Ok` when `actual` is within `limit`.
    pub(crate) fn bound(what: &'static str, actual: usize, limit: usize) -> Result<(), Self> {
        if actual <= limit {
            Ok(())
        } else {
            Err(BatchError::TooLarge { what, actual: actual as u64, limit: limit as u64 })
        }
    }

    /// The stable code: `BatchTooLarge` for a limit, `BadBatch` for all else.
    pub fn code(&self) -> ErrorCode {
        if matches!(self, BatchError::TooLarge { .. }) { ErrorCode::BatchTooLarge } else { ErrorCode::BadBatch }
    }
}

impl From<BatchError> for WireError {
    fn from(error: BatchError) -> Self {
        WireError::refused(error.code(), error.to_string())
    }
}
