//! A client's tail: reads one segd stream at a time, holds others open on ready successors, and writes to the client as
//! fast as it takes: a slow client stops its own stream and nothing else.
//!
//! Each client tail has its own upstream tail. Tails of one range at one router do not share yet: n of them read the
//! range n times from segd.

use crate::clock::sleep_until;
use crate::context::Context;
use crate::listen::last_word;
use crate::offsets;
use crate::place::{End, place};
use crate::traces::Ahead;
use bytes::Bytes;
use quinn::SendStream;
use router_core::Tail;
use router_core::tail::{Effect, Input, TailCounters, TailStream};
use seam_transport::stream::{FrameReader, FrameWriter, StreamError, open_bi};
use seam_transport::telemetry::OpenSpan;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, FromSegd, TailFrom, ToSegd};
use seam_wire::{NodeId, Offset, RangeId, SegmentId, TraceContext};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

/// A write to the client that took longer was the client's own time: no replica is blamed for it.
const SLOW_CLIENT: Duration = Duration::from_millis(100);

/// Spreads tails over replicas.
static NEXT_HINT: AtomicU64 = AtomicU64::new(0);

pub async fn serve(context: Arc<Context>, range: RangeId, from: TailFrom, follow: bool, send: SendStream) {
    context.counters.tails_opened.inc();
    let mut writer = FrameWriter::new(send);
    let outcome = match place(&context, range, from, follow).await {
        Ok((start, end)) => {
            let opened = Frame::new(FromRouter::TailOpened { range, start }).range(range);
            if writer.write(&opened).await.is_err() {
                return;
            }
            context.counters.tails.inc();
            let outcome = read_to(&context, range, start, end, &mut writer).await;
            context.counters.tails.dec();
            outcome
        }
        Err(error) => Outcome::Failed(error),
    };
    match outcome {
        Outcome::Finished(end) => last_word(writer, FromRouter::TailEnd { end }).await,
        Outcome::Failed(error) => {
            // A reader that retention overtook is told so and goes on: counted apart.
            if !matches!(error.code, ErrorCode::Trimmed { .. }) {
                context.counters.tails_failed.inc();
            }
            context.counters.stream_error(error.code);
            last_word(writer, FromRouter::Error { error }).await;
        }
        Outcome::Gone => {}
    }
}

/// Delivers from `start` to the end.
async fn read_to(context: &Arc<Context>, range: RangeId, start: Offset, end: End, writer: &mut FrameWriter) -> Outcome {
    let (sealed, latest) = match end {
        End::Never => return stretch(context, range, start, None, writer).await,
        End::At(end) => return stretch(context, range, start, Some(end), writer).await,
        End::Asked { sealed, latest } => (sealed, latest),
    };
    match stretch(context, range, start, Some(sealed), writer).await {
        Outcome::Finished(_) => {}
        early @ (Outcome::Failed(_) | Outcome::Gone) => return early,
    }
    match latest.await {
        Ok(Ok(latest)) if latest > sealed => stretch(context, range, sealed, Some(latest), writer).await,
        Ok(Ok(_)) => Outcome::Finished(sealed),
        Ok(Err(error)) => Outcome::Failed(error),
        Err(error) => {
            let detail = format!("the question for the end of {range} broke off: {error}");
            Outcome::Failed(WireError::retry(ErrorCode::Internal, detail))
        }
    }
}

async fn stretch(
    context: &Arc<Context>,
    range: RangeId,
    start: Offset,
    until: Option<Offset>,
    writer: &mut FrameWriter,
) -> Outcome {
    let hint = NEXT_HINT.fetch_add(1, Ordering::Relaxed);
    let core = Tail::new(range, start, until, hint, context.limits.tail(until.is_some()));
    Session::new(Arc::clone(context), range, core, writer).run().await
}

enum Outcome {
    Finished(Offset),
    Failed(WireError),
    /// The client wants no more.
    Gone,
}

type Opened = (TailStream, Result<(FrameReader, Frame<FromSegd>), String>);

