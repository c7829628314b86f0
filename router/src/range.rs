//! One range's producer core with its clients and its upstream streams. Any task feeds it; effects are carried out under
//! its lock and never wait, so that their order is the core's.

use crate::context::Context;
use crate::traces::{Ahead, Traces, record};
use crate::upstream::{self, Pipe};
use parking_lot::Mutex;
use router_core::Tick;
use router_core::producer::{ClientStream, Effect, Input, ProducerCounters, ProducerSeq, RangeProducer, UpstreamId};
use seam_transport::stream::{FrameSender, TrySendError};
use seam_wire::batch::BatchHeader;
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, FromSegd, ToSegd};
use seam_wire::{NodeId, RangeId, SegmentId, TraceContext};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub struct Range {
    pub id: RangeId,
    pub context: Arc<Context>,
    state: Mutex<State>,
    /// Appends wait here while the range is full.
    room: Notify,
    /// A deadline is earlier than the one slept for.
    kick: Notify,
    over: CancellationToken,
}

struct State {
    core: RangeProducer,
    counted: ProducerCounters,
    clients: HashMap<ClientStream, Client>,
    upstreams: HashMap<UpstreamId, Upstream>,
    armed: Option<Tick>,
    idle_since: Option<Instant>,
    effects: Vec<Effect>,
    traces: Traces,
}

struct Client {
    replies: FrameSender<FromRouter>,
    /// Appends not answered yet.
    unanswered: u64,
    /// It said that no append follows; the stream ends with its last answer.
    done: bool,
    cut: CancellationToken,
}

struct Upstream {
    pipe: Pipe,
    segment: SegmentId,
    /// Dialed ahead of a roll that is traced.
    ahead: Option<Ahead>,
    /// When the first append was sent.
    first_sent: Option<Instant>,
    /// Its last answer said that it takes no more, and that what it has will be answered.
    moved: bool,
    task: AbortHandle,
}

impl Drop for Upstream {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What `/status` shows of a range.
pub struct RangeStatus {
    pub range: RangeId,
    pub head: Option<SegmentId>,
    pub clients: usize,
    pub inflight_batches: usize,
    pub inflight_bytes: usize,
    pub upstreams: usize,
    pub warm_streams: usize,
}

impl Range {
    /// A range with its task: chain changes, deadlines, idleness.
    pub fn start(id: RangeId, context: Arc<Context>) -> Arc<Range> {
        let state = State {
            core: RangeProducer::new(id, context.limits.producer()),
            counted: ProducerCounters::default(),
            clients: HashMap::new(),
            upstreams: HashMap::new(),
            armed: None,
            idle_since: Some(Instant::now()),
            effects: Vec::new(),
            traces: Traces::default(),
        };
        let over = CancellationToken::new();
        let (room, kick) = (Notify::new(), Notify::new());
        let range = Arc::new(Range { id, context, state: Mutex::new(state), room, kick, over });
        tokio::spawn(Arc::clone(&range).run());
        range
    }

    async fn run(self: Arc<Self>) {
        let mut changed = self.context.picture.subscribe(self.id);
        self.feed(Input::ChainChanged);
        loop {
            let armed = self.state.lock().armed.map(|at| self.context.clock.instant(at));
            tokio::select! {
                biased;
                () = self.over.cancelled() => return,
                alive = changed.changed() => match alive {
                    Ok(()) => self.feed(Input::ChainChanged),
                    Err(_) => return,
                },
                () = self.kick.notified() => {}
                () = crate::clock::sleep_until(armed) => {
                    self.state.lock().armed = None;
                    self.feed(Input::Tick);
                }
            }
        }
    }

    /// Brings one input to the core and carries out what follows.
    pub fn feed(self: &Arc<Self>, input: Input) {
        let mut state = self.state.lock();
        self.feed_locked(&mut state, input);
    }

