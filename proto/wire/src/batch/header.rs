//! The batch header: what servers read of a batch. Looks at no record, so a header alone proves nothing about them.

use super::compress::Compression;
use super::error::BatchError;
use crate::field::field;
use crate::{Offset, ProducerId};

/// Bytes before the records.
pub const BATCH_HEADER_LEN: usize = 61;
/// Bytes up to and including the length field, which does not count them.
pub(super) const LENGTH_END: usize = 12;

pub(super) const AT_LENGTH: usize = 8;
pub(super) const AT_LEADER_EPOCH: usize = 12;
pub(super) const AT_MAGIC: usize = 16;
pub(super) const AT_CRC: usize = 17;
pub(super) const AT_ATTRIBUTES: usize = 21;
pub(super) const AT_LAST_OFFSET_DELTA: usize = 23;
pub(super) const AT_BASE_TIMESTAMP: usize = 27;
pub(super) const AT_MAX_TIMESTAMP: usize = 35;
pub(super) const AT_PRODUCER_ID: usize = 43;
pub(super) const AT_PRODUCER_EPOCH: usize = 51;
pub(super) const AT_BASE_SEQUENCE: usize = 53;
pub(super) const AT_RECORD_COUNT: usize = 57;

pub(super) const MAGIC: i8 = 2;
/// A control batch. The one kind that is known here is the gap entry.
pub(super) const GAP_BIT: u16 = 0x20;
const COMPRESSION_BITS: u16 = 0b111;

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// The whole batch, header and length field included. Bytes.
    pub length: u32,
    /// CRC-32C as stored; [`super::verify_crc`] checks it.
    pub crc: u32,
    pub compression: Compression,
    /// Always `record_count - 1`; 0 of a gap entry.
    pub last_offset_delta: u32,
    pub base_timestamp_ms: i64,
    pub max_timestamp_ms: i64,
    /// Id, epoch and sequence of the first record; `None` for a producer without idempotence.
    pub producer: Option<(ProducerId, i16, i32)>,
    /// At least 1; 0 of a gap entry.
    pub record_count: u32,
    /// A gap entry: so many offsets from the base on were given up.
    pub gap: Option<u64>,
}

impl BatchHeader {
    /// Reads the header of the batch at the front of `bytes`, which may go on after it. Checks the header's own structure:
    /// the whole batch is there, counts agree with each other, offsets fit. Neither checksum nor records are looked at.
    pub fn parse(bytes: &[u8]) -> Result<BatchHeader, BatchError> {
        if bytes.len() < BATCH_HEADER_LEN {
            return Err(BatchError::Truncated { need: BATCH_HEADER_LEN, have: bytes.len() });
        }
        let magic = i8::from_be_bytes(field(bytes, AT_MAGIC));
        if magic != MAGIC {
            return Err(BatchError::Magic(magic));
        }
        let length = parse_length(bytes)?;
        let gap = parse_gap(bytes, length)?;
        let (record_count, last_offset_delta) = if gap.is_some() { (0, 0) } else { parse_counts(bytes)? };
        let base_offset = check_offsets(i64::from_be_bytes(field(bytes, 0)), record_count)?;
        gap.map_or(Ok(()), |span| super::gap::check(base_offset, span))?;
        Ok(BatchHeader {
            base_offset,
            length,
            crc: u32::from_be_bytes(field(bytes, AT_CRC)),
            compression: parse_attributes(bytes)?,
            last_offset_delta,
            base_timestamp_ms: i64::from_be_bytes(field(bytes, AT_BASE_TIMESTAMP)),
            max_timestamp_ms: i64::from_be_bytes(field(bytes, AT_MAX_TIMESTAMP)),
            producer: parse_producer(bytes)?,
            record_count,
            gap,
        })
    }

    /// The offset after the last record, or after the gap.
    pub fn next_offset(&self) -> Offset {
        self.base_offset.plus(self.gap.unwrap_or(u64::from(self.record_count)))
    }

    /// The batch is to hold records: a gap entry is refused as the control batch that it is.
    pub fn with_records(self) -> Result<BatchHeader, BatchError> {
        if self.gap.is_some() { Err(BatchError::Attributes(GAP_BIT)) } else { Ok(self) }
    }

