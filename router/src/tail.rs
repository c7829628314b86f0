//! One client tail: feeds `router_core::Tail`, carries out its effects. A slow client stops its own tail and no other.

use crate::offsets;
use crate::produce::refuse;
use crate::shared::Shared;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::{pending, select_all};
use quinn::SendStream;
use router_core::tail::{Effect, Input, TailCounters, TailStream};
use router_core::{Tail, TailSettings};
use seam_transport::quic::code;
use seam_transport::stream::{FrameReader, FrameSender, StreamError, WriterLimits, spawn_writer_with};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, FromSegd, TailFrom, ToRouter, ToSegd};
use seam_wire::{NodeId, Offset, RangeId, SegmentId};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;

const DELIVERIES: WriterLimits = WriterLimits { frames: 64, bytes: 4 << 20 };
/// A delivery that waited so long waited for the client.
const SLOW_CLIENT: Duration = Duration::from_millis(100);

/// What a client asked for.
pub struct Request {
    pub topic: String,
    pub range_index: u32,
    pub from: TailFrom,
    pub follow: bool,
}

type Opened = (TailStream, Result<(FrameReader, SendStream), String>);

struct TailTask {
    range: RangeId,
    shared: Arc<Shared>,
    tail: Tail,
    client: FrameSender<FromRouter>,
    /// The send side is kept: dropping it would reset what a segd still reads.
    streams: BTreeMap<TailStream, (FrameReader, SendStream)>,
    opening: JoinSet<Opened>,
    told: TailCounters,
    over: bool,
}

pub async fn serve(request: Request, send: SendStream, mut reader: FrameReader, shared: Arc<Shared>) {
    let client = spawn_writer_with::<FromRouter>(send, DELIVERIES);
    match resolve(&request, &shared).await {
        Err(error) => refuse(&client, error).await,
        Ok((range, start, until)) => {
            shared.counters.tails.inc();
            let opened = Frame::new(FromRouter::TailOpened { range, start }).range(range);
            if client.send(opened).await.is_ok() {
                let hint = RandomState::new().hash_one(range.0);
                let task = TailTask {
                    range,
                    tail: Tail::new(range, start, until, hint, TailSettings::default()),
                    shared: Arc::clone(&shared),
                    client: client.clone(),
                    streams: BTreeMap::new(),
                    opening: JoinSet::new(),
                    told: TailCounters::default(),
                    over: false,
                };
                tokio::select! {
                    () = task.run() => {}
                    _ = client.closed() => {}
                    () = until_gone(&mut reader) => {}
                }
            }
            shared.counters.tails.dec();
        }
    }
    // Bounded by the client's own reading, or its connection's end.
    let _ = client.finish().await;
}

/// A tail's client has nothing to say after its first frame; it may finish its side. Returns when the stream broke.
async fn until_gone(reader: &mut FrameReader) {
    match reader.read::<ToRouter>().await {
        Ok(Some(_) | None) => pending().await,
        Err(_) => {}
    }
}

async fn resolve(request: &Request, shared: &Arc<Shared>) -> Result<(RangeId, Offset, Option<Offset>), WireError> {
    let resolved = shared.chains.read().resolve(&request.topic, request.range_index);
    let range = resolved.inspect_err(|_| {
        shared.counters.unknown_topics.inc();
    })?;
    let latest = match (request.from, request.follow) {
        (TailFrom::Earliest, true) => None,
        (TailFrom::Earliest | TailFrom::Latest | TailFrom::Offset(_), _) => Some(offsets::latest(range, shared).await?),
    };
    let earliest = offsets::earliest(range, shared).unwrap_or_default();
    let start = match request.from {
        TailFrom::Earliest => earliest,
        TailFrom::Latest => latest.unwrap_or(earliest),
        TailFrom::Offset(offset) => {
            if offset < earliest || latest.is_some_and(|latest| offset > latest) {
                shared.counters.out_of_range.inc();
                let end = latest.unwrap_or(earliest);
                let detail = format!("offset {offset} is not within {earliest} to {end}; ask for one of those");
                return Err(WireError::refused(ErrorCode::OffsetOutOfRange, detail));
            }
            offset
        }
    };
    let until = latest.filter(|_| !request.follow);
    Ok((range, start, until))
}