struct Session<'w> {
    context: Arc<Context>,
    range: RangeId,
    core: Tail,
    counted: TailCounters,
    writer: &'w mut FrameWriter,
    readers: BTreeMap<TailStream, FrameReader>,
    /// Each reads its first frame too, so that a successor's stream is known to be open and is not read further.
    opening: JoinSet<Opened>,
    aborts: BTreeMap<TailStream, tokio::task::AbortHandle>,
    /// Questions for a committed end, one at a time.
    asking: JoinSet<Input>,
    /// Streams that are being opened on the successor of a traced roll.
    ahead: BTreeMap<TailStream, (Ahead, SegmentId)>,
    /// The records at hand are the first out of a successor.
    first: Option<TraceContext>,
    effects: Vec<Effect>,
}

/// What woke the session.
enum Event {
    Input(Input),
    /// The first records out of a successor, in a roll of this trace.
    First(Input, TraceContext),
    Gone,
}

impl<'w> Session<'w> {
    fn new(context: Arc<Context>, range: RangeId, core: Tail, writer: &'w mut FrameWriter) -> Self {
        Session {
            context,
            range,
            core,
            counted: TailCounters::default(),
            writer,
            readers: BTreeMap::new(),
            opening: JoinSet::new(),
            aborts: BTreeMap::new(),
            asking: JoinSet::new(),
            ahead: BTreeMap::new(),
            first: None,
            effects: Vec::new(),
        }
    }

    async fn run(mut self) -> Outcome {
        let mut changed = self.context.picture.subscribe(self.range);
        let mut input = Input::ChainChanged;
        loop {
            let fed = self.feed(input).await;
            self.first = None;
            if let Some(outcome) = fed {
                return outcome;
            }
            let wake = self.core.next_deadline().map(|at| self.context.clock.instant(at));
            let current = self.readers.iter_mut().find(|(stream, _)| self.core.reads(**stream));
            let event = tokio::select! {
                biased;
                event = next_of(current) => event,
                Some(opened) = self.opening.join_next(), if !self.opening.is_empty() => match opened {
                    Ok((stream, outcome)) => {
                        self.aborts.remove(&stream);
                        let ahead = self.ahead.remove(&stream);
                        match outcome {
                            Ok((reader, frame)) => {
                                if let Some((ahead, segment)) = ahead {
                                    ahead.opened("router.open_tail", segment);
                                }
                                self.readers.insert(stream, reader);
                                Event::Input(Input::FromSegd { stream, msg: frame.msg, payload: frame.payload })
                            }
                            Err(why) => {
                                tracing::debug!(range = %self.range, %why, "a tail stream could not be opened");
                                Event::Input(Input::Broken { stream })
                            }
                        }
                    }
                    // Aborted: the core gave it up itself.
                    Err(_) => continue_with_nothing(),
                },
                Some(answered) = self.asking.join_next(), if !self.asking.is_empty() => match answered {
                    Ok(input) => Event::Input(input),
                    Err(_) => continue_with_nothing(),
                },
                _ = changed.changed() => Event::Input(Input::ChainChanged),
                () = sleep_until(wake) => Event::Input(Input::Tick),
                _ = self.writer.stopped() => Event::Gone,
                () = self.context.stop.cancelled() => {
                    let detail = "this router stops; go on at another";
                    return Outcome::Failed(WireError::retry(ErrorCode::Unavailable, detail));
                }
            };
            input = match event {
                Event::Input(input) => input,
                Event::First(input, trace) => {
                    self.first = Some(trace);
                    input
                }
                Event::Gone => return Outcome::Gone,
            };
        }
    }

