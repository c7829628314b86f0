//! Frames: round trip, golden bytes, and what is refused.
#![allow(clippy::unwrap_used)]

mod common;

use bytes::Bytes;
use common::hex;
use proptest::prelude::*;
use seam_wire::frame::{
    Family, Frame, FrameError, FrameHeader, HEADER_LEN, MAX_META_BYTES, MAX_PAYLOAD_BYTES, Message, decode,
};
use seam_wire::msg::{FromRouter, FromSegd, Peer, TailFrom, ToRouter, ToSegd};
use seam_wire::table::{ProducerEntry, RememberedBatch, TableSnapshot};
use seam_wire::{Epoch, ErrorCode, Offset, ProducerId, RangeId, SegmentId, TraceContext, WireError};

/// Laid out by hand with an independent CRC-32C.
const GOLDEN: &str = "534c0101 03000000 03000000 0700000000000000 0800000000000000 0200000000000000 01
    0102030405060708090a0b0c0d0e0f10 2122232425262728 01 000000000000 74c60eb8 01ac02 706179";

fn golden() -> Frame<ToRouter> {
    let trace_id = u128::from_le_bytes(std::array::from_fn(|i| i as u8 + 1));
    let span_id = u64::from_le_bytes(std::array::from_fn(|i| i as u8 + 0x21));
    Frame::new(ToRouter::Append { seq: 300 })
        .range(RangeId(7))
        .segment(SegmentId(8))
        .epoch(Epoch(2))
        .trace(TraceContext { trace_id, span_id, flags: 1 })
        .payload(Bytes::from_static(b"pay"))
}

#[test]
fn golden_bytes() {
    assert_eq!(golden().encode().unwrap().to_bytes(), hex(GOLDEN));
    assert_eq!(Frame::from_bytes(hex(GOLDEN)), Ok(golden()));
}

/// The header with its checksum made true again, before `body`.
fn resealed(mut header: [u8; HEADER_LEN], body: &[u8]) -> Bytes {
    let crc = crc32c::crc32c_append(crc32c::crc32c(&header[..68]), body);
    header[68..].copy_from_slice(&crc.to_le_bytes());
    Bytes::from([&header, body].concat())
}

fn golden_with(at: usize, field: &[u8]) -> Result<Frame<ToRouter>, FrameError> {
    let bytes = hex(GOLDEN);
    let mut header: [u8; HEADER_LEN] = bytes[..HEADER_LEN].try_into().unwrap();
    header[at..at + field.len()].copy_from_slice(field);
    Frame::from_bytes(resealed(header, &bytes[HEADER_LEN..]))
}

#[test]
fn each_field_is_refused_by_name() {
    assert_eq!(golden_with(0, &[0, 0]), Err(FrameError::Magic(0)));
    assert_eq!(golden_with(2, &[2]), Err(FrameError::Version(2)));
    assert_eq!(golden_with(3, &[0]), Err(FrameError::UnknownFamily(0)));
    assert_eq!(golden_with(3, &[6]), Err(FrameError::UnknownFamily(6)));
    assert_eq!(golden_with(3, &[5]), Err(FrameError::WrongFamily { expected: Family::ToRouter, found: Family::Peer }));
    assert_eq!(golden_with(36, &[3]), Err(FrameError::Reserved(3)));
    assert_eq!(golden_with(36, &[0]), Err(FrameError::Reserved(0)), "a trace without its flag");
    assert_eq!(golden_with(67, &[1]), Err(FrameError::Reserved(1)));
    let meta = (MAX_META_BYTES as u32 + 1).to_le_bytes();
    assert!(matches!(golden_with(4, &meta), Err(FrameError::TooLarge { what: "message", .. })));
    let payload = (MAX_PAYLOAD_BYTES as u32 + 1).to_le_bytes();
    assert!(matches!(golden_with(8, &payload), Err(FrameError::TooLarge { what: "payload", .. })));
    assert_eq!(golden_with(8, &[4]), Err(FrameError::Length { need: 79, have: 78 }));
    // A byte moved from the payload to the message.
    assert_eq!(golden_with(4, &[4, 0, 0, 0, 2]), Err(FrameError::TrailingMeta { extra: 1 }));
    assert!(matches!(golden_with(4, &[2, 0, 0, 0, 4]), Err(FrameError::Message { family: Family::ToRouter, .. })));

    let error = WireError::from(FrameError::Version(2));
    assert_eq!((error.code, error.retryable), (ErrorCode::BadFrame, false));
}

