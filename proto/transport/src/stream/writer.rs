//! Writing frames from the task that owns the stream. Payloads are handed to QUIC as they are, never copied.

use super::StreamError;
use super::coalesce::coalesce;
use quinn::{SendStream, VarInt};
use seam_wire::frame::{EncodedFrame, Frame, Message};

/// The writing end of a stream of frames. Belongs to one task.
///
/// No method is cancel safe: a write that is dropped half way leaves half a frame on the stream. Keep them out of
/// `select!`, or use `spawn_writer`.
#[derive(Debug)]
pub struct FrameWriter {
    stream: SendStream,
}

impl FrameWriter {
    /// Takes over a stream from its current position.
    pub fn new(stream: SendStream) -> FrameWriter {
        FrameWriter { stream }
    }

    /// Writes one frame; waits while the peer's window or our send window is full. Not cancel safe.
    pub async fn write<M: Message>(&mut self, frame: &Frame<M>) -> Result<(), StreamError> {
        let EncodedFrame { head, payload } = frame.encode()?;
        self.write_chunks(&mut [head, payload]).await
    }

    /// Writes several frames in one go. If one cannot be encoded, none is written. Not cancel safe.
    pub async fn write_all_frames<M: Message>(&mut self, frames: &[Frame<M>]) -> Result<(), StreamError> {
        let encoded: Vec<EncodedFrame> = frames.iter().map(Frame::encode).collect::<Result<_, _>>()?;
        let mut chunks = Vec::with_capacity(2 * encoded.len());
        coalesce(encoded, &mut chunks);
        self.write_chunks(&mut chunks).await
    }

    pub(super) async fn write_chunks(&mut self, chunks: &mut [bytes::Bytes]) -> Result<(), StreamError> {
        Ok(self.stream.write_all_chunks(chunks).await?)
    }

    /// Says that no frame follows. The peer still gets all that was written, as long as the connection stays open.
    pub fn finish(&mut self) -> Result<(), StreamError> {
        self.stream.finish().map_err(|_| StreamError::Finished)
    }

    /// Abandons the stream; the peer may not get what was written.
    pub fn reset(&mut self, code: VarInt) {
        // It fails only if the stream is over already.
        let _ = self.stream.reset(code);
    }

    /// Waits until the peer has everything after `finish` (`None`), or stops the stream (its code).
    pub async fn stopped(&self) -> Result<Option<VarInt>, StreamError> {
        self.stream.stopped().await.map_err(|error| match error {
            quinn::StoppedError::ConnectionLost(lost) => StreamError::Connection(lost),
            quinn::StoppedError::ZeroRttRejected => StreamError::Finished,
        })
    }

    /// Gives the stream back.
    pub fn into_inner(self) -> SendStream {
        self.stream
    }

    /// The stream itself, for a priority or its id.
    pub fn stream(&self) -> &SendStream {
        &self.stream
    }
}
