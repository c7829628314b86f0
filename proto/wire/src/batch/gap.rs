//! Gap entries: a batch without records that stands for the offsets an operator gave up, so that the log stays dense (R2)
//! and nobody takes a lost record for one that never was.
//!
//! The header's control bit is set, its counts are 0, and the body is the number of offsets, u64 big-endian. Only the primary of
//! a segment that follows an accepted loss writes one; a client's is refused at the door like any control batch.

use super::error::BatchError;
use super::header::{
    AT_ATTRIBUTES, AT_BASE_TIMESTAMP, AT_LAST_OFFSET_DELTA, AT_LEADER_EPOCH, AT_LENGTH, AT_MAGIC, BATCH_HEADER_LEN,
    GAP_BIT, LENGTH_END, MAGIC,
};
use super::stamp::{write_crc, write_producer};
use crate::Offset;
use crate::field::field;
use bytes::Bytes;

/// Bytes of a gap entry.
pub const GAP_LEN: usize = BATCH_HEADER_LEN + 8;
/// Offsets that an accepted loss skips. No segment, nor the few that may be begun behind an undecided one, ever holds so many
/// records: what comes after lies above every offset that was ever shown.
pub const LOSS_GAP: u64 = 1 << 40;

/// The entry that stands for `[base, base + span)`. Errors: the span is 0, or the offsets would leave `0..=i64::MAX`.
pub fn gap(base: Offset, span: u64) -> Result<Bytes, BatchError> {
    check(base, span)?;
    let mut entry = vec![0; GAP_LEN];
    let rest = i32::try_from(GAP_LEN - LENGTH_END).expect("it is short");
    entry[..AT_LENGTH].copy_from_slice(&base.0.to_be_bytes());
    entry[AT_LENGTH..AT_LEADER_EPOCH].copy_from_slice(&rest.to_be_bytes());
    entry[AT_LEADER_EPOCH..AT_MAGIC].copy_from_slice(&(-1i32).to_be_bytes());
    entry[AT_MAGIC] = MAGIC.to_be_bytes()[0];
    entry[AT_ATTRIBUTES..AT_LAST_OFFSET_DELTA].copy_from_slice(&GAP_BIT.to_be_bytes());
    // No record, so no last one and no time.
    entry[AT_LAST_OFFSET_DELTA..AT_BASE_TIMESTAMP].copy_from_slice(&(-1i32).to_be_bytes());
    write_producer(&mut entry, None)?;
    entry[BATCH_HEADER_LEN..].copy_from_slice(&span.to_be_bytes());
    write_crc(&mut entry);
    Ok(Bytes::from(entry))
}

/// The span of the gap entry at the front of `bytes`, `length` long and with these counts (records, last offset delta) by its
/// header.
pub(super) fn parse_span(bytes: &[u8], length: u32, counts: (i32, i32)) -> Result<u64, BatchError> {
    if counts != (0, -1) {
        return Err(BatchError::Attributes(GAP_BIT)); // Another kind of control batch.
    }
    if length as usize != GAP_LEN {
        return Err(BatchError::Gap { why: "it is not 69 bytes long" });
    }
    Ok(u64::from_be_bytes(field(bytes, BATCH_HEADER_LEN)))
}

pub(super) fn check(base: Offset, span: u64) -> Result<(), BatchError> {
    if span == 0 {
        return Err(BatchError::Gap { why: "it stands for no offset" });
    }
    match base.0.checked_add(span).is_some_and(|end| i64::try_from(end).is_ok()) {
        true => Ok(()),
        false => Err(BatchError::Gap { why: "its offsets are too large" }),
    }
}
