//! Tails against a small model of segments and replicas: random rolls, breaks, silent replicas, replicas that lie, late
//! chain updates, retention. Checked: what is delivered is the log from the batch that holds the first offset on, each batch
//! once, in order, with no hole but what retention deleted, told as such; a bounded tail ends where it should; and when faults
//! stop the tail reaches the end.

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use router_core::tail::{Effect, Input, TailStream};
use router_core::{Chains, Tail, TailSettings, Tick};
use seam_wire::batch::headers;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::meta::{MetaItem, NodeState, SegmentState};
use seam_wire::msg::FromSegd;
use seam_wire::{Offset, SegmentId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use support::*;

struct Segment {
    start: u64,
    batches: Vec<Bytes>,
    next: Option<u64>,
}

struct Stream {
    segment: u64,
    node: u64,
    /// `None`: from the start, once there is one.
    at: Option<u64>,
    ended: bool,
    /// The replica's stream is stuck: it brings nothing more, and says nothing.
    deaf: bool,
    /// Opened when its segment was deleted already: nothing is known of it there.
    late: bool,
    from: VecDeque<(FromSegd, Bytes)>,
}

struct World {
    now: u64,
    segments: BTreeMap<u64, Segment>,
    /// Ready candidates of the head.
    candidates: Vec<u64>,
    next_id: u64,
    head: u64,
    end: u64,
    faulty: bool,
    streams: BTreeMap<TailStream, Stream>,
    unpublished: VecDeque<Vec<MetaItem>>,
    chains: Chains,
    tail: Tail,
    until: Option<u64>,
    delivered: Vec<(u64, u64)>,
    finished: Option<u64>,
    failed: Option<WireError>,
    /// The first segment of the chain, and those before it.
    first: u64,
    trimmed: BTreeSet<u64>,
    /// (what was wanted, where the log starts), as told.
    missed: Vec<(u64, u64)>,
    restart: Option<u64>,
}

impl World {
    fn new(from: u64, until: Option<u64>) -> Self {
        let mut chains = Chains::default();
        let mut items: Vec<MetaItem> = vec![topic(), MetaItem::Segment(view(1, None, open(0)))];
        items.extend(nodes_of(1));
        apply(&mut chains, items);
        let first = Segment { start: 0, batches: Vec::new(), next: None };
        World {
            now: 0,
            segments: BTreeMap::from([(1, first)]),
            candidates: Vec::new(),
            next_id: 2,
            head: 1,
            end: 0,
            faulty: true,
            streams: BTreeMap::new(),
            unpublished: VecDeque::new(),
            chains,
            tail: Tail::new(RANGE, Offset(from), until.map(Offset), from, TailSettings::default()),
            until,
            delivered: Vec::new(),
            finished: None,
            failed: None,
            first: 1,
            trimmed: BTreeSet::new(),
            missed: Vec::new(),
            restart: None,
        }
    }

    fn feed(&mut self, input: Input) {
        let mut out = Vec::new();
        let ticked = matches!(input, Input::Tick);
        self.tail.handle(Tick(self.now), input, &self.chains, &mut out);
        let due = self.tail.next_deadline();
        assert!(!ticked || due.is_none_or(|at| at.0 > self.now), "woken for nothing, again and again: {due:?}");
        for effect in out {
            assert!(self.finished.is_none() && self.failed.is_none(), "nothing follows the end: {effect:?}");
            assert!(self.restart.is_none(), "nothing follows the end: {effect:?}");
            self.carry_out(effect);
        }
        // The client goes on where the log starts.
        if let Some(start) = self.restart.take() {
            assert!(self.streams.is_empty(), "all are closed at the end");
            self.tail = Tail::new(RANGE, Offset(start), None, start, TailSettings::default());
            self.feed(Input::ChainChanged);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::Open { stream, segment, node, from } => {
                let sealed = self.segments[&segment.0].next.is_some();
                let node = u64::from(node.0) - segment.0 * 10;
                assert!(sealed || node == 0, "an open segment is read from its primary");
                let at = from.map(|offset| offset.0);
                let opened = (FromSegd::TailOpened { start: None }, Bytes::new());
                let late = self.trimmed.contains(&segment.0);
                let from = VecDeque::from([opened]);
                let new = Stream { segment: segment.0, node, at, ended: false, deaf: false, late, from };
                assert!(self.streams.insert(stream, new).is_none());
            }
            Effect::Close { stream } => drop(self.streams.remove(&stream)),
            Effect::Deliver { next, payload } => {
                for header in headers(&payload) {
                    let header = header.unwrap();
                    self.delivered.push((header.base_offset.0, header.next_offset().0));
                }
                assert_eq!(self.delivered.last().unwrap().1, next.0);
            }
            Effect::AskEnd { segment, node } => {
                assert_eq!(u64::from(node.0), segment.0 * 10, "the primary knows");
                let of = &self.segments[&segment.0];
                let committed = of.batches.last().map_or(of.start, |last| base_and_next(last).1);
                let bounds = (Offset(committed), of.next.map(|_| Offset(committed)));
                // Now and then nobody answers.
                let bounds = (!self.faulty || !self.now.is_multiple_of(7)).then_some(bounds);
                self.feed(Input::Committed { segment, bounds });
            }
            Effect::Finished { end } => self.finished = Some(end.0),
            Effect::Failed { error } => match error.code {
                ErrorCode::Trimmed { start } => {
                    assert!(!error.retryable && self.tail.wanted() < start, "{error}");
                    assert!(start.0 <= self.log_start(), "told before it was so: {error}");
                    self.missed.push((self.tail.wanted().0, start.0));
                    self.restart = Some(start.0);
                }
                _ => self.failed = Some(error),
            },
        }
    }

    fn append(&mut self, records: u64) {
        let made = batches(self.end, self.end + records);
        self.end += records;
        self.segments.get_mut(&self.head).unwrap().batches.extend(made);
    }

    fn prepare(&mut self) {
        let id = self.next_id;
        self.next_id += 1;
        self.segments.insert(id, Segment { start: 0, batches: Vec::new(), next: None });
        self.candidates.push(id);
        let mut items = vec![MetaItem::Segment(view(id, Some(self.head), ready()))];
        items.extend(nodes_of(id));
        self.unpublished.push_back(items);
    }

    /// The head moves; all before is committed and decided.
    fn switch(&mut self) {
        let Some(next) = self.candidates.pop() else { return };
        let (old, end) = (self.head, self.end);
        let start = self.segments[&old].start;
        self.segments.get_mut(&old).unwrap().next = Some(next);
        self.segments.get_mut(&next).unwrap().start = end;
        self.head = next;
        let mut items = vec![
            MetaItem::Segment(view(old, None, sealed(start, end, next))),
            MetaItem::Segment(view(next, Some(old), open(end))),
        ];
        for other in self.candidates.drain(..) {
            items.push(MetaItem::Segment(view(other, Some(old), SegmentState::Reclaiming)));
        }
        self.unpublished.push_back(items);
    }

    fn log_start(&self) -> u64 {
        self.segments[&self.first].start
    }

    /// Retention deletes the first segment of the chain, if it is sealed: committed now, told to the router later.
    fn trim(&mut self) {
        let old = self.first;
        let Some(next) = self.segments[&old].next else { return };
        let (start, end) = (self.segments[&old].start, self.segments[&next].start);
        self.first = next;
        self.trimmed.insert(old);
        let log_start = Offset(end);
        let (start, end, next) = (Offset(start), Offset(end), SegmentId(next));
        let state = SegmentState::Trimmed { start, end, next, log_start };
        self.unpublished.push_back(vec![MetaItem::Segment(view(old, None, state))]);
        self.unpublished.push_back(vec![MetaItem::Segment(view(old, None, SegmentState::Reclaimed))]);
    }

    fn publish(&mut self) {
        if let Some(items) = self.unpublished.pop_front() {
            apply(&mut self.chains, items);
            self.feed(Input::ChainChanged);
        }
    }

    /// The replica behind a stream sends something of what it has.
    fn serve(&mut self, id: TailStream, how: u8) {
        let faulty = self.faulty;
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| !stream.ended && !stream.deaf) else { return };
        let segment = &self.segments[&stream.segment];
        let begun = stream.segment == self.head || segment.next.is_some();
        // The third replica of a sealed segment lags for ever: only leaving it helps.
        if !begun || stream.node == 2 {
            return;
        }
        let at = stream.at.unwrap_or(segment.start);
        let end = segment.batches.last().map_or(segment.start, |last| base_and_next(last).1);
        if self.trimmed.contains(&stream.segment) && (stream.late || at < end) {
            let log_start = Offset(self.segments[&self.first].start);
            let error = if Offset(at) < log_start {
                WireError::trimmed(Offset(at), log_start)
            } else {
                WireError::retry(ErrorCode::UnknownSegment, "not here")
            };
            stream.from.push_back((FromSegd::Error { error }, Bytes::new()));
            stream.ended = true;
            return;
        }
        if at >= end {
            if let Some(next) = segment.next {
                // A liar ends too early.
                let said = if faulty && how.is_multiple_of(16) { end + 1 } else { end };
                stream.from.push_back((FromSegd::End { end: Offset(said), next: SegmentId(next) }, Bytes::new()));
                stream.ended = true;
            }
            return;
        }
        let mut first = segment.batches.iter().position(|batch| base_and_next(batch).1 > at).unwrap();
        if faulty && how.is_multiple_of(16) {
            first = (first + 1).min(segment.batches.len() - 1);
        } else if faulty && how % 16 == 1 {
            first = first.saturating_sub(1);
        }
        let last = (first + 1 + usize::from(how % 3)).min(segment.batches.len());
        let payload: Bytes = segment.batches[first..last].concat().into();
        let next = base_and_next(&segment.batches[last - 1]).1;
        stream.at = Some(next);
        stream.from.push_back((FromSegd::Records { next: Offset(next) }, payload));
    }

    /// The shell reads a stream if the tail wants it read.
    fn hear(&mut self, id: TailStream) {
        if !self.tail.reads(id) {
            return;
        }
        let heard = self.streams.get_mut(&id).and_then(|stream| stream.from.pop_front());
        if let Some((msg, payload)) = heard {
            self.feed(Input::FromSegd { stream: id, msg, payload });
        }
    }

    fn nth(&self, n: u8) -> Option<TailStream> {
        let count = self.streams.len();
        (count > 0).then(|| *self.streams.keys().nth(n as usize % count).unwrap())
    }

    fn break_one(&mut self, id: TailStream) {
        self.streams.remove(&id);
        self.feed(Input::Broken { stream: id });
    }

    fn step(&mut self, op: u8, a: u8, b: u8) {
        match op % 27 {
            0..=3 => self.append(1 + u64::from(a % 5)),
            4..=8 => drop(self.nth(a).map(|id| self.serve(id, b))),
            9..=13 => drop(self.nth(a).map(|id| self.hear(id))),
            14..=15 => self.prepare(),
            16..=17 => self.switch(),
            18..=19 => self.publish(),
            20 => drop(self.nth(a).map(|id| self.break_one(id))),
            25 => {
                let stream = self.nth(a).and_then(|id| self.streams.get_mut(&id));
                stream.into_iter().for_each(|stream| stream.deaf = true);
            }
            21 => {
                self.now += 1_500_000;
                self.feed(Input::Tick);
            }
            22 => {
                let id = self.nth(a);
                let error = WireError::retry(ErrorCode::Unavailable, "going down");
                if let Some(stream) = id.filter(|id| self.tail.reads(*id)) {
                    self.streams.remove(&stream);
                    self.feed(Input::FromSegd { stream, msg: FromSegd::Error { error }, payload: Bytes::new() });
                }
            }
            23 if self.until.is_none() => self.trim(),
            _ => {
                self.now += u64::from(a) * 1_000;
                self.feed(Input::Tick);
            }
        }
    }

    fn heal(&mut self, target: u64) {
        self.faulty = false;
        while !self.unpublished.is_empty() {
            self.publish();
        }
        for _ in 0..2_000 {
            if self.tail.over() || self.tail.wanted().0 >= target {
                return;
            }
            let ids: Vec<TailStream> = self.streams.keys().copied().collect();
            for id in ids {
                self.serve(id, 2);
                self.hear(id);
            }
            let due = self.tail.next_deadline().map_or(1_000, |at| at.0.saturating_sub(self.now));
            self.now += due.clamp(1_000, 300_000);
            self.feed(Input::Tick);
        }
        panic!("the tail stands at {} of {target}: {:#?}", self.tail.wanted(), self.tail);
    }

    fn check(&self, from: u64) {
        let mut wanted = from;
        for (at, (base, next)) in self.delivered.iter().enumerate() {
            let right = if at == 0 { *base <= wanted && wanted < *next } else { *base == wanted };
            let told = || self.chained(wanted, *base);
            assert!(
                right || told(),
                "{base}..{next} came where {wanted} was due: {:?} {:?}",
                self.delivered,
                self.missed
            );
            wanted = *next;
        }
    }
}

