//! Batches: what goes in comes out, in the bytes that other implementations of the format write.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{BatchSpec, batch_spec, hex};
use proptest::prelude::*;
use seam_wire::batch::{
    BATCH_HEADER_LEN, BatchBuilder, BatchError, BatchHeader, BatchLimits, Compression, GAP_LEN, LOSS_GAP,
    MAX_UNCOMPRESSED_BYTES, gap, headers, records, sequence_after, split, stamp_base_offset, stamp_producer, stamped,
    verify, verify_crc, verify_with,
};
use seam_wire::{ErrorCode, Offset, ProducerId, WireError};

/// Written by kafka-python 2.x (`DefaultRecordBatchBuilder`), but for the leader epoch, which it leaves 0 and we set to -1
/// as the format asks of a client. It is outside the checksum.
const GOLDEN: &str = "00000000000000000000005dffffffff02b4a162c40000000000020000018bcfe568000000018bcfe568050102030405060708\
    00097ffffffe0000000324000000066b65790a76616c7565020268027810000a0201047632001e000104000104026100046262047979";

/// Written by kafka-python with liblz4: three times the same value, without a producer.
const GOLDEN_LZ4: &str = "0000000000000000000000730000000002e2ea7a290003000000020000018bcfe568000000018bcfe56802ffffffffffffffff\
    ffffffffffff0000000304224d186840fb01000000000000c12b000000ff01ce0200000001c0027365616d6c6f67200800856f00ce02000202a9\
    00942f0404a9008c506c6f67200000000000";

const PRODUCER: (ProducerId, i16, i32) = (ProducerId(0x0102_0304_0506_0708), 9, i32::MAX - 1);

fn golden_builder() -> BatchBuilder {
    let mut builder = BatchBuilder::new(Compression::None, Some(PRODUCER));
    let header = |name: &str, value: &'static [u8]| (name.to_owned(), Bytes::from_static(value));
    builder.push(1_700_000_000_000, Some(b"key"), Some(b"value"), &[header("h", b"x")]).unwrap();
    builder.push(1_700_000_000_005, None, Some(b"v2"), &[]).unwrap();
    builder.push(1_699_999_999_999, Some(b""), None, &[header("a", b""), header("bb", b"yy")]).unwrap();
    builder
}

#[test]
fn writes_the_bytes_another_implementation_writes() {
    let builder = golden_builder();
    let approx = builder.approx_bytes();
    let batch = builder.build().unwrap();
    assert_eq!(batch, hex(GOLDEN));
    assert_eq!(approx, batch.len());
}

#[test]
fn reads_the_bytes_another_implementation_writes() {
    let header = verify(&hex(GOLDEN), MAX_UNCOMPRESSED_BYTES).unwrap();
    assert_eq!(
        header,
        BatchHeader {
            base_offset: Offset(0),
            length: 105,
            crc: 0xb4a1_62c4,
            compression: Compression::None,
            last_offset_delta: 2,
            base_timestamp_ms: 1_700_000_000_000,
            max_timestamp_ms: 1_700_000_000_005,
            producer: Some(PRODUCER),
            record_count: 3,
            gap: None,
        }
    );
    assert_eq!(header.next_offset(), Offset(3));
    assert_eq!(header.last_sequence(), Some(0), "MAX - 1, MAX, 0");
    assert_eq!(header.next_sequence(), Some(1));

    let lz4 = hex(GOLDEN_LZ4);
    assert_eq!(verify(&lz4, MAX_UNCOMPRESSED_BYTES).unwrap().compression, Compression::Lz4);
    let read = records(&lz4).unwrap();
    assert_eq!(read.len(), 3);
    for (i, record) in read.iter().enumerate() {
        assert_eq!((record.offset, record.timestamp_ms), (Offset(i as u64), 1_700_000_000_000 + i as i64));
        assert_eq!(record.value.as_deref(), Some("seamlog ".repeat(20).as_bytes()));
        assert_eq!((record.key.clone(), record.headers.len()), (None, 0));
    }
}

#[test]
fn sequences_wrap_to_zero() {
    assert_eq!(sequence_after(0, 0), 0);
    assert_eq!(sequence_after(i32::MAX, 1), 0);
    assert_eq!(sequence_after(i32::MAX - 2, 2), i32::MAX);
    assert_eq!(sequence_after(i32::MAX, i32::MAX as u32), i32::MAX - 1);
}

