//! Who may open what: routers bidirectional streams (append, tail, query), other nodes unidirectional ones (messages).

use crate::appends;
use crate::config::Limits;
use crate::counters::Counters;
use crate::driver::Inbox;
use crate::store::Store;
use crate::tails;
use quinn::{RecvStream, SendStream};
use seam_transport::Role;
use seam_transport::quic::{self, Accepted, Acceptor, code};
use seam_transport::stream::{FrameReader, StreamError};
use seam_wire::NodeId;
use seam_wire::msg::{Peer, ToSegd};
use segd_core::io::Input;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio_util::sync::CancellationToken;

/// What every stream's task needs.
#[derive(Clone)]
pub struct Shared {
    pub inbox: Inbox,
    pub store: Arc<Store>,
    pub counters: Arc<Counters>,
    pub limits: Limits,
    pub next_stream: Arc<AtomicU64>,
}

pub async fn accept_loop(mut acceptor: Acceptor, shared: Shared, stop: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            accepted = acceptor.accept() => accepted,
        };
        let Some(Accepted { connection, identity }) = accepted else { return };
        let shared = shared.clone();
        match identity.role {
            Role::Router => {
                tokio::spawn(async move {
                    while let Ok((send, recv)) = connection.accept_bi().await {
                        tokio::spawn(router_stream(send, recv, shared.clone()));
                    }
                });
            }
            Role::Segd => match node_of(&identity.name) {
                Some(node) => {
                    tokio::spawn(async move {
                        while let Ok(recv) = connection.accept_uni().await {
                            tokio::spawn(peer_stream(node, recv, shared.clone()));
                        }
                    });
                }
                None => quic::close(&connection, code::NOT_AUTHORIZED, "a segd certificate must be named segd-<id>"),
            },
            Role::Metad | Role::Client => {
                shared.counters.not_authorized.inc();
                quic::close(&connection, code::NOT_AUTHORIZED, "segd serves routers and other segd nodes only");
            }
        }
    }
}

/// Trust comes from the certificate: a node is who its certificate says.
fn node_of(name: &str) -> Option<NodeId> {
    name.strip_prefix("segd-")?.parse().ok().map(NodeId)
}

async fn peer_stream(from: NodeId, recv: RecvStream, shared: Shared) {
    let mut reader = FrameReader::new(recv);
    loop {
        match reader.read::<Peer>().await {
            Ok(Some(frame)) => {
                let input = Input::Peer {
                    from,
                    segment: frame.segment,
                    msg: frame.msg,
                    payload: frame.payload,
                    trace: frame.trace,
                };
                if !shared.inbox.bring(input).await {
                    return;
                }
            }
            Ok(None) => return,
            Err(error) => return shared.note_bad(&error, from),
        }
    }
}

async fn router_stream(send: SendStream, recv: RecvStream, shared: Shared) {
    let mut reader = FrameReader::new(recv);
    match reader.read::<ToSegd>().await {
        Ok(Some(frame)) => match frame.msg {
            ToSegd::AppendOpen => appends::serve(frame.segment, send, reader, shared).await,
            ToSegd::TailOpen { from, until } => {
                let of = tails::Of { segment: frame.segment, range: frame.range };
                tails::serve(of, from, until, send, reader, shared).await;
            }
            ToSegd::Committed => tails::committed(frame.segment, send, shared).await,
            ToSegd::Append { .. } => {
                shared.counters.bad_frames.inc();
                reader.stop(code::BAD_FRAME);
            }
        },
        Ok(None) => {}
        Err(error) => shared.note_bad(&error, "a router"),
    }
}

impl Shared {
    /// A stream that ended with an error: counted, and logged unless it merely broke.
    pub fn note_bad(&self, error: &StreamError, from: impl std::fmt::Display) {
        if matches!(error, StreamError::Frame(_)) {
            self.counters.bad_frames.inc();
            tracing::warn!(%from, %error, "a bad frame; its stream is closed");
        }
    }
}
