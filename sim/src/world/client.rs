//! A producing application around a real client-core producer: sends numbered records, notes every outcome.

use super::World;
use super::event::{Ask, Proc, What};
use super::net::{Frame, PipeId};
use super::oracle::Value;
use super::plan::Plan;
use super::trace::trace;
use bytes::Bytes;
use client_core::accumulate::ClosedBatch;
use client_core::producer::{Effect, Input, ProducerSettings, RangeProducer, StreamId};
use metad_core::{Admin, Answer};
use seam_wire::batch::{BatchBuilder, Compression};
use seam_wire::msg::{FromRouter, ToRouter};
use seam_wire::{Certainty, ProducerId};
use std::collections::VecDeque;

pub const TOPIC: &str = "t";
const PROBE_DEADLINE_US: u64 = 30_000_000;

pub struct Producer {
    core: RangeProducer<u32>,
    pub range_index: u32,
    /// Closed, and waiting for room.
    backlog: VecDeque<ClosedBatch<u32>>,
    next_order: u64,
    next_record: u32,
    batches: u32,
    pub quota: u32,
    probes_begun: bool,
    router: u8,
    pipe: Option<(PipeId, StreamId)>,
    admin: Option<u64>,
}

impl Producer {
    pub fn new(n: u8, plan: &Plan) -> Self {
        let settings = ProducerSettings {
            max_in_flight: plan.load.in_flight,
            retry_min_us: 5_000,
            retry_max_us: 100_000,
            stall_us: 300_000,
            open_us: 300_000,
            unknown_patience_us: 60_000_000,
        };
        Producer {
            core: RangeProducer::new(ProducerId(u64::from(n) + 1000), settings),
            range_index: u32::from(n) % plan.topic.ranges,
            backlog: VecDeque::new(),
            next_order: 0,
            next_record: 0,
            batches: 0,
            quota: plan.load.batches,
            probes_begun: false,
            router: n % plan.sizes.routers,
            pipe: None,
            admin: None,
        }
    }

    /// Every record has its outcome, and no more are to come.
    pub fn is_done(&self) -> bool {
        self.batches >= self.quota && self.backlog.is_empty() && self.core.is_idle()
    }
}

impl World {
    fn producer(&mut self, n: u8) -> &mut Producer {
        &mut self.producers[usize::from(n)]
    }

    pub(super) fn start_producer(&mut self, n: u8) {
        // The first of them makes the topic, once nodes are there.
        let at = self.now + 120_000;
        self.at(at, Proc::Client(n), What::Load);
    }

    /// After faults have ended: more to send, and all of it must get through.
    pub(super) fn begin_probes(&mut self) {
        for n in 0..self.plan.sizes.producers {
            let more = self.plan.load.probe_batches;
            let producer = self.producer(n);
            producer.quota = producer.batches + more;
            producer.probes_begun = true;
            self.at(self.now + 1, Proc::Client(n), What::Load);
        }
    }

    pub(super) fn at_producer(&mut self, n: u8, what: What) {
        let me = Proc::Client(n);
        match what {
            What::Wake => {
                self.state_mut(me).wake_at = None;
                self.producer_input(n, Input::Tick);
            }
            What::Load => self.load(n),
            What::Frame { pipe, number, frame } => {
                if let Some(frame) = self.arrived(pipe, me, number, frame) {
                    self.producer_frame(n, pipe, frame);
                }
            }
            What::Broken { pipe } => self.producer_pipe_gone(n, pipe),
            What::Answer { call, answer } => self.admin_answer(n, call, answer),
            What::Peer { .. }
            | What::PeerUp(_)
            | What::Founded(_)
            | What::Synced { .. }
            | What::Received
            | What::JournalFailed
            | What::TailStep { .. }
            | What::ReadDone { .. }
            | What::Ask { .. }
            | What::Beat
            | What::Watch => unreachable!("not for a client"),
        }
    }

    fn load(&mut self, n: u8) {
        if n == 0 && self.metad.meta.topic_named(TOPIC).is_none() {
            let request = Admin::CreateTopic { name: TOPIC.to_owned(), config: self.plan.topic.clone() };
            let member = self.metad.leader.unwrap_or(0);
            let call = self.ask(Proc::Client(0), member, Ask::Admin(request));
            self.producer(0).admin = Some(call);
            return self.at(self.now + 100_000, Proc::Client(0), What::Load);
        }
        if self.metad.meta.topic_named(TOPIC).is_none() {
            return self.at(self.now + 50_000, Proc::Client(n), What::Load);
        }
        self.next_batch(n);
        let gap_us = self.plan.load.gap_us;
        let producer = self.producer(n);
        if producer.batches < producer.quota {
            self.at(self.now + gap_us, Proc::Client(n), What::Load);
        }
    }

    fn admin_answer(&mut self, n: u8, call: u64, answer: Option<Answer>) {
        if self.producer(n).admin == Some(call) {
            trace!(self, "topic: {answer:?}");
            self.producer(n).admin = None;
        }
    }

