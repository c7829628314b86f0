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
/// which holds it, and the offset after them. Empty when all of it is below. With `until`, batches from there on are left
/// out. No copy. `next` is what the message says of the payload's end.
pub fn wanted_part(
    payload: Bytes,
    wanted: Offset,
    until: Option<Offset>,
    next: Offset,
) -> Result<(Bytes, Offset), WalkError> {
    let (mut skipped, mut kept, mut kept_end) = (0, 0, wanted);
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
        if until.is_none_or(|until| base < until) {
            (kept, kept_end) = (at, end);
        }
        expected = Some(end);
    }
    match expected {
        Some(found) if found == next => Ok((payload.slice(skipped.min(kept)..kept), kept_end)),
        Some(found) => Err(WalkError::End { said: next, found }),
        None => Err(WalkError::End { said: next, found: wanted }),
    }
}
