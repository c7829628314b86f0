//! The one task that owns the node: takes what the others bring, calls `handle`, carries out the effects.

use crate::completions::Completions;
use crate::counters::Counters;
use crate::links::Links;
use crate::meta::Reporter;
use crate::store::Store;
use crate::traces::Traces;
use bytes::Bytes;
use quinn::Connection;
use seam_transport::stream::FrameSender;
use seam_wire::frame::Frame;
use seam_wire::meta::{MetaItem, NodeState, NodeView};
use seam_wire::msg::FromSegd;
use seam_wire::{NodeId, Offset, SegmentId, Tick, TraceContext};
use segd_core::io::{Effect, Input, StreamId};
use segd_core::node::{Load, Node};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Inputs taken before effects' side channels get a turn.
const BURST: usize = 256;

/// What tasks bring to the driver.
pub enum Event {
    Input(Input),
    /// A router opened an append stream; replies go to `replies`, `gone` tells the reader to stop.
    StreamOpen {
        stream: StreamId,
        segment: SegmentId,
        replies: FrameSender<FromSegd>,
        gone: CancellationToken,
    },
    /// A connection to another node stands.
    LinkUp {
        node: NodeId,
        connection: Connection,
    },
    LinkDown {
        node: NodeId,
    },
}

/// How others reach the driver. `network` is bounded: its senders wait. `internal` is for completions, bounded by what is
/// under way.
#[derive(Clone)]
pub struct Inbox {
    pub network: mpsc::Sender<Event>,
    pub internal: mpsc::UnboundedSender<Event>,
}

impl Inbox {
    /// From a reader of a stream: waits while the node is busy. False when the node is gone.
    pub async fn bring(&self, input: Input) -> bool {
        self.network.send(Event::Input(input)).await.is_ok()
    }

    /// A completion; never waits.
    pub fn complete(&self, input: Input) {
        // The driver is gone only while the process stops.
        let _ = self.internal.send(Event::Input(input));
    }
}

/// What heartbeats say of the node.
#[derive(Default)]
pub struct Gauges {
    write_bytes_per_s: AtomicU64,
    open_segments: AtomicU64,
    pub disk_failed: AtomicBool,
}

impl Gauges {
    fn set(&self, load: Load) {
        self.write_bytes_per_s.store(load.write_bytes_per_s, Ordering::Relaxed);
        self.open_segments.store(load.open_segments.into(), Ordering::Relaxed);
    }

    pub fn load(&self) -> Load {
        Load {
            write_bytes_per_s: self.write_bytes_per_s.load(Ordering::Relaxed),
            open_segments: u32::try_from(self.open_segments.load(Ordering::Relaxed)).unwrap_or(u32::MAX),
        }
    }
}

pub struct Driver {
    pub node: Node,
    pub store: Arc<Store>,
    pub data_dir: PathBuf,
    pub inbox: Inbox,
    pub network: mpsc::Receiver<Event>,
    pub internal: mpsc::UnboundedReceiver<Event>,
    pub links: Links,
    pub reporter: Reporter,
    pub counters: Arc<Counters>,
    pub gauges: Arc<Gauges>,
    pub streams: BTreeMap<StreamId, (FrameSender<FromSegd>, CancellationToken)>,
    pub completions: Arc<Completions>,
    pub traces: Traces,
    pub started: Instant,
}

impl Driver {
    /// Until `stop` is cancelled. Returns the replicas whose tail is not known.
    pub async fn run(mut self, stop: CancellationToken) -> BTreeSet<SegmentId> {
        let mut gauges_due = Instant::now();
        loop {
            let deadline = self.node.next_deadline().map(|at| self.started + Duration::from_micros(at.0));
            let idle = Instant::now() + Duration::from_millis(500);
            let event = tokio::select! {
                biased;
                () = stop.cancelled() => return self.node.unknown_tails(),
                Some(event) = self.internal.recv() => event,
                Some(event) = self.network.recv() => event,
                () = tokio::time::sleep_until(deadline.unwrap_or(idle).min(idle)) => Event::Input(Input::Tick),
            };
            self.take(event);
            for _ in 0..BURST {
                let Some(event) = self.internal.try_recv().ok().or_else(|| self.network.try_recv().ok()) else { break };
                self.take(event);
            }
            if Instant::now() >= gauges_due {
                gauges_due = Instant::now() + Duration::from_millis(200);
                self.gauges.set(self.node.load(self.now()));
                self.links.sweep();
            }
        }
    }

