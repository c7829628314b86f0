//! The state as bytes, and back. The bytes are a function of the state (ordered maps, postcard), so replaying the log
//! gives the same ones on every member (R11).

use super::{Meta, Violation};
use thiserror::Error;

/// First byte of a snapshot. Raised when the layout changes.
const FORMAT: u8 = 4;

/// Why a snapshot was not taken.
#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("snapshot of format {0:?}, this build reads {FORMAT}: use the build that wrote it")]
    Format(Option<u8>),
    #[error("snapshot does not parse: {0}")]
    Decode(#[from] postcard::Error),
    #[error("snapshot with {0} bytes after its end")]
    Trailing(usize),
    #[error("snapshot breaks an invariant: {0}")]
    Invalid(#[from] Violation),
}

impl Meta {
    /// The whole state as bytes.
    pub fn snapshot(&self) -> Vec<u8> {
        postcard::to_extend(self, vec![FORMAT]).expect("plain data in memory always encodes")
    }

    /// The state these bytes hold, with every invariant checked.
    pub fn restore(bytes: &[u8]) -> Result<Meta, RestoreError> {
        let (format, body) = bytes.split_first().ok_or(RestoreError::Format(None))?;
        if *format != FORMAT {
            return Err(RestoreError::Format(Some(*format)));
        }
        let (meta, rest) = postcard::take_from_bytes::<Meta>(body)?;
        if !rest.is_empty() {
            return Err(RestoreError::Trailing(rest.len()));
        }
        meta.check_invariants()?;
        Ok(meta)
    }

    /// FNV-1a, 64 bits, over the snapshot: equal on every member that applied the same log.
    pub fn hash(&self) -> u64 {
        let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        self.snapshot().iter().fold(0xcbf2_9ce4_8422_2325, step)
    }
}