    /// A message of an upstream stream. What belongs to a traced roll is told to its trace.
    pub fn from_segd(self: &Arc<Self>, up: UpstreamId, frame: Frame<FromSegd>) {
        let mut state = self.state.lock();
        let came = Instant::now();
        let (trace, moved) = (frame.trace, matches!(frame.msg, FromSegd::Moved { .. }));
        let (mut segment, mut first) = (SegmentId::default(), None);
        if let Some(upstream) = state.upstreams.get_mut(&up) {
            segment = upstream.segment;
            if matches!(frame.msg, FromSegd::AppendOpened)
                && let Some(ahead) = upstream.ahead.take()
            {
                ahead.opened("router.open_successor", segment);
            }
            if matches!(frame.msg, FromSegd::AppendAck { .. }) {
                let since = upstream.first_sent.unwrap_or(came).into_std();
                first = trace.and_then(|trace| record("router.first_ack", &trace, since, segment));
            }
        }
        state.traces.first_ack = first;
        self.feed_locked(&mut state, Input::FromSegd { up, msg: frame.msg });
        state.traces.first_ack = None;
        if let Some(trace) = trace.filter(|_| moved) {
            record("router.moved", &trace, came.into_std(), segment);
        }
    }

    fn feed_locked(self: &Arc<Self>, state: &mut State, input: Input) {
        let now = self.context.clock.now();
        let mut effects = std::mem::take(&mut state.effects);
        if let Input::FromSegd { up, msg: FromSegd::Moved { .. } } = &input
            && let Some(upstream) = state.upstreams.get_mut(up)
        {
            upstream.moved = true;
        }
        let broken = if let Input::UpstreamBroken { up } = &input { Some(*up) } else { None };
        state.core.handle(now, input, &self.context.picture.read(), &mut effects);
        if let Some(up) = broken {
            state.upstreams.remove(&up);
        }
        let mut freed = false;
        for effect in effects.drain(..) {
            freed |= self.carry_out(state, effect);
        }
        state.effects = effects;
        self.context.counters.producer(&mut state.counted, state.core.counters());
        if freed {
            self.room.notify_waiters();
        }
        let next = state.core.next_deadline();
        if let Some(next) = next.filter(|next| state.armed.is_none_or(|armed| *next < armed)) {
            state.armed = Some(next);
            self.kick.notify_one();
        }
    }

    /// True if an append was answered.
    fn carry_out(self: &Arc<Self>, state: &mut State, effect: Effect) -> bool {
        match effect {
            Effect::OpenUpstream { up, segment, node } | Effect::WarmUpstream { up, segment, node } => {
                self.open(state, up, segment, node);
            }
            Effect::Send { up, segment, seq, payload, trace } => {
                if let Some(upstream) = state.upstreams.get_mut(&up) {
                    upstream.first_sent.get_or_insert_with(Instant::now);
                    let frame = Frame::new(ToSegd::Append { seq }).range(self.id).segment(segment).payload(payload);
                    upstream.pipe.send(frame.trace(trace));
                }
            }
            Effect::CloseUpstream { up, segment: _ } => {
                state.upstreams.remove(&up);
            }
            Effect::AckClient { client, seq, base_offset } => {
                state.traces.answered(client, seq);
                self.reply(state, client, FromRouter::AppendAck { seq, base_offset });
                return true;
            }
            Effect::FailClient { client, seq, error } => {
                state.traces.answered(client, seq);
                self.reply(state, client, FromRouter::AppendError { seq, error });
                return true;
            }
        }
        false
    }

    fn open(self: &Arc<Self>, state: &mut State, up: UpstreamId, segment: SegmentId, node: NodeId) {
        let task = tokio::spawn(upstream::run(Arc::clone(self), up, segment, node)).abort_handle();
        let ahead = self.context.picture.read().trace_into(segment).map(Ahead::now);
        let pipe = Pipe::Opening(Vec::new());
        state.upstreams.insert(up, Upstream { pipe, segment, ahead, first_sent: None, moved: false, task });
    }

    fn reply(&self, state: &mut State, client: ClientStream, msg: FromRouter) {
        let Some(to) = state.clients.get_mut(&client) else {
            return; // It went away; nobody waits for the answer.
        };
        to.unanswered = to.unanswered.saturating_sub(1);
        let sent = to.replies.try_send(Frame::new(msg).range(self.id).trace(state.traces.first_ack));
        let over = match sent {
            Ok(()) => to.done && to.unanswered == 0,
            Err(TrySendError::Full(_)) => {
                self.context.counters.slow_clients.inc();
                to.cut.cancel();
                true
            }
            Err(TrySendError::Stream(_)) => true,
        };
        if over {
            state.clients.remove(&client);
        }
    }

