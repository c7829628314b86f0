//! A router process around real `Chains`, `RangeProducer`s and `Tail`s: carries their effects. Keeps nothing over a restart.

use super::World;
use super::event::{Proc, What};
use super::links::index_of;
use super::net::{Frame, PipeId};
use super::trace::trace;
use super::watch::Watcher;
use bytes::Bytes;
use router_core::producer::{self, ClientStream, ProducerSeq, UpstreamId};
use router_core::tail::{self, TailStream};
use router_core::{Chains, RangeProducer, Tail};
use seam_wire::batch::BatchHeader;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::{FromRouter, FromSegd, TailFrom, ToRouter, ToSegd};
use seam_wire::{NodeId, Offset, RangeId, SegmentId};
use std::collections::{BTreeMap, VecDeque};

struct RangeSide {
    core: RangeProducer,
    ups: BTreeMap<UpstreamId, PipeId>,
}

struct RouterTail {
    range: RangeId,
    core: Tail,
    streams: BTreeMap<TailStream, PipeId>,
    /// What came on a stream and was not read yet.
    unread: BTreeMap<TailStream, VecDeque<Unread>>,
}

enum Unread {
    Frame(FromSegd, Bytes),
    Gone,
}

#[derive(Clone, Copy)]
struct Query {
    client: PipeId,
    range: RangeId,
    /// `None`: from what is found.
    from: Option<Offset>,
    follow: bool,
}

#[derive(Default)]
pub struct Router {
    chains: Chains,
    pub watcher: Watcher,
    ranges: BTreeMap<RangeId, RangeSide>,
    produce: BTreeMap<PipeId, (RangeId, ClientStream)>,
    clients: BTreeMap<ClientStream, PipeId>,
    next_client: u64,
    ups: BTreeMap<PipeId, (RangeId, UpstreamId)>,
    tails: BTreeMap<PipeId, RouterTail>,
    tail_pipes: BTreeMap<PipeId, (PipeId, TailStream)>,
    queries: BTreeMap<PipeId, Query>,
    /// Tails that ask whether records wait, by the pipe they ask on.
    asks: BTreeMap<PipeId, (PipeId, SegmentId)>,
}

impl World {
    fn router(&mut self, n: u8) -> &mut Router {
        &mut self.routers[usize::from(n)]
    }

    pub(super) fn start_router(&mut self, n: u8) {
        *self.router(n) = Router::default();
        self.at(self.now + 1, Proc::Router(n), What::Watch);
    }

    pub(super) fn crash_router(&mut self, n: u8) {
        self.see_router_crash(n);
        *self.router(n) = Router::default();
    }

    pub(super) fn at_router(&mut self, n: u8, what: What) {
        let me = Proc::Router(n);
        match what {
            What::Wake => {
                self.state_mut(me).wake_at = None;
                self.router_ticks(n);
            }
            What::Watch => self.open_watch(me),
            What::Frame { pipe, number, frame } => {
                if let Some(frame) = self.arrived(pipe, me, number, frame) {
                    self.router_frame(n, pipe, frame);
                }
            }
            What::Broken { pipe } => self.router_pipe_gone(n, pipe, true),
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
            | What::Load => unreachable!("not for a router"),
        }
        self.rewake_router(n);
    }

    fn rewake_router(&mut self, n: u8) {
        let router = self.router(n);
        let producers = router.ranges.values().filter_map(|side| side.core.next_deadline());
        let deadline = producers.chain(router.tails.values().filter_map(|tail| tail.core.next_deadline())).min();
        self.wake_at(Proc::Router(n), deadline);
    }

    fn router_ticks(&mut self, n: u8) {
        let clock = self.clock(Proc::Router(n));
        let router = self.router(n);
        let due = |deadline: Option<seam_wire::Tick>| deadline.is_some_and(|at| at <= clock);
        let ranges: Vec<RangeId> =
            router.ranges.iter().filter(|(_, side)| due(side.core.next_deadline())).map(|(id, _)| *id).collect();
        let tails: Vec<PipeId> =
            router.tails.iter().filter(|(_, tail)| due(tail.core.next_deadline())).map(|(pipe, _)| *pipe).collect();
        for range in ranges {
            self.range_input(n, range, producer::Input::Tick);
        }
        for pipe in tails {
            self.tail_input(n, pipe, tail::Input::Tick);
        }
    }

