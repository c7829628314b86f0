//! Opening a produce stream.

use crate::lane::{Lane, Live, lost};
use seam_transport::stream::{FrameReader, FrameSender, WriterLimits, spawn_writer_with};
use seam_wire::RangeId;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};

/// The machine's window is what bounds the queue; these never do.
const QUEUE: WriterLimits = WriterLimits { frames: 64, bytes: 1 << 30 };

/// A produce stream that the router has opened.
pub(super) struct ProduceStream {
    pub live: Live,
    pub range: RangeId,
    pub max_batch_bytes: u32,
    pub reader: FrameReader,
    pub sender: FrameSender<ToRouter>,
}

/// Opens a stream for the range, not on the connection of generation `avoid`; `tried` tells on which.
pub(super) async fn open(
    lane: &Lane,
    avoid: Option<u64>,
    topic: String,
    index: u32,
    tried: &mut Option<u64>,
) -> Result<ProduceStream, WireError> {
    let (send, recv, live) = lane.open(avoid).await?;
    *tried = Some(live.generation);
    let sender = spawn_writer_with(send, QUEUE);
    let mut reader = FrameReader::new(recv);
    let hello = Frame::new(ToRouter::ProduceOpen { topic, range_index: index });
    sender.send(hello).await.map_err(|error| lost(&live, &error))?;
    match reader.read::<FromRouter>().await.map_err(|error| lost(&live, &error))?.map(|frame| frame.msg) {
        Some(FromRouter::ProduceOpened { range, max_batch_bytes }) => {
            Ok(ProduceStream { live, range, max_batch_bytes, reader, sender })
        }
        Some(FromRouter::Error { error }) => Err(error),
        None => Err(WireError::retry(ErrorCode::Unavailable, format!("{}: it ended the stream", live.router))),
        Some(
            other @ (FromRouter::AppendAck { .. }
            | FromRouter::AppendError { .. }
            | FromRouter::TailOpened { .. }
            | FromRouter::Records { .. }
            | FromRouter::TailEnd { .. }
            | FromRouter::Offsets { .. }),
        ) => {
            let detail = format!("{}: {other:?} opens no produce stream", live.router);
            Err(WireError::retry(ErrorCode::Internal, detail))
        }
    }
}
