//! Writing into a batch that stands already: the base offset (outside the checksum) and the producer (inside it).

use super::error::BatchError;
use super::header::{self, AT_BASE_SEQUENCE, AT_CRC, AT_PRODUCER_EPOCH, AT_PRODUCER_ID, BatchHeader};
use crate::{Offset, ProducerId};
use bytes::{Bytes, BytesMut};

/// Gives the batch at the front of `batch` its base offset, in place. The checksum stays true.
/// Errors: no whole batch there, or its offsets would leave `0..=i64::MAX`; nothing is written then.
pub fn stamp_base_offset(batch: &mut [u8], base_offset: Offset) -> Result<(), BatchError> {
    let parsed = BatchHeader::parse(batch)?;
    let base = i64::try_from(base_offset.0).unwrap_or(i64::MAX);
    header::check_offsets(base, parsed.record_count)?;
    batch[..8].copy_from_slice(&base.to_be_bytes());
    Ok(())
}

/// As [`stamp_base_offset`], for shared bytes: in place when nobody else holds them, else on a copy.
pub fn stamped(batch: Bytes, base_offset: Offset) -> Result<Bytes, BatchError> {
    let mut own = batch.try_into_mut().unwrap_or_else(|shared| BytesMut::from(shared.as_ref()));
    stamp_base_offset(&mut own, base_offset)?;
    Ok(own.freeze())
}

/// Gives the batch at the front of `batch` another producer and makes the checksum anew: for a producer that starts over
/// in a new epoch with batches it still holds. Errors: no whole batch there, or a field out of range; nothing is written then.
pub fn stamp_producer(batch: &mut [u8], producer: (ProducerId, i16, i32)) -> Result<(), BatchError> {
    let parsed = BatchHeader::parse(batch)?;
    write_producer(batch, Some(producer))?;
    write_crc(&mut batch[..parsed.length as usize]);
    Ok(())
}

pub(super) fn write_producer(batch: &mut [u8], producer: Option<(ProducerId, i16, i32)>) -> Result<(), BatchError> {
    let (id, epoch, base_sequence) = match producer {
        None => (-1, -1, -1),
        Some((id, epoch, base_sequence)) => {
            let refused = BatchError::Producer { id: id.0.into(), epoch, base_sequence };
            match i64::try_from(id.0) {
                Ok(id) if epoch >= 0 && base_sequence >= 0 => (id, epoch, base_sequence),
                Ok(_) | Err(_) => return Err(refused),
            }
        }
    };
    batch[AT_PRODUCER_ID..AT_PRODUCER_EPOCH].copy_from_slice(&id.to_be_bytes());
    batch[AT_PRODUCER_EPOCH..AT_BASE_SEQUENCE].copy_from_slice(&epoch.to_be_bytes());
    batch[AT_BASE_SEQUENCE..AT_BASE_SEQUENCE + 4].copy_from_slice(&base_sequence.to_be_bytes());
    Ok(())
}

/// Computes and writes the checksum of exactly one batch.
pub(super) fn write_crc(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[header::AT_ATTRIBUTES..]);
    batch[AT_CRC..header::AT_ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
}
