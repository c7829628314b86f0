//! Many small pieces into few chunks: QUIC keeps each chunk on its own, so a thousand acks should not be a thousand
//! chunks. Small pieces are copied together, large ones pass as they are.

use bytes::{Bytes, BytesMut};
use seam_wire::frame::EncodedFrame;

/// Pieces up to this size are copied.
const COPY_BYTES: usize = 2 << 10;
/// Copied chunks are begun anew at this size.
const CHUNK_BYTES: usize = 64 << 10;

/// Appends to `chunks` what `frames` are on the wire.
pub(super) fn coalesce(frames: impl IntoIterator<Item = EncodedFrame>, chunks: &mut Vec<Bytes>) {
    let mut small = BytesMut::new();
    for piece in frames.into_iter().flat_map(|frame| [frame.head, frame.payload]).filter(|piece| !piece.is_empty()) {
        if piece.len() > COPY_BYTES {
            flush(&mut small, chunks);
            chunks.push(piece);
        } else {
            if small.len() + piece.len() > CHUNK_BYTES {
                flush(&mut small, chunks);
            }
            small.extend_from_slice(&piece);
        }
    }
    flush(&mut small, chunks);
}

fn flush(small: &mut BytesMut, chunks: &mut Vec<Bytes>) {
    if !small.is_empty() {
        chunks.push(small.split().freeze());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(head: &'static [u8], payload: Bytes) -> EncodedFrame {
        EncodedFrame { head: Bytes::from_static(head), payload }
    }

    #[test]
    fn small_pieces_are_joined_and_large_ones_pass_uncopied() {
        let large = Bytes::from(vec![7; COPY_BYTES + 1]);
        let mut chunks = Vec::new();
        let frames = [
            frame(b"a", Bytes::from_static(b"b")),
            frame(b"c", large.clone()),
            frame(b"d", Bytes::new()),
            frame(b"e", Bytes::from_static(b"f")),
        ];
        coalesce(frames, &mut chunks);
        assert_eq!(chunks, [Bytes::from_static(b"abc"), large.clone(), Bytes::from_static(b"def")]);
        assert_eq!(chunks[1].as_ptr(), large.as_ptr());
    }

    #[test]
    fn chunks_of_copies_have_a_bound() {
        let mut chunks = Vec::new();
        coalesce((0..200).map(|_| frame(b"x", Bytes::from(vec![1; COPY_BYTES]))), &mut chunks);
        assert_eq!(chunks.iter().map(Bytes::len).sum::<usize>(), 200 * (COPY_BYTES + 1));
        assert!(chunks.iter().all(|chunk| chunk.len() <= CHUNK_BYTES));
    }
}