impl World {
    /// From `wanted` to `base` by what was told as deleted, one after the other.
    fn chained(&self, wanted: u64, base: u64) -> bool {
        self.missed.iter().fold(wanted, |at, (from, start)| if *from == at { *start } else { at }) == base
    }
}

fn base_and_next(batch: &Bytes) -> (u64, u64) {
    let header = headers(batch).next().unwrap().unwrap();
    (header.base_offset.0, header.next_offset().0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn a_following_tail_is_dense(first in 0u64..12, steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..250)) {
        let mut world = World::new(first, None);
        world.append(12);
        world.feed(Input::ChainChanged);
        for (op, a, b) in steps {
            world.step(op, a, b);
        }
        let end = world.end;
        world.heal(end);
        prop_assert!(world.failed.is_none());
        world.check(first);
        let last = world.delivered.last().map_or(first, |(_, next)| *next);
        prop_assert!(last == end || world.chained(last, end), "{} {} {:?}", last, end, world.missed);
    }

    #[test]
    fn a_bounded_tail_ends_there(first in 0u64..12, steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..250)) {
        let mut world = World::new(first, Some(12));
        world.append(12);
        world.feed(Input::ChainChanged);
        for (op, a, b) in steps {
            world.step(op, a, b);
        }
        world.heal(12);
        prop_assert_eq!(world.finished, Some(12));
        prop_assert_eq!(world.streams.len(), 0);
        world.check(first);
        prop_assert_eq!(world.delivered.last().unwrap().1, 12);
    }
}

