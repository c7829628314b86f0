//! The envelope: what each entry of a journal or segment file sits in. It binds the body to its segment, place and length, so
//! that a stale or misdirected block is seen, which a batch's own checksum cannot do. It knows nothing of what the body means.
//!
//! 44 bytes, little-endian, then the body:
//!
//! | at | field | type | meaning |
//! | --- | --- | --- | --- |
//! | 0 | magic | u32 | `0x4547_4553`, "SEGE" on disk |
//! | 4 | version | u8 | 1 |
//! | 5 | kind | u8 | see [`EnvelopeKind`] |
//! | 6 | reserved | u16 | 0 |
//! | 8 | segment | u64 | the segment the entry belongs to |
//! | 16 | base offset | u64 | of the batch; for other kinds as their writer defines it |
//! | 24 | epoch | u64 | the epoch of the entry's writer |
//! | 32 | body length | u32 | bytes, at most [`MAX_ENVELOPE_BODY_BYTES`] |
//! | 36 | body crc | u32 | CRC-32C of the body |
//! | 40 | header crc | u32 | CRC-32C of the 40 bytes before it |

use crate::field::field;
use crate::{Epoch, Offset, SegmentId};
use bytes::BufMut;
use std::ops::Range;
use thiserror::Error;

/// Bytes before the body.
pub const ENVELOPE_HEADER_LEN: usize = 44;
/// Bound of a body: twice the default batch, so that headers with a full producer table fit. Bytes.
pub const MAX_ENVELOPE_BODY_BYTES: usize = 16 << 20;

const MAGIC: u32 = u32::from_le_bytes(*b"SEGE");
const VERSION: u8 = 1;
const AT_HEADER_CRC: usize = 40;

/// What the body is. Numbers are on disk: never reuse one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EnvelopeKind {
    /// One record batch.
    #[default]
    Batch = 1,
    /// The primary's own seal entry.
    Seal = 2,
    /// What makes the replica exist: the segment's spec.
    Header = 3,
    /// A promised epoch.
    Fence = 4,
    /// The segment's end and successor, decided.
    Decided = 5,
    /// The start was fixed; the producer table at the start.
    Begun = 6,
    /// All from the base offset on is void.
    Truncate = 7,
    /// The replica is deleted; the id stays refused.
    Reclaimed = 8,
    /// The mark of a journal file or block itself.
    Journal = 9,
}

impl EnvelopeKind {
    fn from_u8(kind: u8) -> Option<Self> {
        Some(match kind {
            1 => EnvelopeKind::Batch,
            2 => EnvelopeKind::Seal,
            3 => EnvelopeKind::Header,
            4 => EnvelopeKind::Fence,
            5 => EnvelopeKind::Decided,
            6 => EnvelopeKind::Begun,
            7 => EnvelopeKind::Truncate,
            8 => EnvelopeKind::Reclaimed,
            9 => EnvelopeKind::Journal,
            _ => return None,
        })
    }
}

/// What the header says, besides length and checksums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Envelope {
    pub segment: SegmentId,
    pub base_offset: Offset,
    pub epoch: Epoch,
    pub kind: EnvelopeKind,
}

/// Why bytes are not a sound envelope.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EnvelopeError {
    /// A torn tail if nothing sound follows.
    #[error("envelope is cut short: {need} bytes needed, {have} there")]
    Truncated { need: usize, have: usize },
    #[error("magic {0:#010x} is not an envelope's: nothing was written here, or something else")]
    BadMagic(u32),
    #[error(
        "header checksum {computed:#010x} differs from the stored {stored:#010x}: torn or damaged; use another replica"
    )]
    BadHeaderChecksum { stored: u32, computed: u32 },
    #[error(
        "body checksum {computed:#010x} differs from the stored {stored:#010x}: torn or damaged; use another replica"
    )]
    BadBodyChecksum { stored: u32, computed: u32 },
    #[error("body of {len} bytes is above the limit of {limit}")]
    TooLarge { len: u64, limit: u64 },
    #[error("version {version}, kind {kind}, reserved {reserved}: written by a newer release; read it with that one")]
    Unknown { version: u8, kind: u8, reserved: u16 },
    #[error("envelope belongs to {found}, not {expected}: a stale or misdirected block; use another replica")]
    WrongSegment { expected: SegmentId, found: SegmentId },
}

