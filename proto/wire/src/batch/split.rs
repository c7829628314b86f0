//! Batches laid back to back, as payloads and segment files hold them, taken apart by their headers alone.

use super::error::BatchError;
use super::header::BatchHeader;
use bytes::Bytes;

/// The batches of `bytes`, in order, without a copy. After an error nothing more comes: where the next one would start is
/// unknown. Neither checksums nor records are looked at.
pub fn split(mut bytes: Bytes) -> impl Iterator<Item = Result<Bytes, BatchError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        match BatchHeader::parse(&bytes) {
            Ok(header) => Some(Ok(bytes.split_to(header.length as usize))),
            Err(error) => {
                bytes.clear();
                Some(Err(error))
            }
        }
    })
}

/// The headers of the batches of `bytes`, in order; as [`split`].
pub fn headers(bytes: &Bytes) -> impl Iterator<Item = Result<BatchHeader, BatchError>> + use<> {
    split(bytes.clone()).map(|batch| BatchHeader::parse(&batch?))
}