    /// The upstream stream stands.
    pub fn attach(&self, up: UpstreamId, sender: FrameSender<ToSegd>) {
        if let Some(upstream) = self.state.lock().upstreams.get_mut(&up) {
            upstream.pipe.open(sender);
        }
    }

    /// Whether the stream still owes an explanation for being stopped.
    pub fn awaits_word(&self, up: UpstreamId) -> bool {
        self.state.lock().upstreams.get(&up).is_some_and(|upstream| !upstream.moved)
    }

    /// A client's produce stream begins. `cut` ends it from here.
    pub fn join(&self, client: ClientStream, replies: FrameSender<FromRouter>, cut: CancellationToken) {
        let mut state = self.state.lock();
        state.idle_since = None;
        state.clients.insert(client, Client { replies, unanswered: 0, done: false, cut });
    }

    /// Takes an append, waiting while the range is full. Its answer goes to the client's replies.
    pub async fn append(
        self: &Arc<Self>,
        client: ClientStream,
        seq: u64,
        header: &BatchHeader,
        payload: bytes::Bytes,
        trace: Option<TraceContext>,
    ) {
        let bytes = payload.len();
        if !self.state.lock().core.has_room(bytes) {
            self.wait_for_room(bytes).await;
        }
        let producer = header.producer.map(|(id, epoch, base_sequence)| ProducerSeq { id, epoch, base_sequence });
        let deadline = self.context.clock.now().after_us(self.context.limits.append_deadline_ms.saturating_mul(1_000));
        let mut state = self.state.lock();
        if let Some(from) = state.clients.get_mut(&client) {
            from.unanswered += 1;
        }
        let trace = state.traces.append(client, seq, trace);
        self.feed_locked(&mut state, Input::Append { client, seq, producer, payload, deadline, trace });
    }

    async fn wait_for_room(&self, bytes: usize) {
        self.context.counters.waits_for_room.inc();
        let give_up = Instant::now() + Duration::from_millis(self.context.limits.room_wait_ms);
        loop {
            let mut notified = std::pin::pin!(self.room.notified());
            notified.as_mut().enable();
            if self.state.lock().core.has_room(bytes) || tokio::time::timeout_at(give_up, notified).await.is_err() {
                return; // At the end of patience the core refuses it, with the reason.
            }
        }
    }

    /// The client says that no append follows: its stream ends with the last answer.
    pub fn finish(&self, client: ClientStream) {
        let mut state = self.state.lock();
        if let Some(from) = state.clients.get_mut(&client) {
            from.done = true;
            if from.unanswered == 0 {
                state.clients.remove(&client);
            }
        }
        note_idle(&mut state);
    }

    /// The client's stream broke.
    pub fn leave(self: &Arc<Self>, client: ClientStream) {
        let mut state = self.state.lock();
        state.clients.remove(&client);
        state.traces.gone(client);
        self.feed_locked(&mut state, Input::ClientGone { client });
        note_idle(&mut state);
    }

    /// Whether nobody has used it for `for_at_least`, or its topic is gone and nobody is there.
    pub fn is_over(&self, for_at_least: Duration) -> bool {
        let deleted = self.context.picture.read().deleted(self.id);
        let mut state = self.state.lock();
        note_idle(&mut state);
        state.idle_since.is_some_and(|since| deleted || since.elapsed() >= for_at_least)
    }

    pub fn status(&self) -> RangeStatus {
        let state = self.state.lock();
        let (inflight_batches, inflight_bytes) = state.core.inflight();
        RangeStatus {
            range: self.id,
            head: state.core.head(),
            clients: state.clients.len(),
            inflight_batches,
            inflight_bytes,
            upstreams: state.upstreams.len(),
            warm_streams: state.core.warm_streams(),
        }
    }

    /// Ends its task and streams.
    pub fn close(&self) {
        self.over.cancel();
        let mut state = self.state.lock();
        state.upstreams.clear();
        state.clients.clear();
    }
}

fn note_idle(state: &mut State) {
    if !state.clients.is_empty() || !state.core.is_idle() {
        state.idle_since = None;
    } else if state.idle_since.is_none() {
        state.idle_since = Some(Instant::now());
    }
}
