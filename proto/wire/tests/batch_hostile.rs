//! Batches that are damaged, cut short or lie. Each is refused by name; none panics.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::{batch_spec, reseal};
use proptest::prelude::*;
use seam_wire::batch::{
    BATCH_HEADER_LEN, BatchBuilder, BatchError, BatchHeader, Compression, MAX_UNCOMPRESSED_BYTES, headers, records,
    split, verify, verify_crc,
};
use seam_wire::{ErrorCode, Offset, ProducerId};

fn check(batch: &[u8]) -> Result<BatchHeader, BatchError> {
    verify(batch, MAX_UNCOMPRESSED_BYTES)
}

fn three(compression: Compression) -> Vec<u8> {
    let mut builder = BatchBuilder::new(compression, Some((ProducerId(1), 0, 0)));
    for i in 0..3 {
        builder.push(1000 + i, Some(b"k"), Some(b"vvvv"), &[("h".to_owned(), Bytes::from_static(b"x"))]).unwrap();
    }
    builder.build().unwrap().to_vec()
}

/// `three`, written over at `at` and with its checksum made true again.
fn tampered(at: usize, field: &[u8]) -> Vec<u8> {
    let mut batch = three(Compression::None);
    batch[at..at + field.len()].copy_from_slice(field);
    reseal(&mut batch);
    batch
}

/// A batch of `count` records that says it holds `section`, with a true checksum.
fn around(section: &[u8], count: i32, codec: u16) -> Vec<u8> {
    let mut batch = three(Compression::None)[..BATCH_HEADER_LEN].to_vec();
    batch.extend_from_slice(section);
    let rest = i32::try_from(batch.len() - 12).unwrap();
    batch[8..12].copy_from_slice(&rest.to_be_bytes());
    batch[21..23].copy_from_slice(&codec.to_be_bytes());
    batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
    batch[57..61].copy_from_slice(&count.to_be_bytes());
    reseal(&mut batch);
    batch
}

#[test]
fn lying_counts_are_refused() {
    // Header against itself.
    for (count, delta) in [(3, 1), (3, 3), (0, -1), (-1, -2), (i32::MIN, i32::MAX), (1, 2)] {
        let mut batch = tampered(57, &i32::to_be_bytes(count));
        batch[23..27].copy_from_slice(&i32::to_be_bytes(delta));
        assert_eq!(
            BatchHeader::parse(&batch),
            Err(BatchError::Counts { record_count: count, last_offset_delta: delta })
        );
    }
    // Header against the records: each is a sound header.
    let section = three(Compression::None)[BATCH_HEADER_LEN..].to_vec();
    let fewer = around(&section, 2, 0);
    BatchHeader::parse(&fewer).unwrap();
    verify_crc(&fewer).unwrap();
    assert!(matches!(check(&fewer), Err(BatchError::TrailingRecordBytes { records: 2, .. })));
    let more = around(&section, 4, 0);
    assert!(matches!(check(&more), Err(BatchError::Record { index: 3, .. })));
    let many = around(&section, 1 << 20, 0);
    assert!(matches!(check(&many), Err(BatchError::Record { index: 3, .. })));
    assert!(matches!(records(&Bytes::from(many)), Err(BatchError::Record { index: 3, .. })));
    let most = around(&section, i32::MAX, 0);
    assert_eq!(check(&most).unwrap_err().code(), ErrorCode::BatchTooLarge);
    assert_eq!(records(&Bytes::from(most)).unwrap_err().code(), ErrorCode::BatchTooLarge);
}

#[test]
fn offsets_that_skip_or_repeat_are_refused() {
    let sound = three(Compression::None);
    let record_len = (sound.len() - BATCH_HEADER_LEN) / 3;
    // length, attributes, timestamp delta, then the offset delta.
    let at = BATCH_HEADER_LEN + record_len + 3;
    assert_eq!(sound[at], 2, "zigzag 1");
    for other in [0u8, 4, 1] {
        assert!(matches!(check(&tampered(at, &[other])), Err(BatchError::Record { index: 1, .. })), "{other}");
    }
}

