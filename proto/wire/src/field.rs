//! Fixed-width fields out of a header. Not a parser: the caller has checked that the header is whole.

/// The `N` bytes at `at`. The caller has checked that `bytes` reaches that far.
pub(crate) fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
