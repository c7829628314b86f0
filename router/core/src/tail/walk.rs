//! Takes a payload of batches apart far enough to know that it is what the reader wants next: dense, and not below it.

use bytes::Bytes;
use seam_wire::Offset;
use seam_wire::batch::BatchHeader;
use thiserror::Error;

/// Why a payload cannot be delivered. The replica that sent it is left.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WalkError {
    #[error("the batch at {at} does not parse: {detail}")]
    Unreadable { at: Offset, detail: String },
    #[error("a batch starts at {found}, but {wanted} comes next")]
    Hole { wanted: Offset, found: Offset },
    #[error("the batches end at {found}, but the message says {said}")]
    End { said: Offset, found: Offset },
}

/// The part of `payload` that a reader who wants `wanted` next is to get: the batches that end above it, the first of
/// which holds it. Empty when all of it is below. No copy. `next` is what the message says of the payload's end.
pub fn wanted_part(mut payload: Bytes, wanted: Offset, next: Offset) -> Result<Bytes, WalkError> {
    let mut skipped = 0;
    let mut at = 0;
    let mut expected: Option<Offset> = None;
    while at < payload.len() {
        let here = expected.unwrap_or(wanted);
        let header = BatchHeader::parse(&payload[at..])
            .map_err(|error| WalkError::Unreadable { at: here, detail: error.to_string() })?;
        let base = header.base_offset;
        let fits = match expected {
            Some(expected) => base == expected,
            None => base <= wanted,
        };
        if !fits {
            return Err(WalkError::Hole { wanted: here, found: base });
        }
        at += header.length as usize;
        let end = header.next_offset();
        if end <= wanted {
            skipped = at;
        }
        expected = Some(end);
    }
    match expected {
        Some(found) if found == next => Ok(payload.split_off(skipped)),
        Some(found) => Err(WalkError::End { said: next, found }),
        None => Err(WalkError::End { said: next, found: wanted }),
    }
}