#[test]
fn each_header_field_is_refused_by_name() {
    assert_eq!(check(&tampered(16, &[1])), Err(BatchError::Magic(1)));
    assert_eq!(check(&tampered(8, &48i32.to_be_bytes())), Err(BatchError::Length(48)));
    assert_eq!(check(&tampered(8, &(-1i32).to_be_bytes())), Err(BatchError::Length(-1)));
    assert!(matches!(check(&tampered(8, &i32::MAX.to_be_bytes())), Err(BatchError::Truncated { .. })));
    for (codec, name) in [(1, "gzip"), (2, "snappy"), (4, "zstd"), (5, "unknown")] {
        assert_eq!(check(&tampered(22, &[codec])), Err(BatchError::UnsupportedCompression { codec, name }));
    }
    let error = check(&tampered(22, &[4])).unwrap_err().to_string();
    assert!(error.contains("zstd") && error.contains("use none or lz4"), "{error}");
    for bit in 3..16 {
        let attributes = 1u16 << bit;
        assert_eq!(check(&tampered(21, &attributes.to_be_bytes())), Err(BatchError::Attributes(attributes)));
    }
    for base in [-1, i64::MIN, i64::MAX, i64::MAX - 2] {
        assert_eq!(
            check(&tampered(0, &base.to_be_bytes())),
            Err(BatchError::Offsets { base_offset: base, records: 3 })
        );
    }
    assert_eq!(check(&tampered(0, &(i64::MAX - 3).to_be_bytes())).unwrap().next_offset(), Offset(i64::MAX as u64));
    for (at, field) in
        [(43, &i64::MIN.to_be_bytes()[..]), (43, &(-2i64).to_be_bytes()), (51, &[0x80, 0]), (53, &[0x80, 0, 0, 0])]
    {
        assert!(matches!(check(&tampered(at, field)), Err(BatchError::Producer { .. })), "{at}");
    }
    assert_eq!(check(&tampered(43, &(-1i64).to_be_bytes())).unwrap().producer, None);
    assert_eq!(
        check(&tampered(35, &2000i64.to_be_bytes())),
        Err(BatchError::MaxTimestamp { stored: 2000, largest: 1002 })
    );
    assert!(matches!(check(&tampered(27, &i64::MAX.to_be_bytes())), Err(BatchError::Record { index: 1, .. })));
}

#[test]
fn headers_of_records_are_checked() {
    let sound = three(Compression::None);
    let end = BATCH_HEADER_LEN + (sound.len() - BATCH_HEADER_LEN) / 3;
    // ... header count (1), key length, 'h', value length, 'x'.
    assert_eq!(sound[end - 5..end], [2, 2, b'h', 2, b'x']);
    let refused =
        |at: usize, byte: u8| matches!(check(&tampered(at, &[byte])), Err(BatchError::Record { index: 0, .. }));
    assert!(refused(end - 5, 1), "count -1");
    assert!(refused(end - 5, 4), "count 2");
    assert!(refused(end - 5, 0), "count 0");
    assert!(refused(end - 4, 1), "null key");
    assert!(refused(end - 3, 0xff), "not UTF-8");
    assert!(refused(end - 2, 4), "value past the record");
    assert!(refused(end - 2, 3), "value length -2");
    assert!(refused(end - 2, 1), "null value, but a byte left over");
}

#[test]
fn a_batch_has_nothing_after_it() {
    let mut batch = three(Compression::None);
    let length = batch.len();
    batch.push(0);
    assert_eq!(check(&batch), Err(BatchError::TrailingBytes { length, extra: 1 }));
    assert_eq!(records(&Bytes::from(batch.clone())), Err(BatchError::TrailingBytes { length, extra: 1 }));
    verify_crc(&batch).unwrap();
}