    /// The sequence of the last record; `None` without a producer.
    pub fn last_sequence(&self) -> Option<i32> {
        self.producer.map(|(_, _, base)| sequence_after(base, self.last_offset_delta))
    }

    /// The sequence the producer's next batch must start at; `None` without a producer.
    pub fn next_sequence(&self) -> Option<i32> {
        self.producer.map(|(_, _, base)| sequence_after(base, self.record_count))
    }
}

/// The sequence `records` after `sequence`. Sequences run from 0 to `i32::MAX` and then from 0 again.
pub fn sequence_after(sequence: i32, records: u32) -> i32 {
    let wrapped = (i64::from(sequence) + i64::from(records)) & i64::from(i32::MAX);
    i32::try_from(wrapped).expect("masked to 31 bits")
}

fn parse_length(bytes: &[u8]) -> Result<u32, BatchError> {
    let rest = i32::from_be_bytes(field(bytes, AT_LENGTH));
    let rest_len = usize::try_from(rest).map_err(|_| BatchError::Length(rest))?;
    if rest_len < BATCH_HEADER_LEN - LENGTH_END {
        return Err(BatchError::Length(rest));
    }
    let whole = rest_len + LENGTH_END;
    if whole > bytes.len() {
        return Err(BatchError::Truncated { need: whole, have: bytes.len() });
    }
    Ok(u32::try_from(whole).expect("an i32 plus 12 fits u32"))
}

fn parse_attributes(bytes: &[u8]) -> Result<Compression, BatchError> {
    let attributes = u16::from_be_bytes(field(bytes, AT_ATTRIBUTES));
    let codec = u8::try_from(attributes & COMPRESSION_BITS).expect("three bits");
    let compression = Compression::from_codec(codec)?;
    if attributes & !COMPRESSION_BITS != 0 && attributes != GAP_BIT {
        return Err(BatchError::Attributes(attributes));
    }
    Ok(compression)
}

/// The span of a gap entry; `None`: it holds records, or says so.
fn parse_gap(bytes: &[u8], length: u32) -> Result<Option<u64>, BatchError> {
    if u16::from_be_bytes(field(bytes, AT_ATTRIBUTES)) != GAP_BIT {
        return Ok(None);
    }
    let count = |at| i32::from_be_bytes(field(bytes, at));
    super::gap::parse_span(bytes, length, (count(AT_RECORD_COUNT), count(AT_LAST_OFFSET_DELTA))).map(Some)
}

fn parse_counts(bytes: &[u8]) -> Result<(u32, u32), BatchError> {
    let record_count = i32::from_be_bytes(field(bytes, AT_RECORD_COUNT));
    let last_offset_delta = i32::from_be_bytes(field(bytes, AT_LAST_OFFSET_DELTA));
    let lie = BatchError::Counts { record_count, last_offset_delta };
    match (u32::try_from(record_count), u32::try_from(last_offset_delta)) {
        (Ok(count), Ok(delta)) if count == delta + 1 => Ok((count, delta)),
        (Ok(_) | Err(_), Ok(_) | Err(_)) => Err(lie),
    }
}

/// The offset of every record, and the one after the last, must be a non-negative `i64`.
pub(super) fn check_offsets(base_offset: i64, records: u32) -> Result<Offset, BatchError> {
    match u64::try_from(base_offset) {
        Ok(base) if base_offset.checked_add(i64::from(records)).is_some() => Ok(Offset(base)),
        Ok(_) | Err(_) => Err(BatchError::Offsets { base_offset, records }),
    }
}

fn parse_producer(bytes: &[u8]) -> Result<Option<(ProducerId, i16, i32)>, BatchError> {
    let id = i64::from_be_bytes(field(bytes, AT_PRODUCER_ID));
    let epoch = i16::from_be_bytes(field(bytes, AT_PRODUCER_EPOCH));
    let base_sequence = i32::from_be_bytes(field(bytes, AT_BASE_SEQUENCE));
    // Kafka clients without idempotence leave all sorts of things in the other two fields.
    if id == -1 {
        return Ok(None);
    }
    match u64::try_from(id) {
        Ok(known) if epoch >= 0 && base_sequence >= 0 => Ok(Some((ProducerId(known), epoch, base_sequence))),
        Ok(_) | Err(_) => Err(BatchError::Producer { id: id.into(), epoch, base_sequence }),
    }
}
