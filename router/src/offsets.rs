//! Where a range begins and ends: the earliest offset from the chain, the latest from the head's primary.

use crate::shared::Shared;
use seam_transport::stream::{FrameReader, FrameWriter};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromSegd, ToSegd};
use seam_wire::{NodeId, Offset, RangeId, SegmentId};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Pause between two questions while the head is moving.
const AGAIN: Duration = Duration::from_millis(20);
/// How long an end just decided is taken to be followed by a head that metad will name.
const FOLLOW: Duration = Duration::from_millis(300);

/// The first offset of the range; an error while the range has no segment yet.
pub fn earliest(range: RangeId, shared: &Shared) -> Option<Offset> {
    shared.chains.read().earliest(range)
}

/// The committed end of the range, asked of the primary of its head. Retries while the head moves, within the deadline.
pub async fn latest(range: RangeId, shared: &Arc<Shared>) -> Result<Offset, WireError> {
    let deadline = Instant::now() + Duration::from_millis(shared.limits.query_deadline_ms);
    let mut decided_since: Option<(SegmentId, Instant)> = None;
    let mut why = "the range has no open segment yet".to_owned();
    while Instant::now() < deadline {
        let head = {
            let chains = shared.chains.read();
            chains.head(range).and_then(|head| Some((head, chains.primary(head)?, chains.start(head))))
        };
        if let Some((segment, node, start)) = head {
            match tokio::time::timeout_at(deadline, ask(segment, node, shared)).await {
                Ok(Ok(FromSegd::Committed { committed, end: None, .. })) => {
                    return Ok(committed.max(start.unwrap_or_default()));
                }
                Ok(Ok(FromSegd::Committed { end: Some(end), .. })) => {
                    let (known, since) = *decided_since.get_or_insert((segment, Instant::now()));
                    if known != segment {
                        decided_since = Some((segment, Instant::now()));
                    } else if since.elapsed() >= FOLLOW {
                        return Ok(end);
                    }
                }
                Ok(Ok(other)) => why = format!("{node} answered {other:?}"),
                Ok(Err(error)) => why = error,
                Err(_) => why = format!("{node} did not answer"),
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
    Err(WireError::retry(ErrorCode::Unavailable, format!("the end of {range} is not to be had: {why}")))
}

async fn ask(segment: SegmentId, node: NodeId, shared: &Shared) -> Result<FromSegd, String> {
    let (send, recv) = shared.upstreams.open(node).await?;
    let mut writer = FrameWriter::new(send);
    writer.write(&Frame::new(ToSegd::Committed).segment(segment)).await.map_err(|error| error.to_string())?;
    let answer = FrameReader::new(recv).read::<FromSegd>().await.map_err(|error| error.to_string())?;
    answer.map(|frame| frame.msg).ok_or_else(|| format!("{node} closed the stream without an answer"))
}