#[test]
fn stamping_the_offset_keeps_the_checksum_true() {
    let batch = golden_builder().build().unwrap();
    let shared = batch.clone();
    let at = stamped(batch, Offset(1 << 40)).unwrap();
    assert_eq!(verify(&at, MAX_UNCOMPRESSED_BYTES).unwrap().next_offset(), Offset((1 << 40) + 3));
    assert_eq!(records(&at).unwrap()[2].offset, Offset((1 << 40) + 2));
    assert_eq!(BatchHeader::parse(&shared).unwrap().base_offset, Offset(0), "shared bytes are not written to");

    let alone = at.as_ptr();
    drop(shared);
    assert_eq!(stamped(at, Offset(5)).unwrap().as_ptr(), alone, "unshared bytes are stamped in place");

    let mut own = golden_builder().build().unwrap().to_vec();
    let before = own.clone();
    for too_far in [u64::MAX, i64::MAX as u64 - 2, 1 << 63] {
        assert!(matches!(stamp_base_offset(&mut own, Offset(too_far)), Err(BatchError::Offsets { .. })), "{too_far}");
    }
    assert_eq!(own, before);
    stamp_base_offset(&mut own, Offset(i64::MAX as u64 - 3)).unwrap();
}

#[test]
fn a_new_producer_makes_a_new_checksum() {
    let mut batch = golden_builder().build().unwrap().to_vec();
    stamp_producer(&mut batch, (ProducerId(7), 1, 0)).unwrap();
    assert_eq!(verify(&batch, MAX_UNCOMPRESSED_BYTES).unwrap().producer, Some((ProducerId(7), 1, 0)));
    let before = batch.clone();
    for bad in [(ProducerId(1 << 63), 0, 0), (ProducerId(1), -1, 0), (ProducerId(1), 0, -1)] {
        assert!(matches!(stamp_producer(&mut batch, bad), Err(BatchError::Producer { .. })));
        let mut builder = BatchBuilder::new(Compression::None, Some(bad));
        builder.push(0, None, None, &[]).unwrap();
        assert!(matches!(builder.build(), Err(BatchError::Producer { .. })));
    }
    assert_eq!(batch, before);
}

#[test]
fn the_builder_keeps_its_limits_and_stays_usable() {
    assert_eq!(BatchBuilder::default().build(), Err(BatchError::Empty));

    let limits = BatchLimits { max_record_bytes: 100, max_batch_bytes: 200, max_records: 3, ..BatchLimits::default() };
    let mut builder = BatchBuilder::default().limits(limits);
    builder.push(0, None, Some(&[1; 80]), &[]).unwrap();
    let before = builder.approx_bytes();
    let error = builder.push(0, None, Some(&[1; 94]), &[]).unwrap_err();
    assert_eq!(error.code(), ErrorCode::BatchTooLarge, "record");
    assert_eq!(builder.push(0, None, Some(&[1; 70]), &[]).unwrap_err().code(), ErrorCode::BatchTooLarge, "batch");
    builder.push(0, None, None, &[]).unwrap();
    builder.push(0, None, None, &[]).unwrap();
    assert_eq!(builder.push(0, None, None, &[]).unwrap_err().code(), ErrorCode::BatchTooLarge, "count");
    assert_eq!((builder.len(), builder.approx_bytes()), (3, before + 14));
    verify_with(&builder.build().unwrap(), &limits).unwrap();

    let mut far = BatchBuilder::default();
    far.push(i64::MIN, None, None, &[]).unwrap();
    assert!(matches!(far.push(1, None, None, &[]), Err(BatchError::Record { index: 1, .. })));
}

#[test]
fn limits_refuse_what_is_above_them_and_pass_what_meets_them() {
    let batch = golden_builder().build().unwrap();
    let exact = BatchLimits {
        max_batch_bytes: batch.len(),
        max_uncompressed_bytes: batch.len() - BATCH_HEADER_LEN,
        max_record_bytes: 19,
        max_records: 3,
        max_headers: 3,
    };
    verify_with(&batch, &exact).unwrap();
    for below in [
        BatchLimits { max_batch_bytes: exact.max_batch_bytes - 1, ..exact },
        BatchLimits { max_uncompressed_bytes: exact.max_uncompressed_bytes - 1, ..exact },
        BatchLimits { max_record_bytes: exact.max_record_bytes - 1, ..exact },
        BatchLimits { max_records: exact.max_records - 1, ..exact },
        BatchLimits { max_headers: exact.max_headers - 1, ..exact },
    ] {
        let error = WireError::from(verify_with(&batch, &below).unwrap_err());
        assert_eq!(error.code, ErrorCode::BatchTooLarge, "{below:?}");
        assert!(!error.retryable);
    }
}