impl Envelope {
    /// Refuses an envelope of another segment.
    pub fn expect(&self, segment: SegmentId) -> Result<(), EnvelopeError> {
        if self.segment == segment {
            Ok(())
        } else {
            Err(EnvelopeError::WrongSegment { expected: segment, found: self.segment })
        }
    }

    /// The header for `body`, for writers that put the two out without a copy of the body.
    pub fn header_for(&self, body: &[u8]) -> Result<[u8; ENVELOPE_HEADER_LEN], EnvelopeError> {
        let body_len = check_len(body.len() as u64)?;
        let mut header = [0; ENVELOPE_HEADER_LEN];
        let mut put = |at: usize, field: &[u8]| header[at..at + field.len()].copy_from_slice(field);
        put(0, &MAGIC.to_le_bytes());
        put(4, &[VERSION, self.kind as u8]);
        put(8, &self.segment.0.to_le_bytes());
        put(16, &self.base_offset.0.to_le_bytes());
        put(24, &self.epoch.0.to_le_bytes());
        put(32, &body_len.to_le_bytes());
        put(36, &crc32c::crc32c(body).to_le_bytes());
        let crc = crc32c::crc32c(&header[..AT_HEADER_CRC]);
        header[AT_HEADER_CRC..].copy_from_slice(&crc.to_le_bytes());
        Ok(header)
    }
}

/// Appends header and body to `out`. Errors only with `TooLarge`; nothing is written then.
pub fn encode(envelope: &Envelope, body: &[u8], out: &mut impl BufMut) -> Result<(), EnvelopeError> {
    let header = envelope.header_for(body)?;
    out.put_slice(&header);
    out.put_slice(body);
    Ok(())
}

/// Reads the envelope at the front of `bytes`: what it says, where its body is, and how long the whole is. Checks the magic,
/// then both checksums; never allocates. Whose segment it is, [`Envelope::expect`] checks.
pub fn decode(bytes: &[u8]) -> Result<(Envelope, Range<usize>, usize), EnvelopeError> {
    let truncated = |need| EnvelopeError::Truncated { need, have: bytes.len() };
    // The magic first: the end of a zeroed file is "nothing here", not "cut short".
    if bytes.len() < 4 {
        return Err(truncated(ENVELOPE_HEADER_LEN));
    }
    let magic = u32::from_le_bytes(field(bytes, 0));
    if magic != MAGIC {
        return Err(EnvelopeError::BadMagic(magic));
    }
    if bytes.len() < ENVELOPE_HEADER_LEN {
        return Err(truncated(ENVELOPE_HEADER_LEN));
    }
    let stored = u32::from_le_bytes(field(bytes, AT_HEADER_CRC));
    let computed = crc32c::crc32c(&bytes[..AT_HEADER_CRC]);
    if stored != computed {
        return Err(EnvelopeError::BadHeaderChecksum { stored, computed });
    }
    let envelope = read_fields(bytes)?;
    let body_len = check_len(u32::from_le_bytes(field(bytes, 32)).into())?;
    let total = ENVELOPE_HEADER_LEN + body_len as usize;
    let body = bytes.get(ENVELOPE_HEADER_LEN..total).ok_or(truncated(total))?;
    let stored = u32::from_le_bytes(field(bytes, 36));
    let computed = crc32c::crc32c(body);
    if stored != computed {
        return Err(EnvelopeError::BadBodyChecksum { stored, computed });
    }
    Ok((envelope, ENVELOPE_HEADER_LEN..total, total))
}

fn read_fields(bytes: &[u8]) -> Result<Envelope, EnvelopeError> {
    let [version, kind_byte] = field(bytes, 4);
    let reserved = u16::from_le_bytes(field(bytes, 6));
    match EnvelopeKind::from_u8(kind_byte) {
        Some(kind) if version == VERSION && reserved == 0 => Ok(Envelope {
            segment: SegmentId(u64::from_le_bytes(field(bytes, 8))),
            base_offset: Offset(u64::from_le_bytes(field(bytes, 16))),
            epoch: Epoch(u64::from_le_bytes(field(bytes, 24))),
            kind,
        }),
        Some(_) | None => Err(EnvelopeError::Unknown { version, kind: kind_byte, reserved }),
    }
}

fn check_len(len: u64) -> Result<u32, EnvelopeError> {
    let limit = MAX_ENVELOPE_BODY_BYTES as u64;
    match u32::try_from(len) {
        Ok(fits) if len <= limit => Ok(fits),
        Ok(_) | Err(_) => Err(EnvelopeError::TooLarge { len, limit }),
    }
}