    fn next_batch(&mut self, n: u8) {
        let me = Proc::Client(n);
        let plan = &self.plan.load;
        let (max_records, value_bytes, deadline_us) = (plan.max_records, plan.value_bytes, plan.deadline_us);
        let count = u32::try_from(self.dice(me).between(1, u64::from(max_records))).expect("small");
        let now = self.now;
        // What is sent after the healing may wait for what overload left behind, but must get through.
        let deadline_us = if self.producer(n).probes_begun { PROBE_DEADLINE_US } else { deadline_us };
        let deadline = self.clock(me).after_us(deadline_us);
        let producer = &mut self.producers[usize::from(n)];
        if producer.batches >= producer.quota {
            return;
        }
        producer.batches += 1;
        let waiters: Vec<u32> = (producer.next_record..producer.next_record + count).collect();
        producer.next_record += count;
        let mut builder = BatchBuilder::new(Compression::None, None);
        for record in &waiters {
            let value = Value { producer: n, record: *record };
            builder.push(0, None, Some(&value.encode(value_bytes)), &[]).expect("within the limits");
            self.oracle.sent(value, producer.range_index, now, producer.probes_begun);
        }
        let order = producer.next_order;
        producer.next_order += 1;
        producer.backlog.push_back(ClosedBatch { order, builder, cost: waiters.len(), waiters, deadline });
        self.feed(n);
    }

    fn feed(&mut self, n: u8) {
        while self.producer(n).core.room() > 0 {
            let Some(batch) = self.producer(n).backlog.pop_front() else { return };
            self.producer_input(n, Input::Batch(batch));
        }
    }

    fn producer_input(&mut self, n: u8, input: Input<u32>) {
        let me = Proc::Client(n);
        let clock = self.clock(me);
        let mut effects = Vec::new();
        let producer = self.producer(n);
        producer.core.handle(clock, input, &mut effects);
        producer.core.assert_invariants();
        let deadline = producer.core.next_deadline();
        let mut room = false;
        for effect in effects {
            match effect {
                Effect::Open { stream, elsewhere } => {
                    let routers = self.plan.sizes.routers;
                    let producer = self.producer(n);
                    if elsewhere {
                        producer.router = (producer.router + 1) % routers;
                    }
                    let (router, range_index) = (producer.router, producer.range_index);
                    let pipe = self.open_pipe(me, Proc::Router(router));
                    self.producer(n).pipe = Some((pipe, stream));
                    let open = ToRouter::ProduceOpen { topic: TOPIC.to_owned(), range_index };
                    self.send(pipe, me, Frame::ToRouter(open, Bytes::new()));
                }
                Effect::Send { stream, seq, payload } => {
                    if let Some((pipe, _)) = self.producer(n).pipe.filter(|(_, of)| *of == stream) {
                        self.send(pipe, me, Frame::ToRouter(ToRouter::Append { seq }, payload));
                    }
                }
                Effect::Close { stream } => {
                    if let Some((pipe, _)) = self.producer(n).pipe.filter(|(_, of)| *of == stream) {
                        self.producer(n).pipe = None;
                        self.close(pipe, me);
                    }
                }
                Effect::Done { waiters, cost: _, result } => {
                    room = true;
                    for (index, record) in waiters.into_iter().enumerate() {
                        let value = Value { producer: n, record };
                        match &result {
                            Ok(base) => {
                                self.stats.acks += 1;
                                trace!(self, "{me:?} {record} acked at {}", base.plus(index as u64));
                                self.oracle.acked(self.now, value, base.plus(index as u64));
                            }
                            Err(error) => {
                                trace!(self, "{me:?} {record} failed: {error}");
                                self.stats.failed_appends += 1;
                                let definite = error.certainty == Certainty::Definite;
                                self.stats.indeterminate += u64::from(!definite);
                                self.oracle.failed(value, definite, &error.to_string());
                            }
                        }
                    }
                }
            }
        }
        self.wake_at(me, deadline);
        if room {
            self.feed(n);
        }
    }

    fn producer_frame(&mut self, n: u8, pipe: PipeId, frame: Frame) {
        let Some((_, stream)) = self.producer(n).pipe.filter(|(of, _)| *of == pipe) else { return };
        match frame {
            Frame::FromRouter(FromRouter::ProduceOpened { .. }, _) => self.producer_input(n, Input::Opened { stream }),
            Frame::FromRouter(FromRouter::AppendAck { seq, base_offset }, _) => {
                self.producer_input(n, Input::Ack { stream, seq, base_offset });
            }
            Frame::FromRouter(FromRouter::AppendError { seq, error }, _) => {
                trace!(self, "client-{} seq {seq}: {error}", n + 1);
                self.producer_input(n, Input::Failed { stream, seq, error });
            }
            Frame::FromRouter(FromRouter::Error { error }, _) => {
                trace!(self, "client-{} refused: {error}", n + 1);
                self.producer(n).pipe = None;
                self.producer_input(n, Input::Refused { stream, error });
            }
            Frame::Fin => self.producer_pipe_gone(n, pipe),
            Frame::FromRouter(
                FromRouter::TailOpened { .. }
                | FromRouter::Records { .. }
                | FromRouter::TailEnd { .. }
                | FromRouter::Offsets { .. },
                _,
            )
            | Frame::ToRouter(..)
            | Frame::ToSegd(..)
            | Frame::FromSegd(..)
            | Frame::Watch { .. }
            | Frame::Update(_) => unreachable!("not for a producer"),
        }
    }

    fn producer_pipe_gone(&mut self, n: u8, pipe: PipeId) {
        if let Some((_, stream)) = self.producer(n).pipe.filter(|(of, _)| *of == pipe) {
            self.producer(n).pipe = None;
            self.producer_input(n, Input::Broken { stream, detail: "the stream broke".to_owned() });
        }
    }
}
