//! Reads the records of a batch: all of them or none. Decompression, counts and nesting are bounded before memory is spent.

use super::compress;
use super::error::BatchError;
use super::header::{AT_ATTRIBUTES, BATCH_HEADER_LEN, BatchHeader};
use super::limits::BatchLimits;
use super::varint::{take_i32, take_i64};
use crate::Offset;
use bytes::Bytes;
use std::borrow::Cow;

/// A record as a consumer sees it. Key, value and header contents share the batch's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub offset: Offset,
    pub timestamp_ms: i64,
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    /// In the producer's order; a null value is read as empty.
    pub headers: Vec<(String, Bytes)>,
}

/// Checks the checksum of the batch at the front of `batch`.
pub fn verify_crc(batch: &[u8]) -> Result<(), BatchError> {
    let header = BatchHeader::parse(batch)?;
    check_crc(&header, batch)
}

/// Checks that `batch` is exactly one batch and that all it says is true: header, checksum, size, and every record, with
/// offset deltas 0, 1, 2 ... and nothing left over. At most `max_uncompressed` bytes are spent on decompression; the other
/// limits are the default ones.
pub fn verify(batch: &[u8], max_uncompressed: usize) -> Result<BatchHeader, BatchError> {
    verify_with(batch, &BatchLimits { max_uncompressed_bytes: max_uncompressed, ..BatchLimits::default() })
}

/// As [`verify`], with every limit named.
pub fn verify_with(batch: &[u8], limits: &BatchLimits) -> Result<BatchHeader, BatchError> {
    BatchError::bound("bytes of the batch", batch.len(), limits.max_batch_bytes)?;
    let header = check_whole(batch, limits)?;
    let section = compress::open(&batch[BATCH_HEADER_LEN..], header.compression, limits.max_uncompressed_bytes)?;
    walk(&section, &header, limits, |_, _| ())?;
    Ok(header)
}

/// The records of exactly one batch, checked as [`verify`] checks them, under the default limits but without one on the
/// batch or on a single record: what was let in must stay readable when those are lowered.
pub fn records(batch: &Bytes) -> Result<Vec<Record>, BatchError> {
    let limits = BatchLimits { max_batch_bytes: usize::MAX, max_record_bytes: usize::MAX, ..BatchLimits::default() };
    let header = check_whole(batch, &limits)?;
    let section = batch.slice(BATCH_HEADER_LEN..);
    let section = match compress::open(&section, header.compression, limits.max_uncompressed_bytes)? {
        Cow::Borrowed(_) => section.clone(),
        Cow::Owned(mut opened) => {
            // Records may live long: they keep this buffer, so it keeps no spare room.
            opened.shrink_to_fit();
            Bytes::from(opened)
        }
    };
    // A record takes at least 7 bytes, so a lying count reserves no more than the bytes can bear.
    let mut out = Vec::with_capacity((header.record_count as usize).min(section.len() / 7));
    walk(&section, &header, &limits, |raw, headers| {
        out.push(Record {
            offset: header.base_offset.plus(u64::from(raw.offset_delta)),
            timestamp_ms: raw.timestamp_ms,
            key: raw.key.map(|key| section.slice_ref(key)),
            value: raw.value.map(|value| section.slice_ref(value)),
            headers: headers.iter().map(|(name, content)| ((*name).to_owned(), section.slice_ref(content))).collect(),
        });
    })?;
    Ok(out)
}

fn check_crc(header: &BatchHeader, batch: &[u8]) -> Result<(), BatchError> {
    let computed = crc32c::crc32c(&batch[AT_ATTRIBUTES..header.length as usize]);
    if computed == header.crc { Ok(()) } else { Err(BatchError::Crc { stored: header.crc, computed }) }
}

/// Header, exact length, record count and checksum; no gap entry.
fn check_whole(batch: &[u8], limits: &BatchLimits) -> Result<BatchHeader, BatchError> {
    let header = BatchHeader::parse(batch)?.with_records()?;
    let length = header.length as usize;
    if batch.len() > length {
        return Err(BatchError::TrailingBytes { length, extra: batch.len() - length });
    }
    check_crc(&header, batch)?;
    BatchError::bound("records of the batch", header.record_count as usize, limits.max_records)?;
    Ok(header)
}

