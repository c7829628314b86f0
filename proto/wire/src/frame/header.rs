//! The frame header, to and from its 72 bytes. Checks all that can be checked before the body is read, but not the checksum.

use super::error::FrameError;
use crate::field::field;
use crate::{Epoch, RangeId, SegmentId, TraceContext};

/// Bytes of the header.
pub const HEADER_LEN: usize = 72;
/// Bound of an encoded message. Bytes.
pub const MAX_META_BYTES: usize = 4 << 20;
/// Bound of a payload. Bytes.
pub const MAX_PAYLOAD_BYTES: usize = 16 << 20;

const MAGIC: u16 = 0x4C53;
const VERSION: u8 = 1;
const FLAG_TRACE: u8 = 1;
const AT_FLAGS: usize = 36;
const AT_TRACE: usize = 37;
const AT_PADDING: usize = 62;
pub(super) const AT_CRC: usize = 68;

/// Which enum of [`crate::msg`] a frame carries. Numbers are on the wire: never reuse one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Family {
    ToRouter = 1,
    FromRouter = 2,
    ToSegd = 3,
    FromSegd = 4,
    Peer = 5,
}

impl Family {
    fn from_u8(family: u8) -> Result<Self, FrameError> {
        match family {
            1 => Ok(Family::ToRouter),
            2 => Ok(Family::FromRouter),
            3 => Ok(Family::ToSegd),
            4 => Ok(Family::FromSegd),
            5 => Ok(Family::Peer),
            _ => Err(FrameError::UnknownFamily(family)),
        }
    }
}

/// A parsed header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    pub family: Family,
    /// Bytes of the message.
    pub meta_len: u32,
    /// Bytes of the payload.
    pub payload_len: u32,
    pub range: RangeId,
    pub segment: SegmentId,
    pub epoch: Epoch,
    pub trace: Option<TraceContext>,
    /// As stored; [`super::decode`] checks it.
    pub crc: u32,
}

impl FrameHeader {
    /// Reads a header. An `Ok` says what the body will cost, within the limits, and nothing about whether it is sound.
    pub fn parse(bytes: &[u8; HEADER_LEN]) -> Result<FrameHeader, FrameError> {
        let magic = u16::from_le_bytes(field(bytes, 0));
        if magic != MAGIC {
            return Err(FrameError::Magic(magic));
        }
        let [version, family] = field(bytes, 2);
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let family = Family::from_u8(family)?;
        let meta_len = u32::from_le_bytes(field(bytes, 4));
        let payload_len = u32::from_le_bytes(field(bytes, 8));
        check_lengths(meta_len.into(), payload_len.into())?;
        Ok(FrameHeader {
            family,
            meta_len,
            payload_len,
            range: RangeId(u64::from_le_bytes(field(bytes, 12))),
            segment: SegmentId(u64::from_le_bytes(field(bytes, 20))),
            epoch: Epoch(u64::from_le_bytes(field(bytes, 28))),
            trace: parse_trace(bytes)?,
            crc: u32::from_le_bytes(field(bytes, AT_CRC)),
        })
    }

    /// Bytes that follow the header: message and payload. At most `MAX_META_BYTES + MAX_PAYLOAD_BYTES`.
    pub fn body_len(&self) -> usize {
        self.meta_len as usize + self.payload_len as usize
    }

    pub(super) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        let mut put = |at: usize, field: &[u8]| out[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC.to_le_bytes());
        put(2, &[VERSION, self.family as u8]);
        put(4, &self.meta_len.to_le_bytes());
        put(8, &self.payload_len.to_le_bytes());
        put(12, &self.range.0.to_le_bytes());
        put(20, &self.segment.0.to_le_bytes());
        put(28, &self.epoch.0.to_le_bytes());
        if let Some(trace) = self.trace {
            put(AT_FLAGS, &[FLAG_TRACE]);
            put(AT_TRACE, &trace.trace_id.to_le_bytes());
            put(AT_TRACE + 16, &trace.span_id.to_le_bytes());
            put(AT_TRACE + 24, &[trace.flags]);
        }
        put(AT_CRC, &self.crc.to_le_bytes());
        out
    }
}

fn parse_trace(bytes: &[u8; HEADER_LEN]) -> Result<Option<TraceContext>, FrameError> {
    let flags = bytes[AT_FLAGS];
    let present = flags & FLAG_TRACE != 0;
    let unused = if present { &bytes[AT_PADDING..AT_CRC] } else { &bytes[AT_TRACE..AT_CRC] };
    if flags & !FLAG_TRACE != 0 || unused.iter().any(|&byte| byte != 0) {
        return Err(FrameError::Reserved(flags));
    }
    Ok(present.then(|| TraceContext {
        trace_id: u128::from_le_bytes(field(bytes, AT_TRACE)),
        span_id: u64::from_le_bytes(field(bytes, AT_TRACE + 16)),
        flags: bytes[AT_TRACE + 24],
    }))
}

/// Both lengths as the header holds them, if they are within the limits.
pub(super) fn check_lengths(meta: u64, payload: u64) -> Result<(u32, u32), FrameError> {
    let fit = |what, len: u64, limit: usize| match u32::try_from(len) {
        Ok(fits) if len <= limit as u64 => Ok(fits),
        Ok(_) | Err(_) => Err(FrameError::TooLarge { what, len, limit: limit as u64 }),
    };
    Ok((fit("message", meta, MAX_META_BYTES)?, fit("payload", payload, MAX_PAYLOAD_BYTES)?))
}
