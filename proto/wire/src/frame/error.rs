//! Why a frame is refused. Whatever it is, the stream it came on is over.

use super::header::Family;
use crate::error::{ErrorCode, WireError};
use thiserror::Error;

/// A frame that cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FrameError {
    #[error("magic {0:#06x} is not a frame's; is the peer speaking this protocol?")]
    Magic(u16),
    #[error("frame version {0} is not 1; bring both ends to the same release")]
    Version(u8),
    #[error("frame family {0} is unknown; bring both ends to the same release")]
    UnknownFamily(u8),
    #[error(
        "flags {0:#04x} or unused bytes are set that mean nothing in version 1; bring both ends to the same release"
    )]
    Reserved(u8),
    #[error("{what} of {len} bytes is above the limit of {limit}; send less in one frame")]
    TooLarge { what: &'static str, len: u64, limit: u64 },
    #[error("frame takes {need} bytes, {have} are there")]
    Length { need: usize, have: usize },
    #[error(
        "frame checksum {computed:#010x} differs from the stored {stored:#010x}; open a new stream and send it again"
    )]
    Crc { stored: u32, computed: u32 },
    #[error("a {found:?} frame on a stream of {expected:?}")]
    WrongFamily { expected: Family, found: Family },
    #[error("{family:?} message: {fault}; bring both ends to the same release")]
    Message { family: Family, fault: String },
    #[error("{extra} bytes follow the message; bring both ends to the same release")]
    TrailingMeta { extra: usize },
}

impl From<FrameError> for WireError {
    fn from(error: FrameError) -> Self {
        WireError::refused(ErrorCode::BadFrame, error.to_string())
    }
}
