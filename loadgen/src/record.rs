//! The payload of a generated record: who sent it, when it was due, and a checksum, then filler that does not compress.
//! Not Seamlog's own record format; to Seamlog this is opaque.
//!
//! | bytes | field |
//! | --- | --- |
//! | 0..4 | `SLG1` |
//! | 4..8 | CRC-32C of all that follows |
//! | 8..12 | producer, u32 LE |
//! | 12..20 | sequence, u64 LE |
//! | 20..28 | due time on the run's clock, us, u64 LE |
//! | 28.. | filler |

use bytes::{BufMut, Bytes, BytesMut};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use thiserror::Error;

const MAGIC: [u8; 4] = *b"SLG1";
const HEADER_BYTES: usize = 28;
/// The smallest record that can be generated.
pub const RECORD_BYTES_MIN: usize = 32;
const POOL_BYTES: usize = 1 << 18;

/// What a payload says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    pub producer: u32,
    pub seq: u64,
    pub due_us: u64,
    /// The checksum, which also serves as the content's hash.
    pub hash: u32,
}

/// Why a payload is not one of ours, intact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RecordError {
    #[error("{0} bytes are no generated record")]
    Short(usize),
    #[error("not written by loadgen; use a topic of its own")]
    Foreign,
    #[error("checksum {found:08x} differs from the {stated:08x} it was sent with")]
    Damaged { stated: u32, found: u32 },
}

/// Makes payloads of one size. Filler comes from a pool of random bytes: no compressor gains on it, and making a record
/// costs one copy and one checksum.
#[derive(Debug)]
pub struct RecordMaker {
    pool: Vec<u8>,
    record_bytes: usize,
}

impl RecordMaker {
    /// `record_bytes` is raised to `RECORD_BYTES_MIN`.
    pub fn new(record_bytes: usize) -> Self {
        let record_bytes = record_bytes.max(RECORD_BYTES_MIN);
        let mut pool = vec![0; POOL_BYTES + record_bytes];
        StdRng::seed_from_u64(0x5ea1).fill_bytes(&mut pool);
        RecordMaker { pool, record_bytes }
    }

    /// The payload and its hash.
    pub fn make(&self, producer: u32, seq: u64, due_us: u64) -> (Bytes, u32) {
        // A stride prime to the pool, so that neighbours differ in every byte.
        let at = (seq.wrapping_mul(104_729).wrapping_add(u64::from(producer) * 7_919) % POOL_BYTES as u64) as usize;
        let mut payload = BytesMut::with_capacity(self.record_bytes);
        payload.put_slice(&MAGIC);
        payload.put_u32_le(0);
        payload.put_u32_le(producer);
        payload.put_u64_le(seq);
        payload.put_u64_le(due_us);
        payload.put_slice(&self.pool[at..at + self.record_bytes - HEADER_BYTES]);
        let hash = crc32c::crc32c(&payload[8..]);
        payload[4..8].copy_from_slice(&hash.to_le_bytes());
        (payload.freeze(), hash)
    }
}

/// Reads a payload back and checks it.
pub fn decode(payload: &[u8]) -> Result<RecordHeader, RecordError> {
    let (Some(magic), Some(stated)) = (array::<4>(payload, 0), array::<4>(payload, 4).map(u32::from_le_bytes)) else {
        return Err(RecordError::Short(payload.len()));
    };
    if magic != MAGIC {
        return Err(RecordError::Foreign);
    }
    let (Some(producer), Some(seq), Some(due)) = (array(payload, 8), array(payload, 12), array(payload, 20)) else {
        return Err(RecordError::Short(payload.len()));
    };
    let found = crc32c::crc32c(&payload[8..]);
    if found != stated {
        return Err(RecordError::Damaged { stated, found });
    }
    Ok(RecordHeader {
        producer: u32::from_le_bytes(producer),
        seq: u64::from_le_bytes(seq),
        due_us: u64::from_le_bytes(due),
        hash: stated,
    })
}

fn array<const N: usize>(payload: &[u8], at: usize) -> Option<[u8; N]> {
    payload.get(at..at + N)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comes_back_as_it_went() {
        let maker = RecordMaker::new(1024);
        let (payload, hash) = maker.make(3, 1 << 40, 12_345);
        assert_eq!(payload.len(), 1024);
        assert_eq!(decode(&payload), Ok(RecordHeader { producer: 3, seq: 1 << 40, due_us: 12_345, hash }));
        assert_ne!(hash, maker.make(3, (1 << 40) + 1, 12_345).1);
    }

    #[test]
    fn every_flipped_byte_is_seen() {
        let (payload, _) = RecordMaker::new(64).make(1, 2, 3);
        for at in 0..payload.len() {
            let mut damaged = payload.to_vec();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged).is_err(), "byte {at}");
        }
    }

    #[test]
    fn foreign_and_short_payloads_are_refused() {
        assert_eq!(decode(b"hello world, this is not ours"), Err(RecordError::Foreign));
        assert_eq!(decode(b"SLG1"), Err(RecordError::Short(4)));
        assert_eq!(decode(b"SLG1aaaabbbb"), Err(RecordError::Short(12)));
        assert_eq!(RecordMaker::new(1).make(0, 0, 0).0.len(), RECORD_BYTES_MIN);
    }
}