    fn router_frame(&mut self, n: u8, pipe: PipeId, frame: Frame) {
        match frame {
            Frame::Update(update) => self.router_update(n, pipe, update),
            Frame::ToRouter(ToRouter::ProduceOpen { topic, range_index }, _) => {
                match self.router(n).chains.resolve(&topic, range_index) {
                    Ok(range) => self.open_produce(n, pipe, range),
                    Err(error) => self.refuse_client(n, pipe, error),
                }
            }
            Frame::ToRouter(ToRouter::Append { seq }, payload) => self.client_append(n, pipe, seq, payload),
            Frame::ToRouter(ToRouter::TailOpen { topic, range_index, from, follow }, _) => {
                match self.router(n).chains.resolve(&topic, range_index) {
                    Ok(range) => self.place_tail(n, pipe, range, from, follow),
                    Err(error) => self.refuse_client(n, pipe, error),
                }
            }
            Frame::FromSegd(msg, payload) => self.router_from_segd(n, pipe, msg, payload),
            Frame::Fin => self.router_pipe_gone(n, pipe, false),
            Frame::ToRouter(ToRouter::Offsets { .. }, _)
            | Frame::FromRouter(..)
            | Frame::ToSegd(..)
            | Frame::Watch { .. } => unreachable!("not for a router"),
        }
    }

    fn router_update(&mut self, n: u8, pipe: PipeId, update: seam_wire::meta::MetaUpdate) {
        let router = self.router(n);
        if !router.watcher.takes(pipe, &update) {
            return;
        }
        let changes = router.chains.apply(update);
        let touched = |range: &RangeId| changes.nodes || changes.ranges.contains(range);
        let ranges: Vec<RangeId> = router.ranges.keys().copied().filter(touched).collect();
        let tails: Vec<PipeId> =
            router.tails.iter().filter(|(_, tail)| touched(&tail.range)).map(|(pipe, _)| *pipe).collect();
        for range in ranges {
            self.range_input(n, range, producer::Input::ChainChanged);
        }
        for pipe in tails {
            self.tail_input(n, pipe, tail::Input::ChainChanged);
        }
    }

    fn refuse_client(&mut self, n: u8, pipe: PipeId, error: WireError) {
        let me = Proc::Router(n);
        self.send(pipe, me, Frame::FromRouter(FromRouter::Error { error }, Bytes::new()));
        self.close(pipe, me);
    }

    // -- producers

    fn open_produce(&mut self, n: u8, pipe: PipeId, range: RangeId) {
        let settings = self.plan.producer;
        let router = self.router(n);
        let client = ClientStream(router.next_client);
        router.next_client += 1;
        router.produce.insert(pipe, (range, client));
        router.clients.insert(client, pipe);
        let is_new = !router.ranges.contains_key(&range);
        router
            .ranges
            .entry(range)
            .or_insert_with(|| RangeSide { core: RangeProducer::new(range, settings), ups: BTreeMap::new() });
        if is_new {
            self.range_input(n, range, producer::Input::ChainChanged);
        }
        let opened = FromRouter::ProduceOpened { range, max_batch_bytes: 1 << 20 };
        self.send(pipe, Proc::Router(n), Frame::FromRouter(opened, Bytes::new()));
    }

    fn client_append(&mut self, n: u8, pipe: PipeId, seq: u64, payload: Bytes) {
        let Some((range, client)) = self.router(n).produce.get(&pipe).copied() else { return };
        let header = BatchHeader::parse(&payload).expect("the client built it");
        let producer = header.producer.map(|(id, epoch, base_sequence)| ProducerSeq { id, epoch, base_sequence });
        let deadline = self.clock(Proc::Router(n)).after_us(self.plan.load.append_patience_us);
        self.range_input(n, range, producer::Input::Append { client, seq, producer, payload, deadline, trace: None });
    }

    fn range_input(&mut self, n: u8, range: RangeId, input: producer::Input) {
        let me = Proc::Router(n);
        let clock = self.clock(me);
        let mut effects = Vec::new();
        let router = self.router(n);
        let Some(side) = router.ranges.get_mut(&range) else { return };
        side.core.handle(clock, input, &router.chains, &mut effects);
        side.core.assert_invariants();
        for effect in effects {
            match &effect {
                producer::Effect::Send { up, segment, seq, payload, trace: _ } => {
                    let header = BatchHeader::parse(payload).map(|header| (header.producer, header.record_count));
                    trace!(self, "{me:?} sends {segment} {up:?} {seq}: {header:?}");
                }
                other => trace!(self, "{me:?} {other:?}"),
            }
            match effect {
                producer::Effect::OpenUpstream { up, segment, node }
                | producer::Effect::WarmUpstream { up, segment, node } => {
                    let pipe = self.dial_segd(n, node, segment, ToSegd::AppendOpen);
                    let router = self.router(n);
                    router.ups.insert(pipe, (range, up));
                    router.ranges.get_mut(&range).expect("its effect").ups.insert(up, pipe);
                }
                producer::Effect::Send { up, segment, seq, payload, trace: _ } => {
                    if let Some(pipe) = self.router(n).ranges[&range].ups.get(&up).copied() {
                        self.send(pipe, me, Frame::ToSegd(segment, ToSegd::Append { seq }, payload));
                    }
                }
                producer::Effect::AckClient { client, seq, base_offset } => {
                    self.tell_producer(n, client, FromRouter::AppendAck { seq, base_offset });
                }
                producer::Effect::FailClient { client, seq, error } => {
                    self.tell_producer(n, client, FromRouter::AppendError { seq, error });
                }
                producer::Effect::CloseUpstream { up, segment: _ } => {
                    let router = self.router(n);
                    if let Some(pipe) = router.ranges.get_mut(&range).expect("its effect").ups.remove(&up) {
                        router.ups.remove(&pipe);
                        self.close(pipe, me);
                    }
                }
            }
        }
    }

