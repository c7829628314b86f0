//! Bodies between members: postcard of openraft's own types. Members of one cluster run one version at a time.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

/// A body that cannot be written or read.
#[derive(Debug, Error)]
pub enum CodecError {
    #[error("a message between metadata members does not encode: {0}")]
    Encode(postcard::Error),
    #[error("a message from another metadata member does not parse: {0}; all members must run the same version")]
    Decode(postcard::Error),
}

pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, CodecError> {
    postcard::to_allocvec(value).map(Bytes::from).map_err(CodecError::Encode)
}

pub fn decode<T: DeserializeOwned>(body: &[u8]) -> Result<T, CodecError> {
    postcard::from_bytes(body).map_err(CodecError::Decode)
}
