//! The bytes on disk.
//!
//! A journal is a directory of files `NNNNNNNN.journal` of one size. A file keeps its name for life; what it holds is
//! told by its first block. All integers are little-endian, all checksums CRC32C.
//!
//! ```text
//! block 0      file header (64 bytes, one sector; the rest of the block is zero)
//!   0 magic u32 | 4 crc u32 of bytes 8..64 | 8 kind u32 (1 free, 2 live) | 12 version u32
//!   16 generation u64 | 24 file_bytes u64 | 32 first_lsn u64 | 40 floor u64 | 48 synced_through u64 | 56 zero u64
//! blocks 1..   groups, each starting on a block of 4096 bytes and padded with zeroes to the next
//!   0 magic u32 | 4 crc u32 of bytes 8..64 | 8 generation u64 | 16 position u64 | 24 first_lsn u64
//!   32 synced_through u64 | 40 count u32 | 44 body_bytes u32 | 48 body_crc u32 | 52 zero [12]
//!   body: count lengths u32, then the bytes of the entries, one after the other
//! ```
//!
//! Why it is so:
//!
//! - A group is what one write carries. It starts on a block of its own, so a block that was synced is never written
//!   again, and a write into a recycled file never has to read a page first.
//! - A group is live only in the file generation it names and at the position it names (J4). A recycled file gets a
//!   new generation, and so does the first file after every open: what an earlier run left past a torn tail can
//!   never follow what a later run writes. The upper half of a generation is the run, the count of opens: each open
//!   marks a free file with its run, and syncs the mark, before anything is written under it. So a generation is never
//!   given twice, even if every header of the run that had it was torn away.
//! - `synced_through` says how far the journal was synced when these bytes were made. The largest one found, in any
//!   header, bounds what a torn tail may have taken (J3). Without a later witness the last synced group cannot be told
//!   from a torn one; a clean shutdown therefore ends with an empty group.
//! - `floor` says below which number everything was released (J1). A released file is marked free and synced, oldest
//!   first, before it is used again, so what is live on disk is always one unbroken run.
//! - The file header is one sector, which disks write whole. A header that is neither zero nor valid is corruption; one
//!   that is zero was never written, which is the last step of making a file, so the file is deleted.

use crate::Lsn;

/// Alignment of groups, and the size of the header's place, in bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// Size of a file header and of a group header in bytes.
pub const HEADER_BYTES: usize = 64;
/// The part of block 0 that must be zero for a file to count as never used.
pub const SECTOR_BYTES: usize = 512;

const FILE_MAGIC: u32 = u32::from_le_bytes(*b"sjf1");
const GROUP_MAGIC: u32 = u32::from_le_bytes(*b"sjg1");
const VERSION: u32 = 1;
const KIND_FREE: u32 = 1;
const KIND_LIVE: u32 = 2;

/// The count of opens of a journal: the upper half of every generation given in that time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run(u32);

impl Run {
    /// The run after every one that gave out any of `generations`.
    pub fn after(generations: impl Iterator<Item = u64>) -> Run {
        Run(generations.max().map_or(0, |last| (last >> 32) as u32) + 1)
    }

    /// The generation that stands for the run and is never given to a live file.
    pub fn mark(self) -> u64 {
        u64::from(self.0) << 32
    }
}

/// What block 0 says of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileHeader {
    pub live: bool,
    /// The life of a live file. In a free one: a generation of the run that freed it, or its own.
    pub generation: u64,
    pub file_bytes: u64,
    /// First entry of a live file.
    pub first_lsn: Lsn,
    /// Everything below was released when this was written.
    pub floor: Lsn,
    /// Everything up to here, inclusive, was synced when this was written.
    pub synced_through: Lsn,
}

/// The verdict on block 0.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FileMark {
    Blank,
    Header(FileHeader),
    Unreadable,
}

/// The header of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupHeader {
    pub generation: u64,
    pub position: u64,
    pub first_lsn: Lsn,
    pub synced_through: Lsn,
    pub count: u32,
    pub body_bytes: u32,
    pub body_crc: u32,
}

/// Bytes a group of `count` entries with `payload` bytes takes in a file, padding included.
pub(crate) fn group_bytes(count: u64, payload: u64) -> u64 {
    (HEADER_BYTES as u64 + 4 * count + payload).next_multiple_of(BLOCK_BYTES)
}