/// The boundary costs a tail no round trip: the successor's stream stands before the switch, and its records are taken with
/// no stream opened in between.
#[test]
fn a_handover_needs_no_new_stream() {
    let mut world = World::new(0, None);
    world.feed(Input::ChainChanged);
    world.append(3);
    world.prepare();
    world.publish();
    assert_eq!(world.streams.len(), 2, "the candidate's stream is opened when it is ready");
    let (old, new) = (world.nth(0).unwrap(), world.nth(1).unwrap());
    world.faulty = false;
    for id in [old, new] {
        world.hear(id);
        world.serve(id, 2);
    }
    world.hear(old);
    world.switch();
    world.append(2);
    world.serve(new, 2);
    assert!(!world.tail.reads(new), "it waits in its own window");
    world.serve(old, 2);
    world.hear(old);
    assert!(world.tail.reads(new));
    world.hear(new);
    assert_eq!(world.tail.wanted(), Offset(5));
    assert_eq!(world.streams.len(), 1);
    world.check(0);
    let counters = world.tail.counters();
    assert_eq!((counters.handovers, counters.warm_handovers, counters.breaks), (1, 1, 0));
}

/// A replica of a sealed segment that brings nothing is left for another, and counted.
#[test]
fn a_silent_replica_is_left() {
    let mut world = World::new(0, None);
    world.append(3);
    world.prepare();
    world.switch();
    world.publish();
    world.publish();
    world.streams.clear();
    world.tail = Tail::new(RANGE, Offset(0), None, 2, TailSettings::default());
    world.feed(Input::ChainChanged);
    let silent = world.nth(0).unwrap();
    assert_eq!(world.streams[&silent].node, 2);
    world.hear(silent);
    world.now += 1_100_000;
    world.feed(Input::Tick);
    assert_eq!(world.tail.counters().stalls, 1);
    let other = world.nth(0).unwrap();
    assert_eq!((world.streams.len(), world.streams[&other].node), (1, 0));
}

