//! The task that owns the appends of one range: feeds `RangeProducer`, carries out its effects.

use crate::shared::Shared;
use bytes::Bytes;
use router_core::producer::{ClientStream, Effect, Input, ProducerCounters, ProducerSeq, UpstreamId};
use router_core::{ProducerSettings, RangeProducer, Tick};
use seam_transport::stream::{FrameReader, FrameSender, WriterLimits, spawn_writer_with};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, FromSegd, ToSegd};
use seam_wire::{NodeId, RangeId, SegmentId};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// What was sent to a segment and not taken by the network yet. The producer's own window is the tighter bound.
const UPSTREAM: WriterLimits = WriterLimits { frames: 65_536, bytes: 128 << 20 };
/// Events handled before deadlines and chain changes get a turn.
const BURST: usize = 256;

/// What tasks bring to a range.
pub enum RangeEvent {
    ClientOpen { client: ClientStream, replies: FrameSender<FromRouter> },
    Append { client: ClientStream, seq: u64, producer: Option<ProducerSeq>, payload: Bytes, deadline: Tick },
    ClientGone { client: ClientStream },
}

enum UpstreamEvent {
    Opened { up: UpstreamId, sender: FrameSender<ToSegd> },
    Message { up: UpstreamId, msg: FromSegd },
    Broken { up: UpstreamId },
}

/// Bounded: client streams wait when the range is busy.
pub type RangeInbox = mpsc::Sender<RangeEvent>;

enum Upstream {
    /// What was sent before the stream stood.
    Opening {
        queued: Vec<Frame<ToSegd>>,
        task: JoinHandle<()>,
    },
    Open {
        sender: FrameSender<ToSegd>,
        task: JoinHandle<()>,
    },
}

struct RangeTask {
    range: RangeId,
    shared: Arc<Shared>,
    producer: RangeProducer,
    upstreams: BTreeMap<UpstreamId, Upstream>,
    clients: BTreeMap<ClientStream, FrameSender<FromRouter>>,
    words: mpsc::UnboundedSender<UpstreamEvent>,
    told: ProducerCounters,
}

pub fn start(range: RangeId, shared: Arc<Shared>) -> RangeInbox {
    let (inbox, events) = mpsc::channel(shared.limits.range_queue.max(1));
    let (words, upstream_events) = mpsc::unbounded_channel();
    let task = RangeTask {
        range,
        producer: RangeProducer::new(range, ProducerSettings::default()),
        shared,
        upstreams: BTreeMap::new(),
        clients: BTreeMap::new(),
        words,
        told: ProducerCounters::default(),
    };
    tokio::spawn(task.run(events, upstream_events));
    inbox
}