#[test]
fn lz4_frames_are_whole_alone_and_of_the_supported_kind() {
    let batch = three(Compression::Lz4);
    let frame = &batch[BATCH_HEADER_LEN..];
    let count = 3;
    let refused = |frame: &[u8]| {
        let batch = around(frame, count, 3);
        let error = check(&batch).unwrap_err();
        assert_eq!(records(&Bytes::from(batch)).unwrap_err(), error);
        assert!(matches!(error, BatchError::Decompress(_)), "{error:?}");
        error.to_string()
    };
    for cut in 0..frame.len() {
        refused(&frame[..cut]);
    }
    assert!(refused(&[frame, &[0]].concat()).contains("follow the frame"));
    assert!(refused(&[frame, frame].concat()).contains("follow the frame"));
    let with = |at: usize, byte: u8| {
        let mut changed = frame.to_vec();
        changed[at] = byte;
        changed
    };
    assert!(refused(&with(0, 5)).contains("not an LZ4 frame"));
    assert!(refused(&with(4, frame[4] & !0x20)).contains("linked"));
    assert!(refused(&with(4, frame[4] | 0x01)).contains("dictionary"));
    refused(&with(6, !frame[6]));
    // A block that holds nothing stops the decoder before the end.
    let mut hollow = frame[..7].to_vec();
    hollow.extend_from_slice(&[1, 0, 0, 0, 0]);
    hollow.extend_from_slice(&frame[7..]);
    refused(&hollow);
}

proptest! {
    #[test]
    fn a_flipped_byte_is_seen_or_changes_nothing_but_what_is_outside_the_checksum(
        spec in batch_spec(), at in any::<prop::sample::Index>(), flip in 1u8..,
    ) {
        let mut batch = spec.build().to_vec();
        let before = check(&batch).unwrap();
        let at = at.index(batch.len());
        batch[at] ^= flip;
        match check(&batch) {
            Err(_) => prop_assert!(!(12..16).contains(&at), "the leader epoch is nobody's business"),
            Ok(after) => {
                prop_assert!(at < 8 || (12..16).contains(&at), "byte {} went unseen", at);
                prop_assert_eq!(BatchHeader { base_offset: before.base_offset, ..after }, before);
            }
        }
    }

    #[test]
    fn a_batch_cut_anywhere_is_cut_short(spec in batch_spec()) {
        let batch = spec.build();
        for cut in 0..batch.len() {
            let expected = if cut < BATCH_HEADER_LEN { BATCH_HEADER_LEN } else { batch.len() };
            let error = BatchError::Truncated { need: expected, have: cut };
            prop_assert_eq!(check(&batch[..cut]), Err(error.clone()));
            prop_assert_eq!(verify_crc(&batch[..cut]), Err(error));
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = check(&bytes);
        let bytes = Bytes::from(bytes);
        let _ = records(&bytes);
        prop_assert!(split(bytes.clone()).count() <= 1 + bytes.len() / BATCH_HEADER_LEN);
        prop_assert_eq!(headers(&bytes).count(), split(bytes).count());
    }

    /// Past a true checksum: whatever verifies can be read, and the other way round.
    #[test]
    fn arbitrary_records_do_not_panic(section in prop::collection::vec(any::<u8>(), 0..200), count in 1i32..5, lz4: bool) {
        let batch = around(&section, count, if lz4 { 3 } else { 0 });
        let verified = check(&batch);
        let read = records(&Bytes::from(batch));
        prop_assert_eq!(verified.map(|h| h.record_count as usize), read.map(|r| r.len()));
    }

    /// As above, but near enough to the truth to come far.
    #[test]
    fn nearly_sound_records_do_not_panic(
        spec in batch_spec(), changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut batch = spec.build().to_vec();
        for (at, byte) in changes {
            let at = BATCH_HEADER_LEN + at.index(batch.len() - BATCH_HEADER_LEN);
            batch[at] = byte;
        }
        reseal(&mut batch);
        let verified = check(&batch);
        let read = records(&Bytes::from(batch));
        prop_assert_eq!(verified.map(|h| h.record_count as usize), read.map(|r| r.len()));
    }
}