    /// Brings one input to the core and carries out what follows.
    async fn feed(&mut self, input: Input) -> Option<Outcome> {
        let mut next = Some(input);
        while let Some(input) = next.take() {
            let mut effects = std::mem::take(&mut self.effects);
            let now = self.context.clock.now();
            let (segment, stuck) = (self.core.segment(), self.core.counters().stuck);
            self.core.handle(now, input, &self.context.picture.read(), &mut effects);
            if self.core.counters().stuck != stuck {
                let (range, next) = (self.range, self.core.wanted());
                tracing::warn!(%range, ?segment, %next, "a tail heard nothing though records wait; it looks again");
            }
            self.context.counters.tail(&mut self.counted, self.core.counters());
            for effect in effects.drain(..) {
                match effect {
                    Effect::Open { stream, segment, node, from } => self.open(stream, segment, node, from),
                    Effect::Close { stream } => {
                        self.readers.remove(&stream);
                        self.ahead.remove(&stream);
                        if let Some(opening) = self.aborts.remove(&stream) {
                            opening.abort();
                        }
                    }
                    Effect::Deliver { next: after, payload } => {
                        let since = Instant::now();
                        if !self.deliver(after, payload).await {
                            return Some(Outcome::Gone);
                        }
                        if since.elapsed() > SLOW_CLIENT {
                            next = Some(Input::Resumed);
                        }
                    }
                    Effect::AskEnd { segment, node } => {
                        let (context, range) = (Arc::clone(&self.context), self.range);
                        self.asking.spawn(async move {
                            let bounds = offsets::committed(&context, range, segment, node).await;
                            Input::Committed { segment, bounds: bounds.ok() }
                        });
                    }
                    Effect::Finished { end } => return Some(Outcome::Finished(end)),
                    Effect::Failed { error } => return Some(Outcome::Failed(error)),
                }
            }
            self.effects = effects;
        }
        None
    }

    fn open(&mut self, stream: TailStream, segment: SegmentId, node: NodeId, from: Option<Offset>) {
        let (context, range) = (Arc::clone(&self.context), self.range);
        if from.is_none()
            && let Some(trace) = context.picture.read().trace_into(segment)
        {
            self.ahead.insert(stream, (Ahead::now(trace), segment));
        }
        let abort = self.opening.spawn(async move { (stream, begin(&context, range, segment, node, from).await) });
        self.aborts.insert(stream, abort);
    }

    /// False: the client is gone.
    async fn deliver(&mut self, next: Offset, payload: Bytes) -> bool {
        self.context.counters.tail_bytes.inc_by(payload.len() as u64);
        let first = self.first.take();
        let span = first.and_then(|trace| OpenSpan::child("router.first_delivery", &trace, Instant::now().into_std()));
        let frame = Frame::new(FromRouter::Records { next }).range(self.range).payload(payload);
        let written = self.writer.write(&frame.trace(span.as_ref().map(OpenSpan::context))).await.is_ok();
        if let Some(span) = span {
            span.end();
        }
        written
    }
}

/// An input that changes nothing.
fn continue_with_nothing() -> Event {
    Event::Input(Input::ChainChanged)
}

async fn next_of(current: Option<(&TailStream, &mut FrameReader)>) -> Event {
    let Some((stream, reader)) = current else {
        return std::future::pending().await;
    };
    let stream = *stream;
    match reader.read::<FromSegd>().await {
        Ok(Some(Frame { msg, payload, trace, .. })) => match trace {
            Some(trace) => Event::First(Input::FromSegd { stream, msg, payload }, trace),
            None => Event::Input(Input::FromSegd { stream, msg, payload }),
        },
        Ok(None) | Err(_) => Event::Input(Input::Broken { stream }),
    }
}

/// Opens a tail stream and reads its first frame.
async fn begin(
    context: &Context,
    range: RangeId,
    segment: SegmentId,
    node: NodeId,
    from: Option<Offset>,
) -> Result<(FrameReader, Frame<FromSegd>), String> {
    let connection =
        context.nodes.connection(node, context.limits.node_wait()).await.map_err(|error| error.to_string())?;
    let told = |error: StreamError| format!("{node}: {error}");
    let (send, recv) = open_bi(&connection, context.quic.open_timeout()).await.map_err(told)?;
    let mut writer = FrameWriter::new(send);
    let hello = Frame::new(ToSegd::TailOpen { from, until: None }).range(range).segment(segment);
    writer.write(&hello).await.map_err(told)?;
    writer.finish().map_err(told)?;
    let mut reader = FrameReader::new(recv);
    match reader.read::<FromSegd>().await.map_err(told)? {
        Some(frame) => Ok((reader, frame)),
        None => Err(format!("{node} ended the stream")),
    }
}