#[test]
fn limits_hold_when_writing() {
    let at_limit = Frame::new(Peer::Open).payload(Bytes::from(vec![0; MAX_PAYLOAD_BYTES])).encode().unwrap();
    assert_eq!(Frame::<Peer>::from_bytes(at_limit.to_bytes()).unwrap().payload.len(), MAX_PAYLOAD_BYTES);
    let above = Frame::new(Peer::Open).payload(Bytes::from(vec![0; MAX_PAYLOAD_BYTES + 1]));
    assert!(matches!(above.encode(), Err(FrameError::TooLarge { what: "payload", .. })));
    let topic = "t".repeat(MAX_META_BYTES);
    let above = Frame::new(ToRouter::ProduceOpen { topic, range_index: 0 });
    assert!(matches!(above.encode(), Err(FrameError::TooLarge { what: "message", .. })));
}

#[test]
fn the_payload_is_never_copied() {
    let frame = golden().payload(Bytes::from(vec![7; 1000]));
    let encoded = frame.encode().unwrap();
    assert_eq!(encoded.payload.as_ptr(), frame.payload.as_ptr());
    let wire = encoded.to_bytes();
    let range = wire.as_ptr_range();
    let read = Frame::<ToRouter>::from_bytes(wire).unwrap();
    assert!(range.contains(&read.payload.as_ptr()));
}

fn check_round_trip<M: Message + Clone + PartialEq + std::fmt::Debug>(
    frame: Frame<M>,
    at: prop::sample::Index,
    flip: u8,
) -> Result<(), TestCaseError> {
    let encoded = frame.encode().unwrap();
    let wire = encoded.to_bytes();
    prop_assert_eq!(encoded.len(), wire.len());
    let header_bytes: [u8; HEADER_LEN] = wire[..HEADER_LEN].try_into().unwrap();
    let header = FrameHeader::parse(&header_bytes).unwrap();
    prop_assert_eq!(header.family, M::FAMILY);
    prop_assert_eq!(HEADER_LEN + header.body_len(), wire.len());
    prop_assert_eq!(&decode::<M>(&header, &header_bytes, wire.slice(HEADER_LEN..)), &Ok(frame));

    for cut in 0..wire.len() {
        let error = FrameError::Length { need: if cut < HEADER_LEN { HEADER_LEN } else { wire.len() }, have: cut };
        prop_assert_eq!(Frame::<M>::from_bytes(wire.slice(..cut)), Err(error));
    }
    let mut flipped = wire.to_vec();
    flipped[at.index(wire.len())] ^= flip;
    prop_assert!(Frame::<M>::from_bytes(Bytes::from(flipped)).is_err());
    let longer = [&wire[..], &[0]].concat();
    let error = FrameError::Length { need: wire.len(), have: longer.len() };
    prop_assert_eq!(Frame::<M>::from_bytes(Bytes::from(longer)), Err(error));
    Ok(())
}

fn table() -> impl Strategy<Value = TableSnapshot> {
    let batch = (any::<i32>(), any::<i32>(), any::<u64>()).prop_map(|(base_sequence, last_sequence, base)| {
        RememberedBatch { base_sequence, last_sequence, base_offset: Offset(base) }
    });
    let entry = (any::<u64>(), any::<i16>(), prop::collection::vec(batch, 0..5))
        .prop_map(|(id, epoch, batches)| ProducerEntry { id: ProducerId(id), epoch, batches });
    prop::collection::vec(entry, 0..5).prop_map(|entries| TableSnapshot { entries })
}

/// An address, a trace or none, and a payload for `msg`.
fn addressed<M>(msg: M) -> impl Strategy<Value = Frame<M>>
where
    M: Clone + std::fmt::Debug,
{
    let trace = prop::option::of((any::<u128>(), any::<u64>(), any::<u8>()));
    (any::<u64>(), any::<u64>(), any::<u64>(), trace, prop::collection::vec(any::<u8>(), 0..100)).prop_map(
        move |(range, segment, epoch, trace, payload)| {
            Frame::new(msg.clone())
                .range(RangeId(range))
                .segment(SegmentId(segment))
                .epoch(Epoch(epoch))
                .trace(trace.map(|(trace_id, span_id, flags)| TraceContext { trace_id, span_id, flags }))
                .payload(Bytes::from(payload))
        },
    )
}