impl RangeTask {
    /// For as long as the process lives: a range's task is small, and its warm streams are worth more than its memory.
    async fn run(mut self, mut events: mpsc::Receiver<RangeEvent>, mut words: mpsc::UnboundedReceiver<UpstreamEvent>) {
        let mut version = self.shared.version.subscribe();
        self.handle(Input::ChainChanged);
        loop {
            let deadline = self.producer.next_deadline().map(|tick| self.shared.at(tick));
            tokio::select! {
                biased;
                Some(word) = words.recv() => {
                    self.on_word(word);
                    for _ in 0..BURST {
                        let Ok(word) = words.try_recv() else { break };
                        self.on_word(word);
                    }
                }
                event = events.recv() => {
                    let Some(event) = event else { return };
                    self.on_event(event);
                    for _ in 0..BURST {
                        let Ok(event) = events.try_recv() else { break };
                        self.on_event(event);
                    }
                }
                changed = version.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.handle(Input::ChainChanged);
                }
                () = tokio::time::sleep_until(deadline.unwrap_or_else(tokio::time::Instant::now)), if deadline.is_some() => {
                    self.handle(Input::Tick);
                }
            }
            self.tell_counters();
        }
    }

    fn on_event(&mut self, event: RangeEvent) {
        match event {
            RangeEvent::ClientOpen { client, replies } => {
                self.clients.insert(client, replies);
            }
            RangeEvent::Append { client, seq, producer, payload, deadline } => {
                self.handle(Input::Append { client, seq, producer, payload, deadline });
            }
            RangeEvent::ClientGone { client } => {
                self.clients.remove(&client);
                self.handle(Input::ClientGone { client });
            }
        }
    }

    fn on_word(&mut self, word: UpstreamEvent) {
        match word {
            UpstreamEvent::Opened { up, sender } => {
                let Some(upstream) = self.upstreams.remove(&up) else { return };
                let Upstream::Opening { queued, task } = upstream else { return };
                let sent = queued.into_iter().all(|frame| sender.try_send(frame).is_ok());
                self.upstreams.insert(up, Upstream::Open { sender, task });
                if !sent {
                    self.drop_upstream(up);
                    self.handle(Input::UpstreamBroken { up });
                }
            }
            UpstreamEvent::Message { up, msg } => self.handle(Input::FromSegd { up, msg }),
            UpstreamEvent::Broken { up } => {
                self.drop_upstream(up);
                self.handle(Input::UpstreamBroken { up });
            }
        }
    }

    fn handle(&mut self, input: Input) {
        let mut out = Vec::new();
        let now = self.shared.now();
        self.producer.handle(now, input, &self.shared.chains.read(), &mut out);
        let mut broken = Vec::new();
        for effect in out {
            self.carry_out(effect, &mut broken);
        }
        for up in broken {
            self.drop_upstream(up);
            self.handle(Input::UpstreamBroken { up });
        }
    }

    fn carry_out(&mut self, effect: Effect, broken: &mut Vec<UpstreamId>) {
        match effect {
            Effect::OpenUpstream { up, segment, node } | Effect::WarmUpstream { up, segment, node } => {
                let opening = open(self.range, up, segment, node, Arc::clone(&self.shared), self.words.clone());
                let task = tokio::spawn(opening);
                self.upstreams.insert(up, Upstream::Opening { queued: Vec::new(), task });
            }
            Effect::Send { up, segment, seq, payload } => {
                let frame = Frame::new(ToSegd::Append { seq }).range(self.range).segment(segment).payload(payload);
                match self.upstreams.get_mut(&up) {
                    Some(Upstream::Opening { queued, .. }) => queued.push(frame),
                    Some(Upstream::Open { sender, .. }) => {
                        if sender.try_send(frame).is_err() && !broken.contains(&up) {
                            broken.push(up);
                        }
                    }
                    None => {}
                }
            }
            Effect::AckClient { client, seq, base_offset } => {
                self.reply(client, FromRouter::AppendAck { seq, base_offset });
            }
            Effect::FailClient { client, seq, error } => self.reply(client, FromRouter::AppendError { seq, error }),
            Effect::CloseUpstream { up, .. } => self.drop_upstream(up),
        }
    }

    /// A client that does not read its answers loses its stream; its appends go on.
    fn reply(&mut self, client: ClientStream, reply: FromRouter) {
        let Some(replies) = self.clients.get(&client) else { return };
        if replies.try_send(Frame::new(reply).range(self.range)).is_err() {
            self.clients.remove(&client);
        }
    }

    fn drop_upstream(&mut self, up: UpstreamId) {
        match self.upstreams.remove(&up) {
            Some(Upstream::Opening { task, .. } | Upstream::Open { task, .. }) => task.abort(),
            None => {}
        }
    }

    fn tell_counters(&mut self) {
        let (now, told) = (self.producer.counters(), self.told);
        let counters = &self.shared.counters;
        for (counter, now, told) in [
            (&counters.appends, now.appends, told.appends),
            (&counters.acks, now.acks, told.acks),
            (&counters.failed, now.failed, told.failed),
            (&counters.overloaded, now.overloaded, told.overloaded),
            (&counters.expired, now.expired, told.expired),
            (&counters.moved, now.moved, told.moved),
            (&counters.moved_batches, now.moved_batches, told.moved_batches),
            (&counters.warm_moves, now.warm_moves, told.warm_moves),
            (&counters.resends, now.resends, told.resends),
            (&counters.upstream_breaks, now.upstream_breaks, told.upstream_breaks),
            (&counters.anomalies, now.anomalies, told.anomalies),
        ] {
            if now > told {
                counter.inc_by(now - told);
            }
        }
        self.told = now;
    }
}

/// Opens an append stream and reads what comes on it, until it ends or the range drops it.
async fn open(
    range: RangeId,
    up: UpstreamId,
    segment: SegmentId,
    node: NodeId,
    shared: Arc<Shared>,
    words: mpsc::UnboundedSender<UpstreamEvent>,
) {
    // The range's task is gone only while the process stops.
    let tell = |word| words.send(word).is_ok();
    let (send, recv) = match shared.upstreams.open(node).await {
        Ok(stream) => stream,
        Err(why) => {
            tracing::debug!(%segment, %why, "an append stream could not be opened");
            tell(UpstreamEvent::Broken { up });
            return;
        }
    };
    let sender = spawn_writer_with::<ToSegd>(send, UPSTREAM);
    let mut reader = FrameReader::new(recv);
    let first = Frame::new(ToSegd::AppendOpen).range(range).segment(segment);
    if sender.try_send(first).is_err() || !tell(UpstreamEvent::Opened { up, sender }) {
        tell(UpstreamEvent::Broken { up });
        return;
    }
    loop {
        match reader.read::<FromSegd>().await {
            Ok(Some(frame)) => {
                if !tell(UpstreamEvent::Message { up, msg: frame.msg }) {
                    return;
                }
            }
            Ok(None) => break,
            Err(error) => {
                tracing::debug!(%segment, %error, "an append stream broke");
                break;
            }
        }
    }
    tell(UpstreamEvent::Broken { up });
}