fn put_u32(buf: &mut [u8; HEADER_BYTES], at: usize, value: u32) {
    buf[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_u64(buf: &mut [u8; HEADER_BYTES], at: usize, value: u64) {
    buf[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn get_u32(buf: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(buf[at..at + 4].try_into().expect("slice of 4"))
}

fn get_u64(buf: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(buf[at..at + 8].try_into().expect("slice of 8"))
}

fn seal(buf: &mut [u8; HEADER_BYTES], magic: u32) {
    put_u32(buf, 0, magic);
    let crc = crc32c::crc32c(&buf[8..]);
    put_u32(buf, 4, crc);
}

fn is_sealed(buf: &[u8], magic: u32) -> bool {
    get_u32(buf, 0) == magic && get_u32(buf, 4) == crc32c::crc32c(&buf[8..HEADER_BYTES])
}

impl FileHeader {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut buf = [0; HEADER_BYTES];
        put_u32(&mut buf, 8, if self.live { KIND_LIVE } else { KIND_FREE });
        put_u32(&mut buf, 12, VERSION);
        put_u64(&mut buf, 16, self.generation);
        put_u64(&mut buf, 24, self.file_bytes);
        put_u64(&mut buf, 32, self.first_lsn.0);
        put_u64(&mut buf, 40, self.floor.0);
        put_u64(&mut buf, 48, self.synced_through.0);
        seal(&mut buf, FILE_MAGIC);
        buf
    }

    /// Reads the first sector of a file.
    pub fn decode(sector: &[u8; SECTOR_BYTES]) -> FileMark {
        if sector.iter().all(|byte| *byte == 0) {
            return FileMark::Blank;
        }
        let kind = get_u32(sector, 8);
        if !is_sealed(sector, FILE_MAGIC) || get_u32(sector, 12) != VERSION || !(KIND_FREE..=KIND_LIVE).contains(&kind)
        {
            return FileMark::Unreadable;
        }
        FileMark::Header(FileHeader {
            live: kind == KIND_LIVE,
            generation: get_u64(sector, 16),
            file_bytes: get_u64(sector, 24),
            first_lsn: Lsn(get_u64(sector, 32)),
            floor: Lsn(get_u64(sector, 40)),
            synced_through: Lsn(get_u64(sector, 48)),
        })
    }
}

impl GroupHeader {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut buf = [0; HEADER_BYTES];
        put_u64(&mut buf, 8, self.generation);
        put_u64(&mut buf, 16, self.position);
        put_u64(&mut buf, 24, self.first_lsn.0);
        put_u64(&mut buf, 32, self.synced_through.0);
        put_u32(&mut buf, 40, self.count);
        put_u32(&mut buf, 44, self.body_bytes);
        put_u32(&mut buf, 48, self.body_crc);
        seal(&mut buf, GROUP_MAGIC);
        buf
    }

    /// The header at the start of `block`, if there is one and it belongs to this generation and position.
    pub fn decode(block: &[u8], generation: u64, position: u64) -> Option<GroupHeader> {
        if block.len() < HEADER_BYTES || !is_sealed(block, GROUP_MAGIC) {
            return None;
        }
        let header = GroupHeader {
            generation: get_u64(block, 8),
            position: get_u64(block, 16),
            first_lsn: Lsn(get_u64(block, 24)),
            synced_through: Lsn(get_u64(block, 32)),
            count: get_u32(block, 40),
            body_bytes: get_u32(block, 44),
            body_crc: get_u32(block, 48),
        };
        (header.generation == generation && header.position == position).then_some(header)
    }

    /// Bytes of the group in the file, padding included.
    pub fn padded_bytes(&self) -> u64 {
        (HEADER_BYTES as u64 + u64::from(self.body_bytes)).next_multiple_of(BLOCK_BYTES)
    }

    /// The number after the last entry.
    pub fn end_lsn(&self) -> Lsn {
        Lsn(self.first_lsn.0 + u64::from(self.count))
    }

    /// The places of the entries in `body`, or `None` if the body is not the one this header was made for.
    pub fn split(&self, body: &[u8]) -> Option<Vec<std::ops::Range<usize>>> {
        if body.len() != self.body_bytes as usize || crc32c::crc32c(body) != self.body_crc {
            return None;
        }
        let mut at = 4usize.checked_mul(self.count as usize).filter(|table| *table <= body.len())?;
        let mut places = Vec::with_capacity(self.count as usize);
        for index in 0..self.count as usize {
            let end = at.checked_add(get_u32(body, 4 * index) as usize).filter(|end| *end <= body.len())?;
            places.push(at..end);
            at = end;
        }
        (at == body.len()).then_some(places)
    }
}
