//! The task of one range of a producer: carries out what the machine decides, and decides nothing. One task, whatever the
//! number of records; it wakes when a batch is due, when answers come, and at deadlines.

use super::builder::CompletionSink;
use super::inbox::{Inbox, Waiter};
use super::open::{ProduceStream, open};
use super::room::Room;
use super::traces::Traces;
use crate::client::Client;
use crate::record::Ack;
use client_core::SendError;
use client_core::producer::{Effect, Input, RangeProducer, StreamId};
use futures::FutureExt;
use futures::future::BoxFuture;
use seam_transport::stream::StreamError;
use seam_wire::Tick;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::watch;

/// Answers taken in one go before batches are looked at again.
const ANSWERS_IN_ONE_GO: usize = 64;

/// What the drivers of a producer share.
pub(super) struct Common {
    pub client: Client,
    pub topic: String,
    pub room: Room,
    pub sink: Option<CompletionSink>,
    pub trace_share: f64,
    /// Drivers that run.
    pub running: watch::Sender<usize>,
}

struct Opened {
    id: StreamId,
    /// The connection that was tried.
    generation: Option<u64>,
    result: Result<ProduceStream, WireError>,
}

pub(super) struct Driver {
    common: Arc<Common>,
    inbox: Arc<Inbox>,
    index: u32,
    machine: RangeProducer<Waiter>,
    effects: Vec<Effect<Waiter>>,
    opening: Option<BoxFuture<'static, Opened>>,
    stream: Option<(StreamId, ProduceStream)>,
    /// The connection of the last stream.
    last_generation: Option<u64>,
    traces: Traces,
}

impl Driver {
    pub fn new(common: Arc<Common>, inbox: Arc<Inbox>, index: u32, machine: RangeProducer<Waiter>) -> Self {
        let traces = Traces::new(common.trace_share);
        Driver {
            traces,
            common,
            inbox,
            index,
            machine,
            effects: Vec::new(),
            opening: None,
            stream: None,
            last_generation: None,
        }
    }

    /// Until the inbox is closed and all it held has its outcome.
    pub async fn run(mut self) {
        let wake = Arc::clone(&self.inbox.wake);
        let clock = self.common.client.inner.clock;
        let sleep = tokio::time::sleep_until(tokio::time::Instant::now());
        let mut sleep = std::pin::pin!(sleep);
        let mut armed: Option<Tick> = None;
        self.machine.warm(clock.now(), &mut self.effects);
        self.carry_out();
        while !self.pump() {
            // Deadlines mostly move later: the timer is set anew only when one moves earlier, or it has fired.
            let deadline = self.deadline();
            if let Some(deadline) = deadline
                && armed.is_none_or(|armed| deadline < armed)
            {
                armed = Some(deadline);
                sleep.as_mut().reset(clock.instant(deadline).into());
            }
            tokio::select! {
                answer = next_answer(&mut self.stream) => self.on_answers(answer),
                opened = next_opened(&mut self.opening) => self.on_opened(opened),
                () = wake.notified() => {}
                () = &mut sleep, if armed.is_some() => armed = None,
            }
        }
        self.common.running.send_modify(|running| *running -= 1);
    }

