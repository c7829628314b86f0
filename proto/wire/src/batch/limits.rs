//! What a batch may cost, in bytes and in counts. Every number a stranger's batch can make us spend stands here.

/// Default bound of a whole batch as it travels and is stored. Bytes.
pub const MAX_BATCH_BYTES: usize = 8 << 20;
/// Default bound of a batch's records once decompressed. Bytes.
pub const MAX_UNCOMPRESSED_BYTES: usize = 64 << 20;
/// Default bound of one encoded record. Bytes.
pub const MAX_RECORD_BYTES: usize = 1 << 20;
/// Default bound of the records of one batch: a decoded record costs far more than the 7 bytes it may have on the wire.
pub const MAX_RECORDS_PER_BATCH: usize = 1 << 20;
/// Default bound of the record headers of one batch, all records together, for the same reason.
pub const MAX_HEADERS_PER_BATCH: usize = 1 << 20;

/// The bounds a batch is checked against. `Default` gives the constants of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// The whole batch, compressed. Bytes.
    pub max_batch_bytes: usize,
    /// The records, decompressed. Bytes.
    pub max_uncompressed_bytes: usize,
    /// One encoded record. Bytes.
    pub max_record_bytes: usize,
    /// Records of the batch.
    pub max_records: usize,
    /// Headers of all records of the batch together.
    pub max_headers: usize,
}

impl Default for BatchLimits {
    fn default() -> Self {
        BatchLimits {
            max_batch_bytes: MAX_BATCH_BYTES,
            max_uncompressed_bytes: MAX_UNCOMPRESSED_BYTES,
            max_record_bytes: MAX_RECORD_BYTES,
            max_records: MAX_RECORDS_PER_BATCH,
            max_headers: MAX_HEADERS_PER_BATCH,
        }
    }
}