    fn tell_producer(&mut self, n: u8, client: ClientStream, msg: FromRouter) {
        if let Some(pipe) = self.router(n).clients.get(&client).copied() {
            self.send(pipe, Proc::Router(n), Frame::FromRouter(msg, Bytes::new()));
        }
    }

    fn dial_segd(&mut self, n: u8, node: NodeId, segment: SegmentId, first: ToSegd) -> PipeId {
        let me = Proc::Router(n);
        let pipe = self.open_pipe(me, Proc::Segd(index_of(node)));
        self.send(pipe, me, Frame::ToSegd(segment, first, Bytes::new()));
        pipe
    }

    // -- tails

    fn place_tail(&mut self, n: u8, pipe: PipeId, range: RangeId, from: TailFrom, follow: bool) {
        let router = self.router(n);
        let earliest = router.chains.earliest(range);
        let head = router.chains.head(range).and_then(|head| router.chains.primary(head).map(|node| (head, node)));
        let (Some(earliest), Some((head, node))) = (earliest, head) else {
            let error = WireError::retry(ErrorCode::Unavailable, "the range has no chain yet");
            return self.refuse_client(n, pipe, error);
        };
        let start = match from {
            TailFrom::Earliest => Some(earliest),
            TailFrom::Offset(offset) => Some(offset),
            TailFrom::Latest => None,
        };
        match start.filter(|_| follow) {
            Some(start) => {
                let tail = self.new_tail(range, start, None);
                self.begin_tail(n, pipe, start, tail);
            }
            // The end is asked for first: as the start, or as the bound.
            None => {
                let query = self.dial_segd(n, node, head, ToSegd::Committed);
                self.router(n).queries.insert(query, Query { client: pipe, range, from: start, follow });
            }
        }
    }

    fn new_tail(&self, range: RangeId, from: Offset, until: Option<Offset>) -> RouterTail {
        let core = Tail::new(range, from, until, 0, self.plan.tail);
        RouterTail { range, core, streams: BTreeMap::new(), unread: BTreeMap::new() }
    }

    fn begin_tail(&mut self, n: u8, pipe: PipeId, start: Offset, tail: RouterTail) {
        let opened = FromRouter::TailOpened { range: tail.range, start };
        self.send(pipe, Proc::Router(n), Frame::FromRouter(opened, Bytes::new()));
        self.router(n).tails.insert(pipe, tail);
        self.tail_input(n, pipe, tail::Input::ChainChanged);
    }

    fn on_query(&mut self, n: u8, query: Query, msg: FromSegd) {
        match msg {
            // A segment that is over is not where the range ends: its successor is about to be known here.
            FromSegd::Committed { start: Some(_), committed, end: None } => {
                let from = query.from.unwrap_or(committed);
                let until = (!query.follow).then_some(committed);
                let tail = self.new_tail(query.range, from, until);
                self.begin_tail(n, query.client, from, tail);
            }
            FromSegd::Error { error } => self.refuse_client(n, query.client, error),
            other => {
                let error = WireError::retry(ErrorCode::Unavailable, format!("no end known: {other:?}"));
                self.refuse_client(n, query.client, error);
            }
        }
    }