    /// Moves batches from the inbox to the machine. True: there is nothing left to do, ever.
    fn pump(&mut self) -> bool {
        let now = self.common.client.inner.clock.now();
        if self.machine.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.handle(now, Input::Tick);
        }
        loop {
            let mut contents = self.inbox.lock();
            if let Some(expired) = contents.records.take_expired(now) {
                drop(contents);
                let detail = "it waited for older batches until the deadline; the cluster does not keep up, or is away";
                let error = SendError::retry(ErrorCode::DeadlineExceeded, detail);
                self.done(expired.waiters, expired.cost, Err(error));
                continue;
            }
            let batch = if self.machine.room() > 0 { contents.records.take(now) } else { None };
            if let Some(batch) = batch {
                drop(contents);
                self.handle(now, Input::Batch(batch));
                continue;
            }
            let settled_below = self.machine.first_order().unwrap_or_else(|| contents.records.first_order());
            for (_, told) in contents.flushes.extract_if(.., |(below, _)| *below <= settled_below) {
                let _ = told.send(());
            }
            contents.done = contents.closed && contents.records.is_empty() && self.machine.is_idle();
            return contents.done;
        }
    }

    fn deadline(&self) -> Option<Tick> {
        let waiting = self.inbox.lock().records.next_deadline();
        waiting.into_iter().chain(self.machine.next_deadline()).min()
    }

    fn handle(&mut self, now: Tick, input: Input<Waiter>) {
        self.machine.handle(now, input, &mut self.effects);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        let mut broken = None;
        for effect in std::mem::take(&mut self.effects) {
            match effect {
                Effect::Open { stream, elsewhere } => self.open(stream, elsewhere),
                Effect::Send { stream, seq, payload } => {
                    if let Err(detail) = self.send(stream, seq, payload) {
                        broken = Some((stream, detail));
                    }
                }
                Effect::Close { stream } => {
                    self.stream.take_if(|(id, _)| *id == stream);
                    self.opening = None;
                }
                Effect::Done { waiters, cost, result } => self.done(waiters, cost, result),
            }
        }
        if let Some((stream, detail)) = broken {
            self.stream = None;
            self.handle(self.common.client.inner.clock.now(), Input::Broken { stream, detail });
        }
    }

    fn open(&mut self, id: StreamId, elsewhere: bool) {
        self.stream = None;
        self.traces.clear();
        let avoid = self.last_generation.filter(|_| elsewhere);
        let (common, index) = (Arc::clone(&self.common), self.index);
        self.opening = Some(Box::pin(async move {
            let mut generation = None;
            let result = match common.client.inner.lane() {
                Ok(lane) => open(lane, avoid, common.topic.clone(), index, &mut generation).await,
                Err(error) => Err(error),
            };
            Opened { id, generation, result }
        }));
    }

    fn send(&mut self, id: StreamId, seq: u64, payload: bytes::Bytes) -> Result<(), String> {
        let Some((_, stream)) = self.stream.as_mut().filter(|(open, _)| *open == id) else {
            return Err("the stream is gone".to_owned());
        };
        let trace = self.traces.sent(id, seq);
        let frame = Frame::new(ToRouter::Append { seq }).range(stream.range).payload(payload).trace(trace);
        stream.sender.try_send(frame).map_err(|error| format!("{}: {error}", stream.live.router))
    }

    fn done(&self, waiters: Vec<Waiter>, cost: usize, result: Result<seam_wire::Offset, SendError>) {
        let done = Instant::now();
        self.common.room.give_back(cost);
        let sink = self.common.sink.as_deref();
        for (waiter, index) in waiters.into_iter().zip(0u64..) {
            let result = match &result {
                Ok(base) => Ok(Ack { range: self.index, offset: base.plus(index) }),
                Err(error) => Err(error.clone()),
            };
            waiter.tell(done, result, sink);
        }
    }

    fn on_opened(&mut self, opened: Opened) {
        self.opening = None;
        let Opened { id, generation, result } = opened;
        self.last_generation = generation.or(self.last_generation);
        let now = self.common.client.inner.clock.now();
        match result {
            Ok(stream) => {
                self.inbox.lock().records.limit_batch_bytes(stream.max_batch_bytes as usize);
                self.stream = Some((id, stream));
                self.handle(now, Input::Opened { stream: id });
            }
            Err(error) => {
                tracing::debug!(topic = %self.common.topic, range = self.index, %error, "no produce stream");
                self.handle(now, Input::Refused { stream: id, error });
            }
        }
    }

    /// Takes an answer and those that have come with it.
    fn on_answers(&mut self, first: (StreamId, Answer)) {
        let mut answer = Some(first);
        for _ in 0..ANSWERS_IN_ONE_GO {
            let Some((id, next)) = answer else {
                return;
            };
            self.on_answer(id, next);
            answer = next_answer(&mut self.stream).now_or_never();
        }
        if let Some((id, last)) = answer {
            self.on_answer(id, last);
        }
    }

    fn on_answer(&mut self, stream: StreamId, answer: Answer) {
        let now = self.common.client.inner.clock.now();
        let (answer, trace) = match answer {
            Ok(Some(frame)) => (Ok(Some(frame.msg)), frame.trace),
            Ok(None) => (Ok(None), None),
            Err(error) => (Err(error), None),
        };
        if let Ok(Some(FromRouter::AppendAck { seq, .. } | FromRouter::AppendError { seq, .. })) = &answer {
            self.traces.answered(stream, *seq, trace);
        }
        let input = match answer {
            Ok(Some(FromRouter::AppendAck { seq, base_offset })) => Input::Ack { stream, seq, base_offset },
            Ok(Some(FromRouter::AppendError { seq, error })) => Input::Failed { stream, seq, error },
            Ok(Some(FromRouter::Error { error })) => {
                self.stream = None;
                Input::Refused { stream, error }
            }
            Ok(Some(
                other @ (FromRouter::ProduceOpened { .. }
                | FromRouter::TailOpened { .. }
                | FromRouter::Records { .. }
                | FromRouter::TailEnd { .. }
                | FromRouter::Offsets { .. }),
            )) => self.broken(stream, &format!("{other:?} has no place on a produce stream")),
            Ok(None) => self.broken(stream, "the router ended the stream"),
            Err(error) => self.broken(stream, &error.to_string()),
        };
        self.handle(now, input);
    }

    fn broken(&mut self, stream: StreamId, detail: &str) -> Input<Waiter> {
        let open = self.stream.take();
        let router = open.map_or_else(|| "router".into(), |(_, open)| Arc::clone(&open.live.router));
        tracing::debug!(%router, topic = %self.common.topic, range = self.index, detail, "produce stream broke");
        Input::Broken { stream, detail: format!("{router}: {detail}") }
    }
}

type Answer = Result<Option<Frame<FromRouter>>, StreamError>;

/// Cancel safe.
async fn next_answer(stream: &mut Option<(StreamId, ProduceStream)>) -> (StreamId, Answer) {
    match stream {
        Some((id, stream)) => (*id, stream.reader.read().await),
        None => std::future::pending().await,
    }
}

/// Cancel safe.
async fn next_opened(opening: &mut Option<BoxFuture<'static, Opened>>) -> Opened {
    match opening {
        Some(opening) => opening.await,
        None => std::future::pending().await,
    }
}
