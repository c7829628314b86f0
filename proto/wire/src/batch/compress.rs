//! Compression of a batch's records: none, or one LZ4 frame. Decompression is bounded before it starts and while it runs.

use super::error::BatchError;
use crate::field::field;
use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;
use std::io::{BufRead, Write};
use std::str::FromStr;

/// How the records of a batch are compressed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compression {
    #[default]
    None,
    /// One LZ4 frame with independent blocks.
    Lz4,
}

impl Compression {
    /// The low three bits of the attributes.
    pub(super) fn codec(self) -> u8 {
        match self {
            Compression::None => 0,
            Compression::Lz4 => 3,
        }
    }

    pub(super) fn from_codec(codec: u8) -> Result<Self, BatchError> {
        let name = match codec {
            0 => return Ok(Compression::None),
            3 => return Ok(Compression::Lz4),
            1 => "gzip",
            2 => "snappy",
            4 => "zstd",
            _ => "unknown",
        };
        Err(BatchError::UnsupportedCompression { codec, name })
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Compression::None => "none",
            Compression::Lz4 => "lz4",
        })
    }
}

impl FromStr for Compression {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        match name {
            "none" => Ok(Compression::None),
            "lz4" => Ok(Compression::Lz4),
            _ => Err(format!("compression {name:?} is not supported; use none or lz4")),
        }
    }
}

/// Appends `records` to `out` as one LZ4 frame. The same input gives the same bytes.
pub(super) fn lz4_into(records: &[u8], out: Vec<u8>) -> Result<Vec<u8>, BatchError> {
    let block_size = if records.len() <= 64 << 10 { BlockSize::Max64KB } else { BlockSize::Max256KB };
    // Independent blocks: Kafka's own reader takes no others. No content checksum: the batch has one.
    let info = FrameInfo::new().block_size(block_size).block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    encoder.write_all(records).map_err(|e| BatchError::Decompress(e.to_string()))?;
    encoder.finish().map_err(|e| BatchError::Decompress(e.to_string()))
}

/// The records section, decompressed where it must be. Never holds more than `max_bytes`, besides the two blocks of at most
/// 4 MiB that the LZ4 decoder works with.
pub(super) fn open(section: &[u8], compression: Compression, max_bytes: usize) -> Result<Cow<'_, [u8]>, BatchError> {
    match compression {
        Compression::None => {
            BatchError::bound("bytes of records", section.len(), max_bytes)?;
            Ok(Cow::Borrowed(section))
        }
        Compression::Lz4 => unlz4(section, max_bytes).map(Cow::Owned),
    }
}

fn unlz4(section: &[u8], max_bytes: usize) -> Result<Vec<u8>, BatchError> {
    let most = check_one_frame(section).map_err(|fault| BatchError::Decompress(fault.to_owned()))?;
    let mut decoder = FrameDecoder::new(section);
    // Reserved once, so that no second buffer stands beside it while it grows.
    let mut out = Vec::with_capacity(most.min(max_bytes));
    loop {
        let block = decoder.fill_buf().map_err(|e| BatchError::Decompress(e.to_string()))?;
        if block.is_empty() {
            break;
        }
        let len = block.len();
        BatchError::bound("bytes of records once decompressed", out.len() + len, max_bytes)?;
        out.extend_from_slice(block);
        decoder.consume(len);
    }
    // The decoder also stops at a block that holds nothing; then it has not read to the end.
    if !decoder.get_ref().is_empty() {
        return Err(BatchError::Decompress("an empty block within the frame".to_owned()));
    }
    Ok(out)
}

/// Walks the frame's structure: exactly one frame, whole, with its end mark, and nothing after it. The decoder alone would
/// take a frame that lacks its end. Returns the most bytes it can decompress to.
fn check_one_frame(section: &[u8]) -> Result<usize, &'static str> {
    const MAGIC: u32 = 0x184D_2204;
    const CUT: &str = "the frame is cut short";
    const UNCOMPRESSED_BIT: u32 = 1 << 31;
    /// A byte of a block stands for at most so many: it can lengthen a match by 255.
    const MOST_OF_A_BYTE: usize = 255;
    if section.len() < 7 {
        return Err(CUT);
    }
    if u32::from_le_bytes(field(section, 0)) != MAGIC {
        return Err("not an LZ4 frame");
    }
    let [flags, descriptor] = field(section, 4);
    let (independent, block_sums, content_size, content_sum, dictionary) =
        (flags & 0x20 != 0, flags & 0x10 != 0, flags & 0x08 != 0, flags & 0x04 != 0, flags & 0x01 != 0);
    if dictionary {
        return Err("frames with a dictionary are not supported");
    }
    if !independent {
        return Err("linked blocks are not supported; compress with independent blocks");
    }
    let block_size = match descriptor >> 4 & 0b111 {
        4 => 64 << 10,
        5 => 256 << 10,
        6 => 1 << 20,
        7 => 4 << 20,
        _ => return Err("unknown block size"),
    };
    let mut most = 0usize;
    let mut at = 7 + if content_size { 8 } else { 0 };
    loop {
        if section.len() < at + 4 {
            return Err(CUT);
        }
        let block = u32::from_le_bytes(field(section, at));
        at += 4;
        if block == 0 {
            break;
        }
        let block_len = (block & !UNCOMPRESSED_BIT) as usize;
        most = most.saturating_add(block_len.saturating_mul(MOST_OF_A_BYTE).min(block_size));
        at += block_len + if block_sums { 4 } else { 0 };
    }
    at += if content_sum { 4 } else { 0 };
    match section.len().cmp(&at) {
        std::cmp::Ordering::Less => Err(CUT),
        std::cmp::Ordering::Equal => Ok(most),
        std::cmp::Ordering::Greater => Err("bytes follow the frame"),
    }
}