    fn tail_input(&mut self, n: u8, client: PipeId, input: tail::Input) {
        let me = Proc::Router(n);
        let clock = self.clock(me);
        let mut effects = Vec::new();
        let router = self.router(n);
        let Some(tail) = router.tails.get_mut(&client) else { return };
        tail.core.handle(clock, input, &router.chains, &mut effects);
        for effect in effects {
            match effect {
                tail::Effect::Open { stream, segment, node, from } => {
                    trace!(self, "{me:?} tail {client:?} opens {segment} at {node} from {from:?}");
                    let pipe = self.dial_segd(n, node, segment, ToSegd::TailOpen { from, until: None });
                    let router = self.router(n);
                    router.tail_pipes.insert(pipe, (client, stream));
                    let tail = router.tails.get_mut(&client).expect("its effect");
                    tail.streams.insert(stream, pipe);
                    tail.unread.insert(stream, VecDeque::new());
                }
                tail::Effect::Close { stream } => {
                    let router = self.router(n);
                    let tail = router.tails.get_mut(&client).expect("its effect");
                    tail.unread.remove(&stream);
                    if let Some(pipe) = tail.streams.remove(&stream) {
                        router.tail_pipes.remove(&pipe);
                        self.close(pipe, me);
                    }
                }
                tail::Effect::Deliver { next, payload } => {
                    self.send(client, me, Frame::FromRouter(FromRouter::Records { next }, payload));
                }
                tail::Effect::AskEnd { segment, node } => {
                    let pipe = self.dial_segd(n, node, segment, ToSegd::Committed);
                    self.router(n).asks.insert(pipe, (client, segment));
                }
                tail::Effect::Finished { end } => {
                    self.send(client, me, Frame::FromRouter(FromRouter::TailEnd { end }, Bytes::new()));
                    self.router(n).tails.remove(&client);
                    return self.close(client, me);
                }
                tail::Effect::Failed { error } => {
                    self.router(n).tails.remove(&client);
                    return self.refuse_client(n, client, error);
                }
            }
        }
        self.read_tail(n, client);
    }

    /// Hands the tail one thing it wants to read, if there is one; `tail_input` comes back here.
    fn read_tail(&mut self, n: u8, client: PipeId) {
        let Some(tail) = self.router(n).tails.get_mut(&client) else { return };
        let ready = tail.unread.iter().find(|(stream, unread)| !unread.is_empty() && tail.core.reads(**stream));
        let Some(stream) = ready.map(|(stream, _)| *stream) else { return };
        let next = tail.unread.get_mut(&stream).and_then(VecDeque::pop_front);
        match next {
            Some(Unread::Frame(msg, payload)) => {
                self.tail_input(n, client, tail::Input::FromSegd { stream, msg, payload });
            }
            Some(Unread::Gone) => self.tail_input(n, client, tail::Input::Broken { stream }),
            None => {}
        }
    }

    // -- streams

    fn router_from_segd(&mut self, n: u8, pipe: PipeId, msg: FromSegd, payload: Bytes) {
        let router = self.router(n);
        if let Some((range, up)) = router.ups.get(&pipe).copied() {
            self.range_input(n, range, producer::Input::FromSegd { up, msg });
        } else if let Some((client, stream)) = router.tail_pipes.get(&pipe).copied() {
            if let Some(unread) = router.tails.get_mut(&client).and_then(|tail| tail.unread.get_mut(&stream)) {
                unread.push_back(Unread::Frame(msg, payload));
            }
            self.read_tail(n, client);
        } else if let Some(query) = router.queries.remove(&pipe) {
            self.on_query(n, query, msg);
        } else if let Some((client, segment)) = router.asks.remove(&pipe) {
            let bounds = match msg {
                FromSegd::Committed { committed, end, .. } => Some((committed, end)),
                _ => None,
            };
            self.tail_input(n, client, tail::Input::Committed { segment, bounds });
        }
    }

    fn router_pipe_gone(&mut self, n: u8, pipe: PipeId, hard: bool) {
        let me = Proc::Router(n);
        let router = self.router(n);
        if let Some((range, up)) = router.ups.remove(&pipe) {
            router.ranges.get_mut(&range).expect("ranges stay").ups.remove(&up);
            self.range_input(n, range, producer::Input::UpstreamBroken { up });
        } else if let Some((client, stream)) = router.tail_pipes.remove(&pipe) {
            let Some(tail) = router.tails.get_mut(&client) else { return };
            tail.streams.remove(&stream);
            if hard {
                tail.unread.remove(&stream);
                self.tail_input(n, client, tail::Input::Broken { stream });
            } else {
                tail.unread.entry(stream).or_default().push_back(Unread::Gone);
                self.read_tail(n, client);
            }
        } else if let Some(query) = router.queries.remove(&pipe) {
            let error = WireError::retry(ErrorCode::Unavailable, "the head did not answer");
            self.refuse_client(n, query.client, error);
        } else if let Some((client, segment)) = router.asks.remove(&pipe) {
            self.tail_input(n, client, tail::Input::Committed { segment, bounds: None });
        } else if let Some((range, client)) = router.produce.remove(&pipe) {
            router.clients.remove(&client);
            self.range_input(n, range, producer::Input::ClientGone { client });
        } else if let Some(tail) = router.tails.remove(&pipe) {
            for up in tail.streams.into_values() {
                self.router(n).tail_pipes.remove(&up);
                self.close(up, me);
            }
        }
        self.watch_gone(me, pipe);
    }
}