fn to_router() -> impl Strategy<Value = ToRouter> {
    (".{0,20}", any::<u32>(), any::<u64>(), any::<bool>()).prop_flat_map(|(topic, range_index, n, follow)| {
        prop::sample::select(vec![
            ToRouter::ProduceOpen { topic: topic.clone(), range_index },
            ToRouter::Append { seq: n },
            ToRouter::TailOpen { topic: topic.clone(), range_index, from: TailFrom::Offset(Offset(n)), follow },
            ToRouter::Offsets { topic, range_index },
        ])
    })
}

fn from_router() -> impl Strategy<Value = FromRouter> {
    (".{0,20}", any::<u64>()).prop_flat_map(|(detail, n)| {
        prop::sample::select(vec![
            FromRouter::AppendAck { seq: n, base_offset: Offset(!n) },
            FromRouter::AppendError { seq: n, error: WireError::retry(ErrorCode::Overloaded, detail) },
            FromRouter::Records { next: Offset(n) },
        ])
    })
}

fn to_segd() -> impl Strategy<Value = ToSegd> {
    prop::option::of(any::<u64>()).prop_flat_map(|n| {
        prop::sample::select(vec![
            ToSegd::AppendOpen,
            ToSegd::Append { seq: n.unwrap_or(0) },
            ToSegd::TailOpen { from: n.map(Offset), until: None },
            ToSegd::Committed,
        ])
    })
}

fn from_segd() -> impl Strategy<Value = FromSegd> {
    (any::<u64>(), prop::option::of(any::<u64>())).prop_flat_map(|(n, maybe)| {
        prop::sample::select(vec![
            FromSegd::Moved { next: SegmentId(n), start: Offset(!n), accepted_through: maybe },
            FromSegd::End { end: Offset(n), next: SegmentId(n / 2) },
            FromSegd::Committed { start: maybe.map(Offset), committed: Offset(n), end: None },
        ])
    })
}

fn peer() -> impl Strategy<Value = Peer> {
    (any::<u64>(), table()).prop_flat_map(|(n, snapshot)| {
        prop::sample::select(vec![
            Peer::Open,
            Peer::Ping { nonce: n },
            Peer::Stored { epoch: Epoch(n), durable_end: Offset(n), sealed: true },
            Peer::Table { prior: SegmentId(3), end: Offset(9), snapshot },
        ])
    })
}

proptest! {
    #[test]
    fn to_router_frames(f in to_router().prop_flat_map(addressed), at: prop::sample::Index, flip in 1u8..) {
        check_round_trip(f, at, flip)?;
    }

    #[test]
    fn from_router_frames(f in from_router().prop_flat_map(addressed), at: prop::sample::Index, flip in 1u8..) {
        check_round_trip(f, at, flip)?;
    }

    #[test]
    fn to_segd_frames(f in to_segd().prop_flat_map(addressed), at: prop::sample::Index, flip in 1u8..) {
        check_round_trip(f, at, flip)?;
    }

    #[test]
    fn from_segd_frames(f in from_segd().prop_flat_map(addressed), at: prop::sample::Index, flip in 1u8..) {
        check_round_trip(f, at, flip)?;
    }

    #[test]
    fn peer_frames(f in peer().prop_flat_map(addressed), at: prop::sample::Index, flip in 1u8..) {
        check_round_trip(f, at, flip)?;
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Frame::<Peer>::from_bytes(Bytes::from(bytes)).is_err());
    }

    /// Past a true header and checksum: whatever the message bytes are, they decode or are refused.
    #[test]
    fn arbitrary_messages_do_not_panic(meta in prop::collection::vec(any::<u8>(), 0..100)) {
        let mut header: [u8; HEADER_LEN] = Frame::new(Peer::Open).encode().unwrap().head[..HEADER_LEN].try_into().unwrap();
        header[4..8].copy_from_slice(&(meta.len() as u32).to_le_bytes());
        match Frame::<Peer>::from_bytes(resealed(header, &meta)) {
            Ok(frame) => prop_assert_eq!(Frame::from_bytes(frame.encode().unwrap().to_bytes()), Ok(frame)),
            Err(error) => {
                prop_assert!(matches!(error, FrameError::Message { .. } | FrameError::TrailingMeta { .. }), "{:?}", error);
            }
        }
    }
}
