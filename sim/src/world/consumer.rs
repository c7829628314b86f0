//! A consuming application around a real client-core tail: opens, follows, and shows the oracle what it got.

use super::World;
use super::client::TOPIC;
use super::event::{Proc, What};
use super::net::{Frame, PipeId};
use super::oracle::Value;
use super::plan::Plan;
use super::sometimes::Sometimes;
use super::trace::trace;
use bytes::Bytes;
use client_core::tail::{Tail, TailEffect, TailInput, TailSettings};
use seam_wire::Offset;
use seam_wire::batch::{self, BatchHeader};
use seam_wire::msg::{FromRouter, TailFrom, ToRouter};

pub struct Consumer {
    core: Tail,
    from: TailFrom,
    /// The first offset it was given.
    pub first: Option<Offset>,
    pub range_index: u32,
    /// Ends at the end found when it opens.
    bounded: bool,
    pub finished: bool,
    router: u8,
    pipe: Option<PipeId>,
    payload: Bytes,
}

fn settings() -> TailSettings {
    TailSettings {
        retry_min_us: 5_000,
        retry_max_us: 100_000,
        unknown_patience_us: 60_000_000,
        ..TailSettings::default()
    }
}

impl Consumer {
    pub fn new(n: u8, plan: &Plan) -> Self {
        let from = match n % 3 {
            0 => TailFrom::Earliest,
            1 => TailFrom::Latest,
            _ => TailFrom::Offset(Offset(0)),
        };
        Consumer::made(from, u32::from(n) % plan.topic.ranges, n % plan.sizes.routers, false)
    }

    /// Reads all there is, once.
    pub fn full_read(range_index: u32) -> Self {
        Consumer::made(TailFrom::Earliest, range_index, 0, true)
    }

    fn made(from: TailFrom, range_index: u32, router: u8, bounded: bool) -> Self {
        Consumer {
            core: Tail::new(from, settings()),
            from,
            first: None,
            range_index,
            bounded,
            finished: false,
            router,
            pipe: None,
            payload: Bytes::new(),
        }
    }

    pub fn is_full_read(&self) -> bool {
        self.bounded
    }

    /// It reads by this router now.
    pub fn is_at(&self, router: u8) -> bool {
        self.pipe.is_some() && self.router == router
    }

    pub fn next_offset(&self) -> Option<Offset> {
        self.core.next_offset()
    }
}

impl World {
    fn consumer(&mut self, n: u8) -> &mut Consumer {
        &mut self.consumers[usize::from(n)]
    }

    fn consumer_proc(&self, n: u8) -> Proc {
        Proc::Client(self.plan.sizes.producers + n)
    }

    pub(super) fn start_consumer(&mut self, n: u8) {
        let me = self.consumer_proc(n);
        let at = self.now + if n == 0 { 130_000 } else { self.dice(me).between(130_000, 600_000) };
        self.at(at, me, What::Load);
    }

    /// Takes the place of consumer `n` to read everything once, from the earliest offset to the end.
    pub(super) fn begin_full_read(&mut self, n: u8, range_index: u32) {
        let me = self.consumer_proc(n);
        if let Some(pipe) = self.consumer(n).pipe.take() {
            self.close(pipe, me);
        }
        *self.consumer(n) = Consumer::full_read(range_index);
        self.at(self.now + 1, me, What::Load);
    }

    pub(super) fn at_consumer(&mut self, n: u8, what: What) {
        let me = self.consumer_proc(n);
        match what {
            What::Wake => {
                self.state_mut(me).wake_at = None;
                self.consumer_input(n, TailInput::Tick);
            }
            What::Load => self.consumer_input(n, TailInput::Start),
            What::Frame { pipe, number, frame } => {
                if let Some(frame) = self.arrived(pipe, me, number, frame) {
                    self.consumer_frame(n, pipe, frame);
                }
            }
            What::Broken { pipe } => self.consumer_pipe_gone(n, pipe),
            What::Peer { .. }
            | What::PeerUp(_)
            | What::Founded(_)
            | What::Synced { .. }
            | What::Received
            | What::JournalFailed
            | What::TailStep { .. }
            | What::ReadDone { .. }
            | What::Ask { .. }
            | What::Answer { .. }
            | What::Beat
            | What::Watch => unreachable!("not for a consumer"),
        }
    }

