//! Envelopes: round trip, golden bytes, and each kind of damage by name.
#![allow(clippy::unwrap_used)]

mod common;

use common::hex;
use proptest::prelude::*;
use seam_wire::envelope::{
    ENVELOPE_HEADER_LEN, Envelope, EnvelopeError, EnvelopeKind, MAX_ENVELOPE_BODY_BYTES, decode, encode,
};
use seam_wire::{Epoch, Offset, SegmentId};

/// Laid out by hand with an independent CRC-32C.
const GOLDEN: &str =
    "53454745 01 01 0000 0500000000000000 0600000000000000 0700000000000000 04000000 50c93f26 abb2431c 626f6479";

fn golden() -> Envelope {
    Envelope { segment: SegmentId(5), base_offset: Offset(6), epoch: Epoch(7), kind: EnvelopeKind::Batch }
}

fn encoded(envelope: &Envelope, body: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(envelope, body, &mut out).unwrap();
    out
}

#[test]
fn golden_bytes() {
    let bytes = encoded(&golden(), b"body");
    assert_eq!(bytes, hex(GOLDEN));
    assert_eq!(decode(&bytes), Ok((golden(), 44..48, 48)));
    assert_eq!(golden().header_for(b"body").unwrap(), bytes[..ENVELOPE_HEADER_LEN]);
}

/// The golden envelope, written over at `at`, its header checksum made true again.
fn golden_with(at: usize, field: &[u8]) -> Result<(Envelope, std::ops::Range<usize>, usize), EnvelopeError> {
    let mut bytes = encoded(&golden(), b"body");
    bytes[at..at + field.len()].copy_from_slice(field);
    let crc = crc32c::crc32c(&bytes[..40]);
    bytes[40..44].copy_from_slice(&crc.to_le_bytes());
    decode(&bytes)
}

#[test]
fn each_damage_has_its_name() {
    assert_eq!(decode(&[]), Err(EnvelopeError::Truncated { need: 44, have: 0 }));
    assert_eq!(decode(&[0; 4096]), Err(EnvelopeError::BadMagic(0)));
    assert_eq!(decode(&[0; 10]), Err(EnvelopeError::BadMagic(0)), "the zeroed end of a file is not a torn entry");
    let unknown = |version, kind, reserved| Err(EnvelopeError::Unknown { version, kind, reserved });
    assert_eq!(golden_with(4, &[2]), unknown(2, 1, 0));
    assert_eq!(golden_with(5, &[0]), unknown(1, 0, 0));
    assert_eq!(golden_with(5, &[10]), unknown(1, 10, 0));
    assert_eq!(golden_with(6, &[1, 0]), unknown(1, 1, 1));
    assert_eq!(golden_with(32, &[5]), Err(EnvelopeError::Truncated { need: 49, have: 48 }));
    assert!(matches!(golden_with(32, &[3]), Err(EnvelopeError::BadBodyChecksum { .. })));
    assert!(matches!(golden_with(36, &[0]), Err(EnvelopeError::BadBodyChecksum { .. })));
    let limit = MAX_ENVELOPE_BODY_BYTES as u64;
    let above = (MAX_ENVELOPE_BODY_BYTES as u32 + 1).to_le_bytes();
    assert_eq!(golden_with(32, &above), Err(EnvelopeError::TooLarge { len: limit + 1, limit }));
    let mut out = Vec::new();
    let error = encode(&golden(), &vec![0; MAX_ENVELOPE_BODY_BYTES + 1], &mut out);
    assert_eq!((error, out.len()), (Err(EnvelopeError::TooLarge { len: limit + 1, limit }), 0));
}

#[test]
fn an_envelope_of_another_segment_is_seen() {
    assert_eq!(golden().expect(SegmentId(5)), Ok(()));
    let error = EnvelopeError::WrongSegment { expected: SegmentId(4), found: SegmentId(5) };
    assert_eq!(golden().expect(SegmentId(4)), Err(error));
}

fn any_kind() -> impl Strategy<Value = EnvelopeKind> {
    prop::sample::select(vec![
        EnvelopeKind::Batch,
        EnvelopeKind::Seal,
        EnvelopeKind::Header,
        EnvelopeKind::Fence,
        EnvelopeKind::Decided,
        EnvelopeKind::Begun,
        EnvelopeKind::Truncate,
        EnvelopeKind::Reclaimed,
        EnvelopeKind::Journal,
    ])
}

proptest! {
    #[test]
    fn what_goes_in_comes_out_and_damage_does_not(
        (segment, base, epoch) in any::<(u64, u64, u64)>(), kind in any_kind(),
        body in prop::collection::vec(any::<u8>(), 0..200), after in prop::collection::vec(any::<u8>(), 0..50),
        at: prop::sample::Index, flip in 1u8..,
    ) {
        let envelope = Envelope { segment: SegmentId(segment), base_offset: Offset(base), epoch: Epoch(epoch), kind };
        let mut bytes = encoded(&envelope, &body);
        let total = bytes.len();
        for cut in 0..total {
            let need = if cut < ENVELOPE_HEADER_LEN { ENVELOPE_HEADER_LEN } else { total };
            prop_assert_eq!(decode(&bytes[..cut]), Err(EnvelopeError::Truncated { need, have: cut }));
        }
        bytes.extend_from_slice(&after);
        let (read, range, length) = decode(&bytes).unwrap();
        prop_assert_eq!((read, &bytes[range], length), (envelope, &body[..], total));

        let at = at.index(total);
        bytes[at] ^= flip;
        let error = decode(&bytes).unwrap_err();
        match at {
            0..4 => prop_assert!(matches!(error, EnvelopeError::BadMagic(_))),
            4..ENVELOPE_HEADER_LEN => {
                let named = matches!(error, EnvelopeError::BadHeaderChecksum { .. });
                prop_assert!(named, "{:?}", error);
            }
            _ => {
                let named = matches!(error, EnvelopeError::BadBodyChecksum { .. });
                prop_assert!(named, "{:?}", error);
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
    }
}