#[test]
fn uncompressed_records_share_the_batch_and_its_memory() {
    let batch = golden_builder().build().unwrap();
    let range = batch.as_ptr_range();
    for record in records(&batch).unwrap() {
        for part in record.value.iter().filter(|part| !part.is_empty()) {
            assert!(range.contains(&part.as_ptr()));
        }
    }
}

#[test]
fn a_split_ends_at_the_first_fault() {
    let batch = golden_builder().build().unwrap();
    let mut two = batch.to_vec();
    two.extend_from_slice(&batch);
    two.extend_from_slice(&batch[..70]);
    let parts: Vec<_> = split(Bytes::from(two)).collect();
    assert_eq!(parts.len(), 3);
    assert_eq!(parts[..2], [Ok(batch.clone()), Ok(batch)]);
    assert_eq!(parts[2], Err(BatchError::Truncated { need: 105, have: 70 }));
    assert_eq!(split(Bytes::new()).count(), 0);
}

fn check_round_trip(spec: &BatchSpec) -> Result<(), TestCaseError> {
    let batch = spec.build();
    prop_assert_eq!(&batch, &spec.build(), "deterministic");
    prop_assert_eq!(&Ok(()), &verify_crc(&batch));
    let header = verify(&batch, MAX_UNCOMPRESSED_BYTES).unwrap();
    prop_assert_eq!(header, BatchHeader::parse(&batch).unwrap());
    prop_assert_eq!(header.compression, spec.compression);
    prop_assert_eq!(header.producer, spec.producer);
    prop_assert_eq!(header.record_count as usize, spec.records.len());
    let read = records(&stamped(batch, spec.base_offset).unwrap()).unwrap();
    prop_assert_eq!(read, spec.expected());
    Ok(())
}

proptest! {
    #[test]
    fn what_goes_in_comes_out(spec in batch_spec()) {
        check_round_trip(&spec)?;
    }

    #[test]
    fn batches_back_to_back_come_apart(specs in prop::collection::vec(batch_spec(), 0..5)) {
        let batches: Vec<Bytes> = specs.iter().map(BatchSpec::build).collect();
        let joined = Bytes::from(batches.concat());
        let range = joined.as_ptr_range();
        let heads: Vec<_> = headers(&joined).collect::<Result<_, _>>().unwrap();
        prop_assert_eq!(heads, batches.iter().map(|b| BatchHeader::parse(b).unwrap()).collect::<Vec<_>>());
        let parts: Vec<Bytes> = split(joined).collect::<Result<_, _>>().unwrap();
        prop_assert!(parts.iter().all(|part| range.contains(&part.as_ptr())), "no copy");
        prop_assert_eq!(parts, batches);
    }
}

#[test]
fn a_gap_entry_takes_offsets_and_holds_nothing() {
    let entry = gap(Offset(7), LOSS_GAP).unwrap();
    assert_eq!(entry.len(), GAP_LEN);
    let header = BatchHeader::parse(&entry).unwrap();
    assert_eq!((header.base_offset, header.record_count, header.gap), (Offset(7), 0, Some(LOSS_GAP)));
    assert_eq!((header.next_offset(), header.producer), (Offset(7 + LOSS_GAP), None));
    verify_crc(&entry).unwrap();
    // Whoever expects records, as the door does, refuses it.
    assert_eq!(verify(&entry, 1 << 20), Err(BatchError::Attributes(0x20)));
    assert_eq!(records(&entry), Err(BatchError::Attributes(0x20)));
    assert!(matches!(gap(Offset(0), 0), Err(BatchError::Gap { .. })));
    assert!(matches!(gap(Offset(1 << 62), 1 << 62), Err(BatchError::Gap { .. })));
    for at in 17..entry.len() {
        let mut damaged = entry.to_vec();
        damaged[at] ^= 1;
        assert!(verify_crc(&damaged).is_err(), "byte {at}");
    }
}
