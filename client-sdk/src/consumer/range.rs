//! The tail of one range: carries out what the machine decides, and decides nothing. No task of its own: it reads when the
//! consumer is polled, so that a consumer which does not read takes nothing beyond its windows.

use super::seek::Source;
use crate::clock::Clock;
use crate::lane::{Lane, Live, lost};
use crate::query;
use bytes::Bytes;
use client_core::tail::{Tail, TailEffect, TailFailure, TailInput};
use seam_transport::stream::{FrameReader, FrameWriter};
use seam_transport::telemetry::Step as Traced;
use seam_wire::batch::{self, BatchError, BatchHeader, Record};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, TailFrom, ToRouter};
use seam_wire::{Offset, TraceContext};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a router may take to open a tail, dialing it included.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// A tail that does not follow always has something to come: a router that is silent for so long is left for another.
const SILENCE: Duration = Duration::from_secs(4);
/// Attempts that fit into the time after which such a tail gives up.
const ATTEMPTS: u64 = 4;

/// What is handed on of a batch.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub first: Offset,
    pub next: Offset,
    pub bytes: Bytes,
    /// Decoded, all of the batch, if the consumer wants it so.
    pub records: Option<Vec<Record>>,
    /// A gap entry, of these offsets.
    lost: Option<(Offset, Offset)>,
}

impl Chunk {
    /// The records to deliver, of a batch that was to be decoded.
    pub fn into_records(self) -> std::vec::IntoIter<Record> {
        let mut records = self.records.expect("asked for decoded batches").into_iter();
        let below = records.as_slice().partition_point(|record| record.offset < self.first);
        records.by_ref().take(below).for_each(drop);
        records
    }
}

/// An open tail.
struct OpenTail {
    live: Live,
    reader: FrameReader,
    /// Batches that came and were not looked at, and the offset after them.
    batches: VecDeque<Bytes>,
    /// They are the first out of a successor: the roll's trace, and when they came.
    first: Option<(TraceContext, Instant)>,
}

pub(crate) struct RangeTail {
    lane: Arc<Lane>,
    clock: Clock,
    topic: String,
    pub index: u32,
    decode: bool,
    tail: Tail,
    effects: VecDeque<TailEffect>,
    source: Option<OpenTail>,
    /// The batch the machine is asked about.
    chunk: Option<Chunk>,
    last_generation: Option<u64>,
    /// What one opening, and one silence, may take where an end is wanted.
    attempt: Option<Duration>,
    /// Counts for the client.
    stuck: Arc<AtomicU64>,
    over: bool,
}

/// How a step ended.
pub(crate) enum Step {
    Chunk(Chunk),
    /// Records were deleted before they were read; the tail goes on.
    Trimmed {
        from: Offset,
        start: Offset,
    },
    /// An operator gave up these offsets; the tail goes on behind them.
    Lost {
        from: Offset,
        next: Offset,
    },
    Finished,
    Failed(TailFailure),
}

impl RangeTail {
    pub fn new(from: &Source, index: u32, decode: bool, tail: Tail) -> Self {
        let mut tail = RangeTail {
            lane: Arc::clone(&from.lane),
            clock: from.clock,
            topic: from.topic.clone(),
            stuck: Arc::clone(&from.stuck),
            index,
            decode,
            tail,
            effects: VecDeque::new(),
            source: None,
            chunk: None,
            last_generation: None,
            attempt: from.machine.give_up_us.map(|us| Duration::from_micros(us / ATTEMPTS).min(SILENCE)),
            over: false,
        };
        tail.input(TailInput::Start);
        tail
    }

