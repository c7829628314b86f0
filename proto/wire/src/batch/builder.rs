//! Builds a batch record by record. The base offset is 0: whoever gives out offsets stamps it.

use super::compress::{self, Compression};
use super::error::BatchError;
use super::header::{
    AT_ATTRIBUTES, AT_BASE_TIMESTAMP, AT_LAST_OFFSET_DELTA, AT_LEADER_EPOCH, AT_LENGTH, AT_MAGIC, AT_MAX_TIMESTAMP,
    AT_RECORD_COUNT, BATCH_HEADER_LEN, LENGTH_END, MAGIC,
};
use super::limits::BatchLimits;
use super::{stamp, varint};
use crate::ProducerId;
use bytes::Bytes;

/// Collects records into one batch. The same records give the same bytes.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    compression: Compression,
    producer: Option<(ProducerId, i16, i32)>,
    limits: BatchLimits,
    /// Room for the header, then the encoded records.
    bytes: Vec<u8>,
    record_count: usize,
    header_count: usize,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl BatchBuilder {
    /// `producer`: id (at most `i64::MAX`), epoch and sequence of the first record, none of them negative.
    pub fn new(compression: Compression, producer: Option<(ProducerId, i16, i32)>) -> Self {
        BatchBuilder {
            compression,
            producer,
            limits: BatchLimits::default(),
            bytes: vec![0; BATCH_HEADER_LEN],
            record_count: 0,
            header_count: 0,
            base_timestamp_ms: 0,
            max_timestamp_ms: 0,
        }
    }

    /// Other limits than the default ones.
    #[must_use]
    pub fn limits(mut self, limits: BatchLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Another producer, for a sequence that is known only when the batch is closed.
    #[must_use]
    pub fn producer(mut self, producer: Option<(ProducerId, i16, i32)>) -> Self {
        self.producer = producer;
        self
    }

    /// Adds a record. Errors leave the batch as it was: the record alone is too large, or the batch would be (build this
    /// one and put the record in the next).
    pub fn push(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(String, Bytes)],
    ) -> Result<(), BatchError> {
        let base_timestamp_ms = if self.record_count == 0 { timestamp_ms } else { self.base_timestamp_ms };
        let index = u32::try_from(self.record_count).expect("bounded by the record limit");
        let delta = timestamp_ms
            .checked_sub(base_timestamp_ms)
            .ok_or(BatchError::record(index, "timestamp is more than i64 away from the first record's"))?;
        let body_len = body_len(delta, self.record_count, key, value, headers);
        let record_len = varint::len(body_len as i64) + body_len;
        self.check_room(record_len, headers.len())?;

        let out = &mut self.bytes;
        out.reserve(record_len);
        varint::put(out, body_len as i64);
        out.push(0);
        varint::put(out, delta);
        varint::put(out, self.record_count as i64);
        put_nullable(out, key);
        put_nullable(out, value);
        varint::put(out, headers.len() as i64);
        for (name, content) in headers {
            put_nullable(out, Some(name.as_bytes()));
            put_nullable(out, Some(content));
        }

        let first = self.record_count == 0;
        self.base_timestamp_ms = base_timestamp_ms;
        self.max_timestamp_ms = if first { timestamp_ms } else { self.max_timestamp_ms.max(timestamp_ms) };
        self.record_count += 1;
        self.header_count += headers.len();
        Ok(())
    }

    fn check_room(&self, record_len: usize, headers: usize) -> Result<(), BatchError> {
        let limits = &self.limits;
        BatchError::bound("bytes of the record", record_len, limits.max_record_bytes)?;
        BatchError::bound("records of the batch", self.record_count + 1, limits.max_records)?;
        BatchError::bound("record headers of the batch", self.header_count + headers, limits.max_headers)?;
        let records_len = self.bytes.len() - BATCH_HEADER_LEN + record_len;
        BatchError::bound("bytes of records", records_len, limits.max_uncompressed_bytes)?;
        match self.compression {
            Compression::None => {
                BatchError::bound("bytes of the batch", records_len + BATCH_HEADER_LEN, limits.max_batch_bytes)
            }
            // What it will shrink to is known only when it is built.
            Compression::Lz4 => Ok(()),
        }
    }

    /// Records so far.
    pub fn len(&self) -> usize {
        self.record_count
    }

    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Bytes of the batch so far, header included, before compression: exact without it, about an upper bound with it.
    pub fn approx_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The batch. Errors: no record in it, a producer out of range, or above the batch limit even when compressed.
    pub fn build(self) -> Result<Bytes, BatchError> {
        if self.record_count == 0 {
            return Err(BatchError::Empty);
        }
        let mut batch = match self.compression {
            Compression::None => self.bytes,
            Compression::Lz4 => compress::lz4_into(&self.bytes[BATCH_HEADER_LEN..], vec![0; BATCH_HEADER_LEN])?,
        };
        BatchError::bound("bytes of the batch", batch.len(), self.limits.max_batch_bytes)?;
        let rest_len = i32::try_from(batch.len() - LENGTH_END).map_err(|_| BatchError::TooLarge {
            what: "bytes of the batch",
            actual: batch.len() as u64,
            limit: i32::MAX as u64,
        })?;
        let record_count = i32::try_from(self.record_count).map_err(|_| BatchError::TooLarge {
            what: "records of the batch",
            actual: self.record_count as u64,
            limit: i32::MAX as u64,
        })?;

        let mut put = |at: usize, field: &[u8]| batch[at..at + field.len()].copy_from_slice(field);
        put(AT_LENGTH, &rest_len.to_be_bytes());
        put(AT_LEADER_EPOCH, &(-1i32).to_be_bytes());
        put(AT_MAGIC, &MAGIC.to_be_bytes());
        put(AT_ATTRIBUTES, &u16::from(self.compression.codec()).to_be_bytes());
        put(AT_LAST_OFFSET_DELTA, &(record_count - 1).to_be_bytes());
        put(AT_BASE_TIMESTAMP, &self.base_timestamp_ms.to_be_bytes());
        put(AT_MAX_TIMESTAMP, &self.max_timestamp_ms.to_be_bytes());
        put(AT_RECORD_COUNT, &record_count.to_be_bytes());
        stamp::write_producer(&mut batch, self.producer)?;
        stamp::write_crc(&mut batch);
        Ok(Bytes::from(batch))
    }
}

impl Default for BatchBuilder {
    /// Uncompressed, without a producer.
    fn default() -> Self {
        BatchBuilder::new(Compression::default(), None)
    }
}

/// Bytes of a record after its length field.
fn body_len(
    timestamp_delta: i64,
    offset_delta: usize,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &[(String, Bytes)],
) -> usize {
    let each = |(name, content): &(String, Bytes)| nullable_len(Some(name.as_bytes())) + nullable_len(Some(content));
    1 + varint::len(timestamp_delta)
        + varint::len(offset_delta as i64)
        + nullable_len(key)
        + nullable_len(value)
        + varint::len(headers.len() as i64)
        + headers.iter().map(each).sum::<usize>()
}

fn nullable_len(field: Option<&[u8]>) -> usize {
    field.map_or(varint::len(-1), |bytes| varint::len(bytes.len() as i64) + bytes.len())
}

fn put_nullable(out: &mut Vec<u8>, field: Option<&[u8]>) {
    match field {
        None => varint::put(out, -1),
        Some(bytes) => {
            varint::put(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}
