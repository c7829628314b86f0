//! Questions to a router: one short stream each, asked again elsewhere until the deadline.

use crate::client::{Client, Offsets};
use crate::error::Error;
use crate::lane::{Lane, lost};
use seam_transport::stream::{FrameReader, FrameWriter};
use seam_wire::RangeId;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// One attempt at one router.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(3);
/// Between attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// The usual patience.
pub(crate) const UNKNOWN_PATIENCE: Duration = Duration::from_secs(2);
/// Ranges of a topic, at most.
const MAX_RANGES: u32 = 256;

/// Both ends of a range, from any router.
///
/// A router may not know the topic, nor the range, for `patience`: news of it may be under way.
pub(crate) async fn offsets(
    lane: &Lane,
    topic: &str,
    range: u32,
    timeout: Duration,
    patience: Duration,
) -> Result<Offsets, WireError> {
    find(lane, topic, range, timeout, patience).await.map(|(_, offsets)| offsets)
}

/// As [`offsets`], with the range's id.
pub(crate) async fn find(
    lane: &Lane,
    topic: &str,
    range: u32,
    timeout: Duration,
    patience: Duration,
) -> Result<(RangeId, Offsets), WireError> {
    let (started, deadline) = (Instant::now(), Instant::now() + timeout);
    let mut avoid = None;
    loop {
        let until = deadline.min(Instant::now() + ATTEMPT);
        let mut asked = None;
        let outcome = timeout_at(until, ask(lane, avoid, topic, range, &mut asked)).await;
        let error = match outcome {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(error)) => error,
            Err(_) => {
                avoid = asked;
                WireError::retry(ErrorCode::DeadlineExceeded, "no answer from the router")
            }
        };
        let unknown = matches!(error.code, ErrorCode::UnknownTopic | ErrorCode::UnknownRange);
        let patient = unknown && started.elapsed() < patience;
        let again = Instant::now() + PAUSE;
        if again >= deadline || !(error.retryable || patient) {
            return Err(error);
        }
        sleep_until(again).await;
    }
}

async fn ask(
    lane: &Lane,
    avoid: Option<u64>,
    topic: &str,
    range: u32,
    asked: &mut Option<u64>,
) -> Result<(RangeId, Offsets), WireError> {
    let (send, recv, live) = lane.open(avoid).await?;
    *asked = Some(live.generation);
    let mut writer = FrameWriter::new(send);
    let question = Frame::new(ToRouter::Offsets { topic: topic.to_owned(), range_index: range });
    writer.write(&question).await.map_err(|error| lost(&live, &error))?;
    writer.finish().map_err(|error| lost(&live, &error))?;
    let mut reader = FrameReader::new(recv);
    match reader.read::<FromRouter>().await.map_err(|error| lost(&live, &error))?.map(|frame| frame.msg) {
        Some(FromRouter::Offsets { range, earliest, latest }) => Ok((range, Offsets { earliest, latest })),
        Some(FromRouter::Error { error }) => Err(error),
        None => Err(WireError::retry(ErrorCode::Unavailable, format!("{}: it gave no answer", live.router))),
        Some(
            other @ (FromRouter::ProduceOpened { .. }
            | FromRouter::AppendAck { .. }
            | FromRouter::AppendError { .. }
            | FromRouter::TailOpened { .. }
            | FromRouter::Records { .. }
            | FromRouter::TailEnd { .. }),
        ) => {
            let detail = format!("{}: {other:?} is no answer to the question for offsets", live.router);
            Err(WireError::refused(ErrorCode::Internal, detail))
        }
    }
}

/// How many ranges a topic has: from metad, or, when metad does not answer, found out from a router, since producing and
/// consuming go on without metad. However many are asked, it ends within `request_timeout_ms`.
pub(crate) async fn ranges(client: &Client, topic: &str) -> Result<u32, Error> {
    let deadline = Instant::now() + client.request_timeout();
    // Half of the time is left for the routers.
    let metad_timeout = (client.request_timeout() / 2).min(ATTEMPT);
    let asked = tokio::time::timeout(metad_timeout, client.admin().describe_topic(topic)).await;
    let why = match asked {
        Ok(Ok(info)) => return Ok(info.config.ranges),
        Ok(Err(error)) if !error.is_retryable() => return Err(error),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("no answer within {} ms", metad_timeout.as_millis()),
    };
    tracing::info!(%topic, %why, "metad does not say how many ranges the topic has; asking a router");
    let probed = probe(client, topic, deadline).await;
    probed.map_err(|source| Error::Request { what: format!("find topic {topic:?} (metad: {why})"), source })
}

/// The number of ranges, by asking for their offsets: doubling, then halving the gap.
async fn probe(client: &Client, topic: &str, deadline: Instant) -> Result<u32, WireError> {
    let exists = async |range: u32| {
        let patience = if range == 0 { UNKNOWN_PATIENCE } else { Duration::ZERO };
        let left = deadline.saturating_duration_since(Instant::now());
        match offsets(client.inner.lane()?, topic, range, left, patience).await {
            Ok(_) => Ok(true),
            Err(error) if error.code == ErrorCode::UnknownRange => Ok(false),
            Err(error) => Err(error),
        }
    };
    if !exists(0).await? {
        return Err(WireError::refused(ErrorCode::UnknownTopic, format!("topic {topic:?} has no ranges")));
    }
    let (mut known, mut absent) = (0, MAX_RANGES);
    let mut next = 1;
    while absent - known > 1 {
        if exists(next).await? {
            known = next
        } else {
            absent = next
        }
        next = if absent == MAX_RANGES { (known * 2).min(MAX_RANGES - 1) } else { known.midpoint(absent) };
    }
    Ok(absent)
}