struct RawRecord<'s> {
    offset_delta: u32,
    timestamp_ms: i64,
    key: Option<&'s [u8]>,
    value: Option<&'s [u8]>,
}

type RawHeaders<'s> = Vec<(&'s str, &'s [u8])>;

/// Shows `each` every record of the opened section, in order, with its headers.
fn walk<'s>(
    mut section: &'s [u8],
    header: &BatchHeader,
    limits: &BatchLimits,
    mut each: impl FnMut(RawRecord<'s>, &RawHeaders<'s>),
) -> Result<(), BatchError> {
    let mut record_headers = Vec::new();
    let mut headers_left = limits.max_headers;
    let mut largest = i64::MIN;
    for index in 0..header.record_count {
        let body = take_body(&mut section, index, limits)?;
        record_headers.clear();
        let raw = read_record(body, index, header, headers_left, &mut record_headers)?;
        headers_left -= record_headers.len();
        largest = largest.max(raw.timestamp_ms);
        each(raw, &record_headers);
    }
    if !section.is_empty() {
        return Err(BatchError::TrailingRecordBytes { records: header.record_count, extra: section.len() });
    }
    if largest != header.max_timestamp_ms {
        return Err(BatchError::MaxTimestamp { stored: header.max_timestamp_ms, largest });
    }
    Ok(())
}

fn take_body<'s>(section: &mut &'s [u8], index: u32, limits: &BatchLimits) -> Result<&'s [u8], BatchError> {
    let before = section.len();
    let fault = BatchError::record(index, "is missing or cut short; the record count is not true");
    let len = take_i32(section).and_then(|len| usize::try_from(len).ok()).ok_or(fault.clone())?;
    let body = section.split_off(..len).ok_or(fault)?;
    BatchError::bound("bytes of the record", before - section.len(), limits.max_record_bytes)?;
    Ok(body)
}

fn read_record<'s>(
    mut body: &'s [u8],
    index: u32,
    header: &BatchHeader,
    headers_left: usize,
    headers: &mut RawHeaders<'s>,
) -> Result<RawRecord<'s>, BatchError> {
    let fault = |what| BatchError::record(index, what);
    let input = &mut body;
    // Record attributes: Kafka gives them no meaning and no rule.
    input.split_off_first().ok_or(fault("has no attributes"))?;
    let delta_ms = take_i64(input).ok_or(fault("timestamp delta is no varint"))?;
    let timestamp_ms = header.base_timestamp_ms.checked_add(delta_ms).ok_or(fault("timestamp leaves i64"))?;
    let offset_delta = take_i32(input).ok_or(fault("offset delta is no varint"))?;
    if i64::from(offset_delta) != i64::from(index) {
        return Err(fault("offset delta is not the record's position in the batch"));
    }
    let key = take_nullable(input).ok_or(fault("key is cut short"))?;
    let value = take_nullable(input).ok_or(fault("value is cut short"))?;
    let count = take_i32(input).and_then(|n| usize::try_from(n).ok()).ok_or(fault("header count is not a count"))?;
    BatchError::bound("record headers of the batch (of those left)", count, headers_left)?;
    for _ in 0..count {
        let name = take_nullable(input).flatten().ok_or(fault("header key is missing or cut short"))?;
        let name = std::str::from_utf8(name).map_err(|_| fault("header key is not UTF-8"))?;
        let content = take_nullable(input).ok_or(fault("header value is cut short"))?;
        headers.push((name, content.unwrap_or_default()));
    }
    if !input.is_empty() {
        return Err(fault("is longer than its fields"));
    }
    Ok(RawRecord { offset_delta: index, timestamp_ms, key, value })
}

/// A length and as many bytes; `Some(None)` for length -1, `None` for what is cut short or below -1.
fn take_nullable<'s>(input: &mut &'s [u8]) -> Option<Option<&'s [u8]>> {
    let len = take_i32(input)?;
    if len == -1 {
        return Some(None);
    }
    input.split_off(..usize::try_from(len).ok()?).map(Some)
}