    fn consumer_input(&mut self, n: u8, input: TailInput) {
        let me = self.consumer_proc(n);
        let clock = self.clock(me);
        let mut effects = Vec::new();
        self.consumer(n).core.handle(clock, input, &mut effects);
        let deadline = self.consumer(n).core.next_deadline();
        let mut asks = false;
        for effect in effects {
            match effect {
                // Nobody answers it here: what the router's tail asks for itself has to be enough.
                TailEffect::AskEnd => asks = true,
                TailEffect::Open { from, elsewhere } => {
                    if let Some(pipe) = self.consumer(n).pipe.take() {
                        self.close(pipe, me);
                    }
                    let routers = self.plan.sizes.routers;
                    let consumer = self.consumer(n);
                    if elsewhere {
                        consumer.router = (consumer.router + 1) % routers;
                    }
                    let (router, range_index, follow) = (consumer.router, consumer.range_index, !consumer.bounded);
                    let pipe = self.open_pipe(me, Proc::Router(router));
                    self.consumer(n).pipe = Some(pipe);
                    let open = ToRouter::TailOpen { topic: TOPIC.to_owned(), range_index, from, follow };
                    self.send(pipe, me, Frame::ToRouter(open, Bytes::new()));
                }
                TailEffect::Deliver { first, next } => self.deliver(n, first, next),
                TailEffect::Trimmed { from, start } => {
                    trace!(self, "consumer {n} misses {from} to {start}");
                    self.stats.reached.hit(Sometimes::Missed);
                    let range = self.consumer(n).range_index;
                    self.oracle.missed(n, range, from, start);
                }
                TailEffect::Finish => self.consumer(n).finished = true,
                TailEffect::Fail(failure) => {
                    panic!("R6: {me:?} from {:?} cannot go on: {failure:?}", self.consumer(n).from)
                }
            }
        }
        self.wake_at(me, deadline);
        if asks {
            self.consumer_input(n, TailInput::EndKnown { end: None });
        }
    }

    fn deliver(&mut self, n: u8, first: Offset, next: Offset) {
        let now = self.now;
        let consumer = &mut self.consumers[usize::from(n)];
        consumer.first.get_or_insert(first);
        let (range, payload) = (consumer.range_index, consumer.payload.clone());
        for record in batch::records(&payload).expect("what was delivered is a whole batch") {
            if record.offset >= first && record.offset < next {
                let value = Value::decode(record.value.as_deref().unwrap_or_default());
                self.stats.deliveries += 1;
                self.oracle.delivered(now, n, range, record.offset, value);
            }
        }
    }

    fn consumer_frame(&mut self, n: u8, pipe: PipeId, frame: Frame) {
        if self.consumer(n).pipe != Some(pipe) {
            return;
        }
        match frame {
            Frame::FromRouter(FromRouter::TailOpened { start, .. }, _) => {
                self.consumer_input(n, TailInput::Opened { start });
            }
            Frame::FromRouter(FromRouter::Records { .. }, payload) => {
                for batch in batch::split(payload) {
                    let batch = batch.expect("whole batches");
                    let header = BatchHeader::parse(&batch).expect("split parsed it");
                    self.consumer(n).payload = batch;
                    let (base, next) = (header.base_offset, header.next_offset());
                    self.consumer_input(n, TailInput::Batch { base, next });
                }
            }
            Frame::FromRouter(FromRouter::TailEnd { end }, _) => self.consumer_input(n, TailInput::Ended { end }),
            Frame::FromRouter(FromRouter::Error { error }, _) => {
                trace!(self, "consumer {n}: {error}");
                self.consumer(n).pipe = None;
                self.consumer_input(n, TailInput::Refused { error });
            }
            Frame::Fin => self.consumer_pipe_gone(n, pipe),
            Frame::FromRouter(
                FromRouter::ProduceOpened { .. }
                | FromRouter::AppendAck { .. }
                | FromRouter::AppendError { .. }
                | FromRouter::Offsets { .. },
                _,
            )
            | Frame::ToRouter(..)
            | Frame::ToSegd(..)
            | Frame::FromSegd(..)
            | Frame::Watch { .. }
            | Frame::Update(_) => unreachable!("not for a consumer"),
        }
    }

    fn consumer_pipe_gone(&mut self, n: u8, pipe: PipeId) {
        if self.consumer(n).pipe == Some(pipe) {
            self.consumer(n).pipe = None;
            self.consumer_input(n, TailInput::Broken { detail: "the stream broke".to_owned() });
        }
    }
}
