//! Reading frames: ahead in large steps, so that many small frames cost one poll, and never more than a checked header
//! allows.

use super::StreamError;
use crate::quic::code;
use bytes::{Bytes, BytesMut};
use quinn::{ReadError, RecvStream, VarInt};
use seam_wire::frame::{self, Frame, FrameHeader, HEADER_LEN, Message};
use std::io;
use tokio::io::AsyncReadExt;

/// Bytes read ahead of the frame in hand. A buffer is shared by the frames in it: their payloads are slices of it.
const READ_AHEAD: usize = 64 << 10;
/// With less room than this left, a new buffer is begun.
const MIN_ROOM: usize = 8 << 10;

/// The reading end of a stream of frames. Belongs to one task.
#[derive(Debug)]
pub struct FrameReader {
    stream: RecvStream,
    buffer: BytesMut,
    /// The header of the frame in hand, parsed once.
    header: Option<(FrameHeader, [u8; HEADER_LEN])>,
    failed: Option<StreamError>,
}

impl FrameReader {
    /// Takes over a stream from its current position.
    pub fn new(stream: RecvStream) -> FrameReader {
        FrameReader { stream, buffer: BytesMut::new(), header: None, failed: None }
    }

    /// The next frame; `None` when the sender finished the stream after a whole frame. Any error is final: the same one
    /// comes back ever after, and after `StreamError::Frame` the peer is told to stop sending.
    ///
    /// Cancel safe: what was read stays in the buffer.
    pub async fn read<M: Message>(&mut self) -> Result<Option<Frame<M>>, StreamError> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let result = self.read_frame().await;
        if let Err(error) = &result {
            self.fail(error.clone());
        }
        result
    }

    async fn read_frame<M: Message>(&mut self) -> Result<Option<Frame<M>>, StreamError> {
        let (header, header_bytes) = match self.header {
            Some(header) => header,
            None => match self.read_header().await? {
                Some(header) => *self.header.insert(header),
                None => return Ok(None),
            },
        };
        let need = header.body_len();
        if !self.fill(need).await? {
            return Err(StreamError::Truncated { missing: need - self.buffer.len() });
        }
        self.header = None;
        let body: Bytes = self.buffer.split_to(need).freeze();
        Ok(Some(frame::decode(&header, &header_bytes, body)?))
    }

    async fn read_header(&mut self) -> Result<Option<(FrameHeader, [u8; HEADER_LEN])>, StreamError> {
        if !self.fill(HEADER_LEN).await? {
            return match self.buffer.len() {
                0 => Ok(None),
                have => Err(StreamError::Truncated { missing: HEADER_LEN - have }),
            };
        }
        let bytes: [u8; HEADER_LEN] =
            self.buffer.split_to(HEADER_LEN)[..].try_into().expect("fill gave at least a header");
        Ok(Some((FrameHeader::parse(&bytes)?, bytes)))
    }

    /// Reads until `need` bytes are buffered; false if the stream ends before.
    async fn fill(&mut self, need: usize) -> Result<bool, StreamError> {
        while self.buffer.len() < need {
            let missing = need - self.buffer.len();
            if self.buffer.capacity() - self.buffer.len() < missing.max(MIN_ROOM) {
                self.buffer.reserve(missing.max(READ_AHEAD));
            }
            if self.stream.read_buf(&mut self.buffer).await.map_err(read_error)? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fail(&mut self, error: StreamError) {
        if matches!(error, StreamError::Frame(_)) {
            self.stop(code::BAD_FRAME);
        }
        self.failed = Some(error);
    }

    /// Tells the sender that nothing more is wanted. Dropping the reader does the same with code 0.
    pub fn stop(&mut self, code: VarInt) {
        // It fails only if the stream is over already.
        let _ = self.stream.stop(code);
    }

    /// The error that ended the stream, if one did.
    pub fn failure(&self) -> Option<&StreamError> {
        self.failed.as_ref()
    }
}

/// quinn speaks `io::Error` here, with its own error inside.
fn read_error(error: io::Error) -> StreamError {
    match error.downcast::<ReadError>() {
        Ok(read) => read.into(),
        Err(_) => StreamError::Read(ReadError::ClosedStream),
    }
}
