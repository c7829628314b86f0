//! Who may connect (clients, by their certificate), and what each of their streams is for.

use crate::context::Context;
use crate::ranges::Ranges;
use crate::{offsets, produce, tail};
use quinn::{RecvStream, SendStream};
use seam_transport::Role;
use seam_transport::quic::{self, Accepted, Acceptor, code};
use seam_transport::stream::{FrameReader, FrameWriter, StreamError};
use seam_wire::RangeId;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use std::sync::Arc;
use std::time::Duration;

/// A client gets this long to take a stream's last word.
const ARRIVAL: Duration = Duration::from_secs(1);

/// What the listener hands to every stream.
#[derive(Clone)]
pub struct Door {
    pub context: Arc<Context>,
    pub ranges: Arc<Ranges>,
}

pub async fn accept_loop(mut acceptor: Acceptor, door: Door) {
    loop {
        let accepted = tokio::select! {
            () = door.context.stop.cancelled() => return,
            accepted = acceptor.accept() => accepted,
        };
        let Some(Accepted { connection, identity }) = accepted else { return };
        match identity.role {
            Role::Client => {
                let door = door.clone();
                tokio::spawn(async move {
                    while let Ok((send, recv)) = connection.accept_bi().await {
                        door.context.streams.spawn(stream(door.clone(), Arc::clone(&identity.name), send, recv));
                    }
                });
            }
            Role::Metad | Role::Segd | Role::Router => {
                door.context.counters.not_authorized.inc();
                tracing::warn!(peer = %identity, "a router serves clients only");
                quic::close(&connection, code::NOT_AUTHORIZED, "a router serves clients only");
            }
        }
    }
}

async fn stream(door: Door, peer: Arc<str>, send: SendStream, recv: RecvStream) {
    let mut reader = FrameReader::new(recv);
    let context = Arc::clone(&door.context);
    match reader.read::<ToRouter>().await {
        Ok(Some(Frame { msg, .. })) => match msg {
            ToRouter::ProduceOpen { topic, range_index } => match resolve(&context, &topic, range_index) {
                Ok(range) => produce::serve(door, peer, range, send, reader).await,
                Err(error) => refuse(&context, send, error).await,
            },
            ToRouter::TailOpen { topic, range_index, from, follow } => match resolve(&context, &topic, range_index) {
                Ok(range) => tail::serve(context, range, from, follow, send).await,
                Err(error) => refuse(&context, send, error).await,
            },
            ToRouter::Offsets { topic, range_index } => match resolve(&context, &topic, range_index) {
                Ok(range) => offsets::answer(&context, range, send).await,
                Err(error) => refuse(&context, send, error).await,
            },
            ToRouter::Append { .. } => {
                context.counters.bad_frame(&peer, "order", &"an append on a stream that was not opened for it");
                reader.stop(code::BAD_FRAME);
                let detail = "a produce stream begins with ProduceOpen, not with an append";
                refuse(&context, send, WireError::refused(ErrorCode::InvalidArgument, detail)).await;
            }
        },
        Ok(None) => {}
        Err(error) => {
            note_bad(&context, &peer, &error);
            if let StreamError::Frame(error) = error {
                refuse(&context, send, error.into()).await;
            }
        }
    }
}

fn resolve(context: &Context, topic: &str, index: u32) -> Result<RangeId, WireError> {
    context.picture.read().resolve(topic, index)
}

/// Tells the client why its stream is over.
pub async fn refuse(context: &Context, send: SendStream, error: WireError) {
    context.counters.stream_error(error.code);
    last_word(FrameWriter::new(send), FromRouter::Error { error }).await;
}

/// Writes one message and ends the stream. Errors mean that the client is gone.
pub async fn last_word(mut writer: FrameWriter, msg: FromRouter) {
    if writer.write(&Frame::new(msg)).await.is_ok() && writer.finish().is_ok() {
        // At a stop the connection is closed when this task is over, and what has not arrived then is lost.
        let _ = tokio::time::timeout(ARRIVAL, writer.stopped()).await;
    }
}

/// A stream that ended with an error: counted, and logged once per peer, unless it merely broke.
pub fn note_bad(context: &Context, peer: &str, error: &StreamError) {
    match error {
        StreamError::Frame(_) => context.counters.bad_frame(peer, "frame", error),
        StreamError::Truncated { .. } => context.counters.bad_frame(peer, "truncated", error),
        StreamError::Read(_)
        | StreamError::Write(_)
        | StreamError::Connection(_)
        | StreamError::OpenTimeout { .. }
        | StreamError::Finished => {}
    }
}
