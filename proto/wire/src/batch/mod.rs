//! Kafka record batches, format v2: the unit that is produced, replicated, stored and tailed. Not a place for offsets to be
//! decided: servers read the header, stamp the base offset in place and pass the rest on as it came.
//!
//! The header, 61 bytes, big-endian (source of the format: the Apache Kafka protocol documentation, "Record Batch"):
//!
//! | at | field | type | meaning |
//! | --- | --- | --- | --- |
//! | 0 | base offset | i64 | offset of the first record; outside the checksum, so a server stamps it |
//! | 8 | batch length | i32 | bytes after this field; the whole batch is 12 longer |
//! | 12 | leader epoch | i32 | outside the checksum; written -1, ignored when read |
//! | 16 | magic | i8 | 2 |
//! | 17 | crc | u32 | CRC-32C of everything from `attributes` to the end |
//! | 21 | attributes | i16 | low 3 bits compression: 0 none, 3 LZ4 frame; every other bit must be 0, but for the gap entry's (`gap`) |
//! | 23 | last offset delta | i32 | record count - 1 |
//! | 27 | base timestamp | i64 | ms; of the first record |
//! | 35 | max timestamp | i64 | ms; the largest of all records |
//! | 43 | producer id | i64 | -1: none |
//! | 51 | producer epoch | i16 | -1: none |
//! | 53 | base sequence | i32 | -1: none; after `i32::MAX` comes 0 |
//! | 57 | record count | i32 | at least 1 |
//! | 61 | records | | one after the other, compressed as a whole where the attributes say so |
//!
//! A record, all integers zigzag varints:
//!
//! | field | meaning |
//! | --- | --- |
//! | length | bytes of the record after this field |
//! | attributes | one byte, unused |
//! | timestamp delta | 64 bits, from the base timestamp |
//! | offset delta | from the base offset: 0, 1, 2 ... |
//! | key length, key | -1: no key |
//! | value length, value | -1: no value |
//! | header count | then each header: key length, key (UTF-8), value length (-1 is read as empty), value |
//!
//! What we refuse that Kafka knows: gzip, snappy, zstd, transactions, control batches from clients, log-append time, LZ4 frames
//! with linked blocks. What is refused is refused by name.
//!
//! [`verify`] is the check at the door (the router); [`BatchHeader::parse`] and [`verify_crc`] are for those behind it.

mod builder;
mod compress;
mod error;
mod gap;
mod header;
mod limits;
mod reader;
mod split;
mod stamp;
mod varint;

pub use builder::BatchBuilder;
pub use compress::Compression;
pub use error::BatchError;
pub use gap::{GAP_LEN, LOSS_GAP, gap};
pub use header::{BATCH_HEADER_LEN, BatchHeader, sequence_after};
pub use limits::{
    BatchLimits, MAX_BATCH_BYTES, MAX_HEADERS_PER_BATCH, MAX_RECORD_BYTES, MAX_RECORDS_PER_BATCH,
    MAX_UNCOMPRESSED_BYTES,
};
pub use reader::{Record, records, verify, verify_crc, verify_with};
pub use split::{headers, split};
pub use stamp::{stamp_base_offset, stamp_producer, stamped};