    fn now(&self) -> Tick {
        Tick(u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Input(input) => {
                if let Input::Meta(update) = &input {
                    update.items.iter().for_each(|item| self.meet(item));
                }
                if let Input::StreamClosed { stream } = &input {
                    self.streams.remove(stream);
                }
                if matches!(input, Input::JournalFailed) {
                    self.gauges.disk_failed.store(true, Ordering::Relaxed);
                }
                self.handle(input);
            }
            Event::StreamOpen { stream, segment, replies, gone } => {
                self.streams.insert(stream, (replies, gone));
                self.handle(Input::StreamOpen { stream, segment });
            }
            Event::LinkUp { node, connection } => {
                self.links.up(node, connection);
                self.handle(Input::PeerUp(node));
            }
            Event::LinkDown { node } => self.links.down(node),
        }
    }

    /// Every live node is dialed as soon as it is known: a connection to a successor's primary is warm before it is needed.
    fn meet(&mut self, item: &MetaItem) {
        match item {
            MetaItem::Node(NodeView { id, name, addr, state, incarnation, .. }) if *id != self.node.id() => match state
            {
                NodeState::Live | NodeState::Draining => self.links.dial(*id, name, addr, *incarnation),
                NodeState::Dead => {} // The link's own task goes on trying: it may return.
            },
            MetaItem::Node(_) | MetaItem::Topic(_) | MetaItem::Segment(_) | MetaItem::Ids { .. } => {}
        }
    }

    fn handle(&mut self, mut input: Input) {
        let mut out = Vec::new();
        self.traces.on_input(&mut input);
        self.node.handle(self.now(), input, &mut out);
        for mut effect in out {
            self.traces.on_effect(&mut effect);
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Persist { token, segment, writes, durability } => {
                if let Err(error) = self.store.persist(token, segment, &writes, durability, &self.completions) {
                    tracing::error!(%error, "the journal takes nothing: this node's replicas are out of service until it is started again");
                    self.inbox.complete(Input::JournalFailed);
                }
            }
            Effect::Found { first } => self.found(first),
            Effect::Read { token, segment, from, max_bytes } => {
                let (store, inbox) = (Arc::clone(&self.store), self.inbox.clone());
                tokio::task::spawn_blocking(move || {
                    let (base, next, payload) = store.read(segment, from, max_bytes).unwrap_or_else(|error| {
                        tracing::debug!(%error, "a read for a replica found nothing yet");
                        (from, from, Bytes::new())
                    });
                    inbox.complete(Input::ReadDone { token, base, next, payload });
                });
            }
            Effect::Send { to, segment, msg, payload, trace } => self.links.send(to, segment, msg, payload, trace),
            Effect::Reply { stream, reply, trace } => self.reply(stream, reply, trace),
            Effect::CloseStream { stream } => {
                if let Some((_, gone)) = self.streams.remove(&stream) {
                    gone.cancel();
                }
            }
            Effect::Publish { segment, start, committed, decision, serves } => {
                self.store.publish(segment, |published| {
                    published.start = published.start.or(start);
                    let reached = published.committed.max(if serves { committed } else { Offset(0) });
                    // A decision changes, and takes back what was committed, by an accepted loss alone.
                    published.committed = decision.map_or(reached, |decision| decision.end);
                    published.decision = decision.or(published.decision);
                    published.serves = serves;
                });
            }
            Effect::LogStart { range, start } => self.store.log_starts(range, start),
            Effect::Forget { segment, log_start } => {
                self.links.forget(segment);
                self.store.forget(segment, log_start);
                self.counters.segments_gone.inc();
                self.counters.segments_trimmed.inc_by(u64::from(log_start.is_some()));
            }
            Effect::Report { id, report, trace } => self.reporter.report(id, report, trace, self.inbox.clone()),
            Effect::Fresh { segment, trace } => {
                self.store.publish(segment, |published| published.fresh = Some(trace));
            }
            Effect::Step(_) => {} // Told to the traces already.
            Effect::Count(counter) => self.counters.count(counter),
            Effect::Note { segment, error } => {
                self.counters.notes.inc();
                tracing::warn!(%segment, %error, "refused");
            }
        }
    }

    /// Until the disk is marked this node opens nothing; if it cannot be, the process must not go on as if it were.
    fn found(&self, first: SegmentId) {
        let (data_dir, inbox) = (self.data_dir.clone(), self.inbox.clone());
        tokio::task::spawn_blocking(move || match crate::identity::found(&data_dir, first) {
            Ok(()) => inbox.complete(Input::Founded { first }),
            Err(error) => {
                tracing::error!(error = format!("{error:#}"), "this node's replicas are out of service");
                inbox.complete(Input::JournalFailed);
            }
        });
    }

    /// A router that does not read its answers loses its stream, and nobody else anything.
    fn reply(&mut self, stream: StreamId, reply: FromSegd, trace: Option<TraceContext>) {
        let Some((replies, gone)) = self.streams.get(&stream) else { return };
        if replies.try_send(Frame::new(reply).trace(trace)).is_err() {
            gone.cancel();
            self.streams.remove(&stream);
            self.counters.slow_streams.inc();
        }
    }
}
