//! Batches to test with: drawn at random, together with the records they must be read as.
#![allow(clippy::unwrap_used, dead_code)]

use bytes::Bytes;
use proptest::prelude::*;
use seam_wire::batch::{BatchBuilder, Compression, Record};
use seam_wire::{Offset, ProducerId};

pub type Headers = Vec<(String, Bytes)>;
pub type RecordSpec = (i64, Option<Vec<u8>>, Option<Vec<u8>>, Headers);

#[derive(Clone, Debug)]
pub struct BatchSpec {
    pub compression: Compression,
    pub producer: Option<(ProducerId, i16, i32)>,
    pub base_offset: Offset,
    pub records: Vec<RecordSpec>,
}

impl BatchSpec {
    pub fn build(&self) -> Bytes {
        let mut builder = BatchBuilder::new(self.compression, self.producer);
        for (timestamp_ms, key, value, headers) in &self.records {
            builder.push(*timestamp_ms, key.as_deref(), value.as_deref(), headers).unwrap();
        }
        builder.build().unwrap()
    }

    pub fn expected(&self) -> Vec<Record> {
        let record = |(i, (timestamp_ms, key, value, headers)): (usize, &RecordSpec)| Record {
            offset: self.base_offset.plus(i as u64),
            timestamp_ms: *timestamp_ms,
            key: key.clone().map(Bytes::from),
            value: value.clone().map(Bytes::from),
            headers: headers.clone(),
        };
        self.records.iter().enumerate().map(record).collect()
    }
}

/// Some bytes or none; now and then long and repetitive, so that lengths need more than one byte and LZ4 has work.
fn content() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        Just(None),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Some),
        (any::<u8>(), 0usize..5000).prop_map(|(byte, len)| Some(vec![byte; len])),
    ]
}

fn record_headers() -> impl Strategy<Value = Headers> {
    prop::collection::vec(("[a-zé]{0,5}", prop::collection::vec(any::<u8>(), 0..9).prop_map(Bytes::from)), 0..3)
}

pub fn batch_spec() -> impl Strategy<Value = BatchSpec> {
    // Half the range each way: a delta must fit i64.
    let timestamp = prop_oneof![1_700_000_000_000i64..1_700_000_100_000, i64::MIN / 2..i64::MAX / 2];
    (
        prop_oneof![Just(Compression::None), Just(Compression::Lz4)],
        prop::option::of((0..=i64::MAX as u64, 0..=i16::MAX, 0..=i32::MAX)),
        prop_oneof![0u64..1000, Just(i64::MAX as u64 - 100)],
        prop::collection::vec((timestamp, content(), content(), record_headers()), 1..20),
    )
        .prop_map(|(compression, producer, base_offset, records)| BatchSpec {
            compression,
            producer: producer.map(|(id, epoch, sequence)| (ProducerId(id), epoch, sequence)),
            base_offset: Offset(base_offset),
            records,
        })
}

/// Bytes from hex digits; anything else is skipped.
pub fn hex(digits: &str) -> Bytes {
    let nibbles: Vec<u8> = digits.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    nibbles.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

/// Makes the checksum of a tampered batch true again, so that what lies behind it is reached.
pub fn reseal(batch: &mut [u8]) {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}
