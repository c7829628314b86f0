//! Who may open what: clients, bidirectional streams; the first frame says which kind.

use crate::produce;
use crate::shared::Shared;
use crate::{offsets, tail};
use quinn::{RecvStream, SendStream};
use seam_transport::Role;
use seam_transport::quic::{self, Accepted, Acceptor, code};
use seam_transport::stream::{FrameReader, FrameWriter, StreamError};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

pub async fn accept_loop(mut acceptor: Acceptor, shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = acceptor.accept() => accepted,
        };
        let Some(Accepted { connection, identity }) = accepted else { return };
        match identity.role {
            Role::Client => {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    while let Ok((send, recv)) = connection.accept_bi().await {
                        tokio::spawn(stream(send, recv, Arc::clone(&shared)));
                    }
                });
            }
            Role::Metad | Role::Segd | Role::Router => {
                shared.counters.not_authorized.inc();
                quic::close(&connection, code::NOT_AUTHORIZED, "a router serves clients only");
            }
        }
    }
}

async fn stream(send: SendStream, recv: RecvStream, shared: Arc<Shared>) {
    let mut reader = FrameReader::new(recv);
    match reader.read::<ToRouter>().await {
        Ok(Some(frame)) => match frame.msg {
            ToRouter::ProduceOpen { topic, range_index } => {
                produce::serve(topic, range_index, send, reader, shared).await;
            }
            ToRouter::TailOpen { topic, range_index, from, follow } => {
                let request = tail::Request { topic, range_index, from, follow };
                tail::serve(request, send, reader, shared).await;
            }
            ToRouter::Offsets { topic, range_index } => {
                let answer = match query(&topic, range_index, &shared).await {
                    Ok(answer) => answer,
                    Err(error) => FromRouter::Error { error },
                };
                last_word(send, answer).await;
            }
            ToRouter::Append { .. } => {
                shared.counters.bad_frames.inc();
                reader.stop(code::BAD_FRAME);
                let detail = "a stream begins with ProduceOpen, TailOpen or Offsets";
                last_word(send, FromRouter::Error { error: WireError::refused(ErrorCode::BadFrame, detail) }).await;
            }
        },
        Ok(None) => {}
        Err(error) => {
            if let Some(error) = note_bad(&error, &shared) {
                last_word(send, FromRouter::Error { error }).await;
            }
        }
    }
}

async fn query(topic: &str, range_index: u32, shared: &Arc<Shared>) -> Result<FromRouter, WireError> {
    let resolved = shared.chains.read().resolve(topic, range_index);
    let range = resolved.inspect_err(|_| {
        shared.counters.unknown_topics.inc();
    })?;
    let latest = offsets::latest(range, shared).await?;
    let earliest = offsets::earliest(range, shared).unwrap_or_default();
    Ok(FromRouter::Offsets { range, earliest, latest })
}

/// One answer, and the stream ends. If it cannot be said, the client is gone.
async fn last_word(send: SendStream, answer: FromRouter) {
    let mut writer = FrameWriter::new(send);
    if writer.write(&Frame::new(answer)).await.is_ok() && writer.finish().is_ok() {
        let _ = writer.stopped().await;
    }
}

/// A bad frame is counted and logged, and the client is told; a broken stream is neither.
pub fn note_bad(error: &StreamError, shared: &Shared) -> Option<WireError> {
    let StreamError::Frame(frame) = error else { return None };
    shared.counters.bad_frames.inc();
    tracing::warn!(%error, "a bad frame from a client; its stream is closed");
    Some(WireError::from(frame.clone()))
}