    /// The next batch, or how the tail ended. Not to be called after that.
    pub async fn next(&mut self, follow: bool) -> Step {
        assert!(!self.over, "a tail that has ended was asked for more");
        loop {
            while let Some(effect) = self.effects.pop_front() {
                match effect {
                    TailEffect::Open { from, elsewhere } => self.open(from, follow, elsewhere).await,
                    TailEffect::AskEnd => self.ask_end().await,
                    TailEffect::Deliver { first, next } => {
                        let chunk = self.chunk.take().expect("the machine delivers the batch it was asked about");
                        if let Some((from, next)) = chunk.lost {
                            return Step::Lost { from, next };
                        }
                        if let Some((trace, from)) = self.source.as_mut().and_then(|source| source.first.take()) {
                            let name = "consumer.first_delivery";
                            Traced { name, parent: &trace, from, to: Instant::now() }.record(&[("offset", &first)]);
                        }
                        return Step::Chunk(Chunk { first, next, ..chunk });
                    }
                    TailEffect::Trimmed { from, start } => return Step::Trimmed { from, start },
                    TailEffect::Finish => {
                        self.over = true;
                        return Step::Finished;
                    }
                    TailEffect::Fail(failure) => {
                        self.over = true;
                        return Step::Failed(failure);
                    }
                }
            }
            self.step().await;
        }
    }

    fn input(&mut self, input: TailInput) {
        let mut out = Vec::new();
        let stuck = self.tail.stuck();
        self.tail.handle(self.clock.now(), input, &mut out);
        self.effects.extend(out);
        if self.tail.stuck() != stuck {
            self.stuck.fetch_add(1, Ordering::Relaxed);
            let (topic, range, next) = (&self.topic, self.index, self.tail.next_offset());
            tracing::warn!(%topic, range, ?next, "a tail heard nothing though records wait; it goes on elsewhere");
        }
        if !self.tail.is_open() {
            // It will open again, or is over; what is left of this one counts no more.
            self.source = None;
        }
    }

    /// Until there is something for the machine.
    async fn step(&mut self) {
        let deadline = self.tail.next_deadline().map(|deadline| self.clock.instant(deadline).into());
        if !self.tail.is_open() {
            tokio::time::sleep_until(deadline.expect("a tail that is neither open nor over waits")).await;
            return self.input(TailInput::Tick);
        }
        let source = self.source.as_mut().expect("a tail that neither waits nor opens nor is over is open");
        if let Some(bytes) = source.batches.pop_front() {
            return match examine(bytes, self.decode) {
                Ok(chunk) => {
                    let (base, next) = (chunk.first, chunk.next);
                    self.chunk = Some(chunk);
                    self.input(TailInput::Batch { base, next });
                }
                Err(error) => self.damaged(&error.to_string()),
            };
        }
        let silence = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let attempt = self.attempt;
        let overdue = async {
            match attempt {
                Some(attempt) => tokio::time::sleep(attempt).await,
                None => std::future::pending().await,
            }
        };
        let read = tokio::select! {
            biased;
            read = source.reader.read::<FromRouter>() => read,
            () = silence => return self.input(TailInput::Tick),
            () = overdue => return self.broken("it has more to send and is silent"),
        };
        match read {
            Ok(Some(frame)) => self.on_frame(frame),
            Ok(None) => self.broken("the router ended the tail"),
            Err(error) => {
                let error = lost(&source.live, &error);
                self.input(TailInput::Refused { error });
            }
        }
    }

    fn on_frame(&mut self, frame: Frame<FromRouter>) {
        match frame.msg {
            FromRouter::Records { next } => match whole_batches(frame.payload, next) {
                Ok(batches) => {
                    let source = self.source.as_mut().expect("it was read from");
                    source.batches = batches;
                    source.first = frame.trace.map(|trace| (trace, Instant::now()));
                }
                Err(detail) => self.damaged(&detail),
            },
            FromRouter::TailEnd { end } => self.input(TailInput::Ended { end }),
            FromRouter::Error { error } => self.input(TailInput::Refused { error }),
            other @ (FromRouter::ProduceOpened { .. }
            | FromRouter::AppendAck { .. }
            | FromRouter::AppendError { .. }
            | FromRouter::TailOpened { .. }
            | FromRouter::Offsets { .. }) => self.broken(&format!("{other:?} has no place in a tail")),
        }
    }

    /// One question, one try: it is asked again later.
    async fn ask_end(&mut self) {
        let (timeout, patience) = (query::ATTEMPT, Duration::ZERO);
        let asked = query::offsets(&self.lane, &self.topic, self.index, timeout, patience).await;
        self.input(TailInput::EndKnown { end: asked.ok().map(|ends| ends.latest) });
    }