impl TailTask {
    async fn run(mut self) {
        let mut version = self.shared.version.subscribe();
        self.handle(Input::ChainChanged).await;
        while !self.over {
            let deadline = self.tail.next_deadline().map(|tick| self.shared.at(tick));
            let tail = &self.tail;
            let reading: Vec<_> = self
                .streams
                .iter_mut()
                .filter(|(stream, _)| tail.reads(**stream))
                .map(|(stream, (reader, _))| {
                    let stream = *stream;
                    async move { (stream, reader.read::<FromSegd>().await) }.boxed()
                })
                .collect();
            let read = async { if reading.is_empty() { pending().await } else { select_all(reading).await.0 } };
            let input = tokio::select! {
                biased;
                Some(opened) = self.opening.join_next() => Event::Opened(opened),
                (stream, read) = read => Event::Read(stream, read),
                changed = version.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    Event::Input(Input::ChainChanged)
                }
                () = tokio::time::sleep_until(deadline.unwrap_or_else(Instant::now)), if deadline.is_some() => {
                    Event::Input(Input::Tick)
                }
            };
            match input {
                Event::Opened(Ok((stream, Ok(halves)))) => {
                    self.streams.insert(stream, halves);
                }
                Event::Opened(Ok((stream, Err(why)))) => {
                    tracing::debug!(range = %self.range, %why, "a tail stream could not be opened");
                    self.handle(Input::Broken { stream }).await;
                }
                Event::Opened(Err(join)) => tracing::error!(%join, "opening a tail stream failed"),
                Event::Read(stream, Ok(Some(frame))) => {
                    self.handle(Input::FromSegd { stream, msg: frame.msg, payload: frame.payload }).await;
                }
                Event::Read(stream, Ok(None) | Err(_)) => {
                    self.streams.remove(&stream);
                    self.handle(Input::Broken { stream }).await;
                }
                Event::Input(input) => self.handle(input).await,
            }
            self.tell_counters();
        }
    }

    async fn handle(&mut self, input: Input) {
        let mut out = Vec::new();
        let now = self.shared.now();
        self.tail.handle(now, input, &self.shared.chains.read(), &mut out);
        let began = Instant::now();
        for effect in out {
            self.carry_out(effect).await;
        }
        if !self.over && began.elapsed() >= SLOW_CLIENT {
            let mut out = Vec::new();
            let now = self.shared.now();
            self.tail.handle(now, Input::Resumed, &self.shared.chains.read(), &mut out);
            for effect in out {
                self.carry_out(effect).await;
            }
        }
    }

    async fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Open { stream, segment, node, from } => {
                let (shared, until) = (Arc::clone(&self.shared), None);
                self.opening.spawn(async move { (stream, open(segment, node, from, until, &shared).await) });
            }
            Effect::Close { stream } => {
                if let Some((mut reader, _)) = self.streams.remove(&stream) {
                    reader.stop(code::CANCELLED);
                }
            }
            Effect::Deliver { next, payload } => self.say(FromRouter::Records { next }, payload).await,
            Effect::Finished { end } => {
                self.say(FromRouter::TailEnd { end }, Bytes::new()).await;
                self.over = true;
            }
            Effect::Failed { error } => {
                self.say(FromRouter::Error { error }, Bytes::new()).await;
                self.over = true;
            }
        }
    }

    /// Waits for room: backpressure reaches the segd that serves this tail, and stops there.
    async fn say(&mut self, msg: FromRouter, payload: Bytes) {
        if self.client.send(Frame::new(msg).range(self.range).payload(payload)).await.is_err() {
            self.over = true;
        }
    }

    fn tell_counters(&mut self) {
        let (now, told) = (self.tail.counters(), self.told);
        let counters = &self.shared.counters;
        for (counter, now, told) in [
            (&counters.tail_handovers, now.handovers, told.handovers),
            (&counters.tail_warm_handovers, now.warm_handovers, told.warm_handovers),
            (&counters.tail_stalls, now.stalls, told.stalls),
            (&counters.tail_breaks, now.breaks, told.breaks),
            (&counters.tail_order_faults, now.order_faults, told.order_faults),
        ] {
            if now > told {
                counter.inc_by(now - told);
            }
        }
        self.told = now;
    }
}

enum Event {
    Opened(Result<Opened, tokio::task::JoinError>),
    Read(TailStream, Result<Option<Frame<FromSegd>>, StreamError>),
    Input(Input),
}

async fn open(
    segment: SegmentId,
    node: NodeId,
    from: Option<Offset>,
    until: Option<Offset>,
    shared: &Shared,
) -> Result<(FrameReader, SendStream), String> {
    let (send, recv) = shared.upstreams.open(node).await?;
    let mut writer = seam_transport::stream::FrameWriter::new(send);
    let ask = Frame::new(ToSegd::TailOpen { from, until }).segment(segment);
    writer.write(&ask).await.map_err(|error| error.to_string())?;
    Ok((FrameReader::new(recv), writer.into_inner()))
}