/// An idle open segment owes nothing: no stall, however long. It asks now and then, and stays.
#[test]
fn an_idle_tail_stays() {
    let mut world = World::new(0, None);
    world.feed(Input::ChainChanged);
    let id = world.nth(0).unwrap();
    world.hear(id);
    for _ in 0..10 {
        world.now += 3_600_000_000;
        world.feed(Input::Tick);
        assert_eq!(world.nth(0), Some(id));
    }
    assert_eq!((world.tail.counters().stalls, world.tail.counters().stuck), (0, 0));
}

/// Nobody serves the tail: it fails, retryable, within its patience, and says what the last word was.
#[test]
fn a_lost_tail_fails_within_its_patience() {
    let mut world = World::new(0, None);
    world.feed(Input::ChainChanged);
    while world.failed.is_none() {
        if let Some(id) = world.nth(0) {
            world.break_one(id);
        }
        world.now = world.tail.next_deadline().map_or(world.now, |at| at.0.max(world.now));
        world.feed(Input::Tick);
        assert!(world.now < 120_000_000, "it waits beyond its patience");
    }
    let error = world.failed.unwrap();
    assert!(error.retryable && error.code == ErrorCode::Unavailable, "{error}");
}

/// A sealed segment whose replicas open the stream and never bring what they owe: that is no service, and the patience
/// runs. Found by a reader that waited for ever.
#[test]
fn replicas_that_open_and_bring_nothing_are_not_waited_for_for_ever() {
    let mut world = World::new(0, None);
    world.append(3);
    world.prepare();
    world.switch();
    world.publish();
    world.publish();
    world.streams.clear();
    world.tail = Tail::new(RANGE, Offset(0), Some(Offset(3)), 0, TailSettings::default());
    world.feed(Input::ChainChanged);
    while world.failed.is_none() {
        if let Some(id) = world.nth(0) {
            world.hear(id);
        }
        world.now = world.tail.next_deadline().expect("it waits for something").0.max(world.now);
        world.feed(Input::Tick);
        assert!(world.now < 120_000_000, "it waits beyond its patience");
    }
}