    fn broken(&mut self, detail: &str) {
        let router = self.source.as_ref().map_or("router", |source| &source.live.router);
        let detail = format!("{router}: {detail}");
        tracing::debug!(topic = %self.topic, range = self.index, detail, "tail broke");
        self.input(TailInput::Broken { detail });
    }

    fn damaged(&mut self, detail: &str) {
        let router = self.source.as_ref().map_or("router", |source| &source.live.router);
        let detail = format!("from {router}: {detail}");
        tracing::warn!(topic = %self.topic, range = self.index, detail, "damaged batch");
        self.input(TailInput::Damaged { detail });
    }

    async fn open(&mut self, from: TailFrom, follow: bool, elsewhere: bool) {
        self.source = None;
        let avoid = self.last_generation.filter(|_| elsewhere);
        let hello = ToRouter::TailOpen { topic: self.topic.clone(), range_index: self.index, from, follow };
        let timeout = self.attempt.unwrap_or(OPEN_TIMEOUT);
        let opened = tokio::time::timeout(timeout, open(&self.lane, avoid, hello, &mut self.last_generation)).await;
        match opened {
            Ok(Ok((source, start))) => {
                self.source = Some(source);
                self.input(TailInput::Opened { start });
            }
            Ok(Err(error)) => {
                tracing::debug!(topic = %self.topic, range = self.index, %error, "no tail");
                self.input(TailInput::Refused { error });
            }
            Err(_) => self.broken(&format!("it did not open the tail within {} ms", timeout.as_millis())),
        }
    }
}

async fn open(
    lane: &Lane,
    avoid: Option<u64>,
    hello: ToRouter,
    generation: &mut Option<u64>,
) -> Result<(OpenTail, Offset), WireError> {
    let (send, recv, live) = lane.open(avoid).await?;
    *generation = Some(live.generation);
    let mut writer = FrameWriter::new(send);
    writer.write(&Frame::new(hello)).await.map_err(|error| lost(&live, &error))?;
    writer.finish().map_err(|error| lost(&live, &error))?;
    let mut reader = FrameReader::new(recv);
    match reader.read::<FromRouter>().await.map_err(|error| lost(&live, &error))?.map(|frame| frame.msg) {
        Some(FromRouter::TailOpened { range: _, start }) => {
            Ok((OpenTail { live, reader, batches: VecDeque::new(), first: None }, start))
        }
        Some(FromRouter::Error { error }) => Err(error),
        None => Err(WireError::retry(ErrorCode::Unavailable, format!("{}: it ended the stream", live.router))),
        Some(
            other @ (FromRouter::ProduceOpened { .. }
            | FromRouter::AppendAck { .. }
            | FromRouter::AppendError { .. }
            | FromRouter::Records { .. }
            | FromRouter::TailEnd { .. }
            | FromRouter::Offsets { .. }),
        ) => {
            let detail = format!("{}: {other:?} opens no tail", live.router);
            Err(WireError::retry(ErrorCode::Internal, detail))
        }
    }
}

/// Checks a batch as far as it is to be handed on: its checksum, or every record.
fn examine(bytes: Bytes, decode: bool) -> Result<Chunk, BatchError> {
    let header = BatchHeader::parse(&bytes)?;
    let (first, next) = (header.base_offset, header.next_offset());
    let records = if decode && header.gap.is_none() {
        Some(batch::records(&bytes)?)
    } else {
        batch::verify_crc(&bytes)?;
        None
    };
    Ok(Chunk { first, next, bytes, records, lost: header.gap.map(|_| (first, next)) })
}

/// The batches of a payload, which must end at `next`.
fn whole_batches(payload: Bytes, next: Offset) -> Result<VecDeque<Bytes>, String> {
    let batches: VecDeque<Bytes> =
        batch::split(payload).collect::<Result<_, _>>().map_err(|error| error.to_string())?;
    if let Some(last) = batches.back() {
        let end = BatchHeader::parse(last).map_err(|error| error.to_string())?.next_offset();
        if end != next {
            return Err(format!("batches up to offset {end} where {next} was said"));
        }
    }
    Ok(batches)
}
