//! What can go wrong with a stream of frames.

use quinn::{ConnectionError, ReadError, WriteError};
use seam_wire::frame::FrameError;
use thiserror::Error;

/// A stream that cannot go on. Every variant is final for its stream; only `Connection` is for the connection.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The bytes are no frame, or the message does not fit one. Other streams of the connection are not touched.
    #[error("bad frame: {0}")]
    Frame(#[from] FrameError),
    #[error("the stream ended {missing} bytes before the end of a frame; the sender died or was reset")]
    Truncated { missing: usize },
    #[error("reading: {0}")]
    Read(ReadError),
    #[error("writing: {0}")]
    Write(WriteError),
    #[error("the connection is lost: {0}")]
    Connection(ConnectionError),
    #[error(
        "no stream could be opened within {after_ms} ms: the peer holds its limit of open streams; raise quic.max_bidi_streams or quic.max_uni_streams there, or close some"
    )]
    OpenTimeout { after_ms: u128 },
    #[error("the stream is finished; open another")]
    Finished,
}

impl From<ReadError> for StreamError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::ConnectionLost(lost) => StreamError::Connection(lost),
            ReadError::Reset(_)
            | ReadError::ClosedStream
            | ReadError::IllegalOrderedRead
            | ReadError::ZeroRttRejected => StreamError::Read(error),
        }
    }
}

impl From<WriteError> for StreamError {
    fn from(error: WriteError) -> Self {
        match error {
            WriteError::ConnectionLost(lost) => StreamError::Connection(lost),
            WriteError::Stopped(_) | WriteError::ClosedStream | WriteError::ZeroRttRejected => {
                StreamError::Write(error)
            }
        }
    }
}

impl From<ConnectionError> for StreamError {
    fn from(error: ConnectionError) -> Self {
        StreamError::Connection(error)
    }
}

/// A frame that was not queued; nothing of it was or will be sent.
#[derive(Debug, Error)]
pub enum TrySendError<F> {
    /// The queue holds all the frames or bytes it may. The frame is handed back.
    #[error("the stream's queue is full; wait, or shed load")]
    Full(F),
    #[error(transparent)]
    Stream(StreamError),
}