/// A sealed segment whose nodes are all dead: the failure names the segment and the nodes.
#[test]
fn a_lost_segment_is_named_with_its_nodes() {
    let mut chains = Chains::default();
    let mut items = vec![topic(), MetaItem::Segment(view(4, None, sealed(0, 9, 5))), node(40, NodeState::Dead)];
    items.extend([node(41, NodeState::Dead), MetaItem::Segment(view(5, Some(4), open(9)))]);
    apply(&mut chains, items);
    assert_eq!(chains.sealed_end(RANGE), Some(Offset(9)));
    let mut tail = Tail::new(RANGE, Offset(2), Some(Offset(9)), 0, TailSettings::default());
    let mut out = Vec::new();
    tail.handle(Tick(0), Input::ChainChanged, &chains, &mut out);
    assert!(out.is_empty(), "{out:?}");
    let due = tail.next_deadline().expect("it does not wait for ever");
    tail.handle(due, Input::Tick, &chains, &mut out);
    match &out[..] {
        [Effect::Failed { error }] => {
            for named in ["offset 2", "seg-4 (sealed)", "segd-40 (dead)", "segd-41 (dead)", "segd-42 (unknown)"] {
                assert!(error.detail.contains(named), "{error}");
            }
            assert!(error.retryable);
        }
        other => panic!("{other:?}"),
    }
}

