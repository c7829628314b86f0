//! An entry to append: an opaque byte string in one or more pieces, so that a header and a payload need no copy.

use bytes::Bytes;

/// The bytes of one entry. Pieces are written one after the other; the boundaries are not kept.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    pieces: Vec<Bytes>,
    len: usize,
}

impl Entry {
    /// Length in bytes of all pieces together.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no bytes. Empty entries are allowed and are replayed as such.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The pieces, in order.
    pub fn pieces(&self) -> &[Bytes] {
        &self.pieces
    }
}

impl From<Vec<Bytes>> for Entry {
    fn from(pieces: Vec<Bytes>) -> Self {
        let len = pieces.iter().map(Bytes::len).sum();
        Entry { pieces, len }
    }
}

impl<const N: usize> From<[Bytes; N]> for Entry {
    fn from(pieces: [Bytes; N]) -> Self {
        Vec::from(pieces).into()
    }
}

impl From<Bytes> for Entry {
    fn from(bytes: Bytes) -> Self {
        vec![bytes].into()
    }
}

impl From<Vec<u8>> for Entry {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}
