//! Connections to other nodes: one each, dialed from here, kept warm; on it a stream a segment.
//!
//! Messages that cannot be sent are dropped: the node repeats what matters, and hears `PeerUp` when a link stands again.

use crate::driver::{Event, Inbox};
use bytes::Bytes;
use quinn::{Connection, Endpoint};
use seam_transport::quic::{self, QuicConfig, connect};
use seam_transport::stream::{FrameSender, WriterLimits, spawn_writer_with};
use seam_wire::frame::Frame;
use seam_wire::msg::Peer;
use seam_wire::{Incarnation, NodeId, SegmentId, TraceContext};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// A stream without a message for so long is finished; the next message opens another.
const IDLE: Duration = Duration::from_secs(20);
const RETRY: Duration = Duration::from_millis(100);
const LIMITS: WriterLimits = WriterLimits { frames: 8192, bytes: 32 << 20 };

struct Stream {
    sender: FrameSender<Peer>,
    used: Instant,
}

struct Link {
    addr: String,
    life: Incarnation,
    connection: Option<Connection>,
    streams: BTreeMap<SegmentId, Stream>,
    task: JoinHandle<()>,
}

pub struct Links {
    endpoint: Endpoint,
    config: QuicConfig,
    inbox: Inbox,
    links: BTreeMap<NodeId, Link>,
    pub dropped: u64,
}

impl Links {
    pub fn new(endpoint: Endpoint, config: QuicConfig, inbox: Inbox) -> Self {
        Links { endpoint, config, inbox, links: BTreeMap::new(), dropped: 0 }
    }

    /// Dials `node` until it answers, and again whenever the link breaks. Idempotent; a new address or life replaces the
    /// old link: a process that was killed never says that its connections are over.
    pub fn dial(&mut self, node: NodeId, name: &str, addr: &str, life: Incarnation) {
        if self.links.get(&node).is_some_and(|link| link.addr == addr && link.life == life) {
            return;
        }
        if let Some(old) = self.links.remove(&node) {
            old.task.abort();
            if let Some(connection) = old.connection {
                connection.close(quic::code::SHUTDOWN, b"another life");
            }
        }
        let keeper = Keeper {
            node,
            name: name.to_owned(),
            addr: addr.to_owned(),
            endpoint: self.endpoint.clone(),
            timeout: self.config.handshake_timeout(),
            inbox: self.inbox.clone(),
        };
        let task = tokio::spawn(keeper.run());
        self.links.insert(node, Link { addr: addr.to_owned(), life, connection: None, streams: BTreeMap::new(), task });
    }

    pub fn up(&mut self, node: NodeId, connection: Connection) {
        if let Some(link) = self.links.get_mut(&node) {
            link.streams.clear();
            link.connection = Some(connection);
        }
    }

    pub fn down(&mut self, node: NodeId) {
        if let Some(link) = self.links.get_mut(&node) {
            link.streams.clear();
            link.connection = None;
        }
    }

    pub fn send(&mut self, to: NodeId, segment: SegmentId, msg: Peer, payload: Bytes, trace: Option<TraceContext>) {
        let sent = self.links.get_mut(&to).is_some_and(|link| {
            let frame = Frame::new(msg).segment(segment).payload(payload).trace(trace);
            link.stream(segment).is_some_and(|stream| {
                stream.used = Instant::now();
                stream.sender.try_send(frame).is_ok()
            })
        });
        if !sent {
            self.dropped += 1;
        }
    }

    pub fn forget(&mut self, segment: SegmentId) {
        for link in self.links.values_mut() {
            link.streams.remove(&segment);
        }
    }

    /// Finishes streams that have nothing to say.
    pub fn sweep(&mut self) {
        for link in self.links.values_mut() {
            link.streams.retain(|_, stream| stream.used.elapsed() < IDLE && !stream.sender.is_closed());
        }
    }
}

impl Link {
    /// The segment's stream, opened if there is none. Opening does not wait: where the peer grants no stream, the message
    /// is dropped like any that cannot be sent.
    fn stream(&mut self, segment: SegmentId) -> Option<&mut Stream> {
        let broken = self.streams.get(&segment).is_some_and(|stream| stream.sender.is_closed());
        if broken {
            self.streams.remove(&segment);
        }
        if !self.streams.contains_key(&segment) {
            let connection = self.connection.as_ref()?;
            let mut opening = std::pin::pin!(connection.open_uni());
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let std::task::Poll::Ready(Ok(stream)) = opening.as_mut().poll(&mut context) else { return None };
            let sender = spawn_writer_with(stream, LIMITS);
            self.streams.insert(segment, Stream { sender, used: Instant::now() });
        }
        self.streams.get_mut(&segment)
    }
}

/// Keeps one link standing.
struct Keeper {
    node: NodeId,
    name: String,
    addr: String,
    endpoint: Endpoint,
    timeout: Duration,
    inbox: Inbox,
}

impl Keeper {
    async fn run(self) {
        let mut told = false;
        loop {
            match connect(&self.endpoint, &self.addr, &self.name, self.timeout).await {
                Ok(connection) => {
                    told = false;
                    let up = Event::LinkUp { node: self.node, connection: connection.clone() };
                    if self.inbox.internal.send(up).is_err() {
                        return;
                    }
                    let why = connection.closed().await;
                    tracing::info!(node = %self.node, %why, "a link broke; dialing again");
                    if self.inbox.internal.send(Event::LinkDown { node: self.node }).is_err() {
                        return;
                    }
                }
                Err(error) => {
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!(node = %self.node, %error, "cannot reach a peer yet; trying on");
                    }
                }
            }
            tokio::time::sleep(RETRY).await;
        }
    }
}