/// An offset below the chain was deleted: told with where the log starts, as data.
#[test]
fn an_offset_below_the_chain_is_trimmed() {
    let mut chains = Chains::default();
    apply(&mut chains, vec![topic(), MetaItem::Segment(view(4, None, open(100))), node(40, NodeState::Live)]);
    let mut tail = Tail::new(RANGE, Offset(99), None, 0, TailSettings::default());
    let mut out = Vec::new();
    tail.handle(Tick(0), Input::ChainChanged, &chains, &mut out);
    match &out[..] {
        [Effect::Failed { error }] => {
            assert_eq!((error.code, error.retryable), (ErrorCode::Trimmed { start: Offset(100) }, false));
            assert_eq!(tail.counters().trimmed, 1);
        }
        other => panic!("{other:?}"),
    }
}

/// A candidate's stream broke, then the tail lost its own: while it looks for another it must not ask to be woken for the
/// candidate, in the past and for ever. Found in a simulated run.
#[test]
fn a_searching_tail_is_not_woken_for_a_broken_successor() {
    let mut world = World::new(0, None);
    world.feed(Input::ChainChanged);
    world.prepare();
    world.publish();
    let (own, successor) = (world.nth(0).unwrap(), world.nth(1).unwrap());
    // The second break in a row is followed by a pause; the candidate is due in the midst of it.
    world.break_one(own);
    world.break_one(successor);
    let again = world.nth(0).unwrap();
    world.break_one(again);
    let due = world.tail.next_deadline().unwrap();
    while world.streams.is_empty() {
        world.now = world.tail.next_deadline().unwrap().0;
        assert!(world.now <= due.0 + 1_000_000);
        world.feed(Input::Tick);
    }
    world.append(2);
    world.heal(2);
    world.check(0);
}

/// The reader stands at the very end of a segment when retention takes it: it is below nothing, and goes on in what follows,
/// though the segment it was told to read is gone.
#[test]
fn a_tail_at_the_end_of_a_trimmed_segment_goes_on() {
    let mut world = World::new(0, None);
    world.faulty = false;
    world.append(3);
    world.feed(Input::ChainChanged);
    let stream = world.nth(0).unwrap();
    world.hear(stream);
    world.serve(stream, 2);
    world.serve(stream, 2);
    (0..2).for_each(|_| world.hear(stream));
    assert_eq!(world.tail.wanted(), Offset(3));
    world.prepare();
    world.switch();
    world.append(2);
    world.break_one(stream);
    world.trim();
    world.heal(5);
    assert!(world.missed.is_empty(), "{:?}", world.missed);
    world.check(0);
}

/// Retention overtakes a reader while its router has not heard of it: segd's word is enough.
#[test]
fn a_tail_is_told_by_segd_before_the_chain_says_so() {
    let mut world = World::new(0, None);
    world.faulty = false;
    world.append(9);
    world.prepare();
    world.switch();
    world.publish();
    world.publish();
    world.feed(Input::ChainChanged);
    let stream = world.nth(0).unwrap();
    world.hear(stream);
    world.trim();
    world.serve(stream, 2);
    world.hear(stream);
    assert_eq!(world.missed, [(0, 9)]);
    world.append(1);
    world.heal(10);
    world.check(0);
}
