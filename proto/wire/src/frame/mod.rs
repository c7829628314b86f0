//! Frames: how a message of [`crate::msg`] and its payload travel on a QUIC stream. Not the stream itself: reading and
//! writing bytes is the transport's.
//!
//! A header of 72 bytes, little-endian, then the message in postcard, then the payload as it is:
//!
//! | at | field | type | meaning |
//! | --- | --- | --- | --- |
//! | 0 | magic | u16 | `0x4C53`, "SL" on the wire |
//! | 2 | version | u8 | 1 |
//! | 3 | family | u8 | see [`Family`] |
//! | 4 | meta length | u32 | bytes of the message, at most [`MAX_META_BYTES`] |
//! | 8 | payload length | u32 | bytes, at most [`MAX_PAYLOAD_BYTES`] |
//! | 12 | range | u64 | 0 where it does not matter |
//! | 20 | segment | u64 | 0 where it does not matter |
//! | 28 | epoch | u64 | the sender's epoch of the segment, 0 for a primary |
//! | 36 | flags | u8 | bit 0: a trace is present; the others are 0 |
//! | 37 | trace | 25 bytes | trace id u128, span id u64, flags u8; zeroes without a trace |
//! | 62 | padding | 6 bytes | zeroes |
//! | 68 | crc | u32 | CRC-32C of the 68 bytes before, the message and the payload |
//!
//! A reader takes the header first, knows from it what the rest costs, and refuses it before anything is allocated.
//! After an error the stream is of no more use: where the next frame starts is unknown.

mod error;
mod header;

pub use error::FrameError;
pub use header::{Family, FrameHeader, HEADER_LEN, MAX_META_BYTES, MAX_PAYLOAD_BYTES};

use crate::msg::{FromRouter, FromSegd, Peer, ToRouter, ToSegd};
use crate::{Epoch, RangeId, SegmentId, TraceContext};
use bytes::{Bytes, BytesMut};
use header::{AT_CRC, check_lengths};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A message that travels in frames: one enum per family.
pub trait Message: Serialize + DeserializeOwned {
    const FAMILY: Family;
}

impl Message for ToRouter {
    const FAMILY: Family = Family::ToRouter;
}
impl Message for FromRouter {
    const FAMILY: Family = Family::FromRouter;
}
impl Message for ToSegd {
    const FAMILY: Family = Family::ToSegd;
}
impl Message for FromSegd {
    const FAMILY: Family = Family::FromSegd;
}
impl Message for Peer {
    const FAMILY: Family = Family::Peer;
}

/// A message with its address, trace and payload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frame<M> {
    pub range: RangeId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub trace: Option<TraceContext>,
    pub msg: M,
    /// Opaque here; whose it is, the message says.
    pub payload: Bytes,
}

/// A frame ready to be written: `head`, then `payload`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedFrame {
    /// Header and message.
    pub head: Bytes,
    /// The frame's payload, not a copy.
    pub payload: Bytes,
}

impl EncodedFrame {
    /// Bytes of both parts.
    pub fn len(&self) -> usize {
        self.head.len() + self.payload.len()
    }

    /// Never: a frame has a header.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Both parts in one buffer; copies the payload.
    pub fn to_bytes(&self) -> Bytes {
        let mut out = BytesMut::with_capacity(self.len());
        out.extend_from_slice(&self.head);
        out.extend_from_slice(&self.payload);
        out.freeze()
    }
}

impl<M> Frame<M> {
    /// A frame without address, trace and payload.
    pub fn new(msg: M) -> Self {
        Frame {
            range: RangeId::default(),
            segment: SegmentId::default(),
            epoch: Epoch::default(),
            trace: None,
            msg,
            payload: Bytes::new(),
        }
    }

    #[must_use]
    pub fn range(mut self, range: RangeId) -> Self {
        self.range = range;
        self
    }

    #[must_use]
    pub fn segment(mut self, segment: SegmentId) -> Self {
        self.segment = segment;
        self
    }

    #[must_use]
    pub fn epoch(mut self, epoch: Epoch) -> Self {
        self.epoch = epoch;
        self
    }

    #[must_use]
    pub fn trace(mut self, trace: impl Into<Option<TraceContext>>) -> Self {
        self.trace = trace.into();
        self
    }

    #[must_use]
    pub fn payload(mut self, payload: Bytes) -> Self {
        self.payload = payload;
        self
    }
}

impl<M: Message> Frame<M> {
    /// Errors only when message or payload are above their limits.
    pub fn encode(&self) -> Result<EncodedFrame, FrameError> {
        let mut head = postcard::to_extend(&self.msg, vec![0; HEADER_LEN])
            .map_err(|e| FrameError::Message { family: M::FAMILY, fault: e.to_string() })?;
        let (meta_len, payload_len) = check_lengths((head.len() - HEADER_LEN) as u64, self.payload.len() as u64)?;
        let mut header = FrameHeader {
            family: M::FAMILY,
            meta_len,
            payload_len,
            range: self.range,
            segment: self.segment,
            epoch: self.epoch,
            trace: self.trace,
            crc: 0,
        };
        head[..HEADER_LEN].copy_from_slice(&header.to_bytes());
        let crc = crc32c::crc32c(&head[..AT_CRC]);
        let crc = crc32c::crc32c_append(crc, &head[HEADER_LEN..]);
        header.crc = crc32c::crc32c_append(crc, &self.payload);
        head[AT_CRC..HEADER_LEN].copy_from_slice(&header.crc.to_le_bytes());
        Ok(EncodedFrame { head: Bytes::from(head), payload: self.payload.clone() })
    }

    /// A whole frame in one buffer, nothing after it: header and body in one step.
    pub fn from_bytes(mut frame: Bytes) -> Result<Self, FrameError> {
        let Some((header_bytes, _)) = frame.split_first_chunk::<HEADER_LEN>() else {
            return Err(FrameError::Length { need: HEADER_LEN, have: frame.len() });
        };
        let header_bytes = *header_bytes;
        let header = FrameHeader::parse(&header_bytes)?;
        decode(&header, &header_bytes, frame.split_off(HEADER_LEN))
    }
}

/// The frame of a parsed header and the [`FrameHeader::body_len`] bytes that follow it. The payload shares `body`'s memory.
/// Checks the length, the checksum, the family, and that the message takes all of its bytes.
pub fn decode<M: Message>(
    header: &FrameHeader,
    header_bytes: &[u8; HEADER_LEN],
    mut body: Bytes,
) -> Result<Frame<M>, FrameError> {
    if body.len() != header.body_len() {
        return Err(FrameError::Length { need: HEADER_LEN + header.body_len(), have: HEADER_LEN + body.len() });
    }
    let computed = crc32c::crc32c_append(crc32c::crc32c(&header_bytes[..AT_CRC]), &body);
    if computed != header.crc {
        return Err(FrameError::Crc { stored: header.crc, computed });
    }
    if header.family != M::FAMILY {
        return Err(FrameError::WrongFamily { expected: M::FAMILY, found: header.family });
    }
    let payload = body.split_off(header.meta_len as usize);
    let (msg, rest) = postcard::take_from_bytes(&body)
        .map_err(|e| FrameError::Message { family: M::FAMILY, fault: e.to_string() })?;
    if !rest.is_empty() {
        return Err(FrameError::TrailingMeta { extra: rest.len() });
    }
    Ok(Frame { range: header.range, segment: header.segment, epoch: header.epoch, trace: header.trace, msg, payload })
}
