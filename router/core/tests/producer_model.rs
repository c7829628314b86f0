//! The producer against a small model of the cluster: random moves, breaks, recoveries, late chain updates, late answers.
//!
//! Checked: every append is answered exactly once; an ack names where the batch really is; what definitely failed is not in
//! the log; nothing is in the log twice, with or without idempotence; the log keeps each client stream's order; and when all
//! faults stop, everything is answered.

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use router_core::producer::{ClientStream, Effect, Input, ProducerSeq, ProducerSettings, RangeProducer, UpstreamId};
use router_core::{Chains, Tick};
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::meta::MetaItem;
use seam_wire::msg::FromSegd;
use seam_wire::{Offset, ProducerId, SegmentId};
use std::collections::{BTreeMap, VecDeque};
use support::*;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    client: u64,
    seq: u64,
    /// Producer id and its sequence.
    producer: Option<(u64, i32)>,
}

#[derive(Debug, Default)]
struct Segment {
    prior: Option<u64>,
    start: u64,
    begun: bool,
    entries: Vec<Entry>,
    /// Appends that came before `Begin`.
    held: Vec<(UpstreamId, u64, Entry)>,
    /// The primary switched, or a recovery decided: it takes no more.
    next: Option<u64>,
    decided: bool,
    recovered: bool,
    committed: usize,
    /// Its primary lost its right: silent for ever.
    fenced: bool,
    /// Overruled: never in the chain.
    dead: bool,
    recorded: bool,
}

#[derive(Debug)]
struct Up {
    segment: u64,
    to: VecDeque<(u64, Entry)>,
    from: VecDeque<FromSegd>,
    /// Accepted or a duplicate of something accepted; acked when that is committed.
    owed: Vec<(u64, Entry)>,
    accepted_through: Option<u64>,
    stopped: bool,
}

#[derive(Clone, Debug)]
enum Answer {
    Acked(u64),
    Failed(WireError),
}

struct World {
    now: u64,
    segments: BTreeMap<u64, Segment>,
    next_id: u64,
    head: u64,
    ups: BTreeMap<UpstreamId, Up>,
    unpublished: VecDeque<Vec<MetaItem>>,
    chains: Chains,
    core: RangeProducer,
    appended: Vec<Entry>,
    answers: BTreeMap<(u64, u64), Answer>,
    next_seq: [u64; 3],
    /// Per idempotent client: its producer id and next sequence.
    sessions: [(u64, i32); 2],
    next_producer: u64,
    deadline_us: u64,
}

impl World {
    fn new(deadline_us: u64) -> Self {
        let mut chains = Chains::default();
        apply(&mut chains, vec![topic(), MetaItem::Segment(view(1, None, open(0)))]);
        let first = Segment { begun: true, ..Segment::default() };
        let settings = ProducerSettings { max_inflight_batches: 12, ..ProducerSettings::default() };
        World {
            now: 0,
            segments: BTreeMap::from([(1, first)]),
            next_id: 2,
            head: 1,
            ups: BTreeMap::new(),
            unpublished: VecDeque::new(),
            chains,
            core: RangeProducer::new(RANGE, settings),
            appended: Vec::new(),
            answers: BTreeMap::new(),
            next_seq: [0; 3],
            sessions: [(100, 0), (101, 0)],
            next_producer: 102,
            deadline_us,
        }
    }

    fn feed(&mut self, input: Input) {
        let mut out = Vec::new();
        let ticked = matches!(input, Input::Tick);
        self.core.handle(Tick(self.now), input, &self.chains, &mut out);
        let due = self.core.next_deadline();
        assert!(!ticked || due.is_none_or(|at| at.0 > self.now), "woken for nothing, again and again: {due:?}");
        self.core.assert_invariants();
        for effect in out {
            self.carry_out(effect);
        }
    }

    fn carry_out(&mut self, effect: Effect) {
        match effect {
            Effect::OpenUpstream { up, segment, node } | Effect::WarmUpstream { up, segment, node } => {
                assert_eq!(u64::from(node.0), segment.0 * 10, "only the primary takes appends");
                let mut from = VecDeque::from([FromSegd::AppendOpened]);
                let seg = &self.segments[&segment.0];
                let mut stopped = false;
                if let Some(next) = seg.next.filter(|_| !seg.fenced) {
                    from.push_back(self.moved(segment.0, next, None));
                    stopped = true;
                }
                let (to, owed) = (VecDeque::new(), Vec::new());
                let up_state = Up { segment: segment.0, to, from, owed, accepted_through: None, stopped };
                assert!(self.ups.insert(up, up_state).is_none());
            }
            Effect::Send { up, segment, seq, payload, trace: _ } => {
                let stream = self.ups.get_mut(&up).expect("sends follow the opening");
                assert_eq!(stream.segment, segment.0);
                let [client, number] = [0, 8].map(|at| u64::from_be_bytes(payload[at..at + 8].try_into().unwrap()));
                let entry = *self.appended.iter().find(|e| e.client == client && e.seq == number).unwrap();
                stream.to.push_back((seq, entry));
            }
            Effect::AckClient { client, seq, base_offset } => self.answer(client, seq, Answer::Acked(base_offset.0)),
            Effect::FailClient { client, seq, error } => {
                if client.0 < 2 {
                    // As the SDK does: a new session after a failure.
                    self.sessions[client.0 as usize] = (self.next_producer, 0);
                    self.next_producer += 1;
                }
                self.answer(client, seq, Answer::Failed(error));
            }
            Effect::CloseUpstream { up, segment } => {
                let stream = self.ups.remove(&up).expect("closed once");
                assert_eq!(stream.segment, segment.0);
            }
        }
    }

    fn answer(&mut self, client: ClientStream, seq: u64, answer: Answer) {
        let before = self.answers.insert((client.0, seq), answer.clone());
        assert!(before.is_none(), "{client:?} {seq} was answered {before:?} and then {answer:?}");
    }

    fn append(&mut self, client: u64) {
        let seq = self.next_seq[client as usize];
        self.next_seq[client as usize] += 1;
        let producer = self.sessions.get_mut(client as usize).map(|(id, next)| {
            *next += 1;
            (*id, *next - 1)
        });
        self.appended.push(Entry { client, seq, producer });
        let mut payload = client.to_be_bytes().to_vec();
        payload.extend(seq.to_be_bytes());
        let producer = producer.map(|(id, seq)| ProducerSeq { id: ProducerId(id), epoch: 0, base_sequence: seq });
        let deadline = Tick(self.now + self.deadline_us);
        let client = ClientStream(client);
        self.feed(Input::Append { client, seq, producer, payload: Bytes::from(payload), deadline, trace: None });
    }

    fn moved(&self, segment: u64, next: u64, accepted_through: Option<u64>) -> FromSegd {
        let seg = &self.segments[&segment];
        let start = Offset(seg.start + seg.entries.len() as u64);
        FromSegd::Moved { next: SegmentId(next), start, accepted_through }
    }

    /// Records up to the end of `segment`, with their offsets and whether they are committed.
    fn lineage(&self, segment: u64) -> Vec<(Entry, bool)> {
        let seg = &self.segments[&segment];
        let mut log = seg.prior.map(|prior| self.lineage(prior)).unwrap_or_default();
        log.truncate(seg.start as usize);
        log.extend(seg.entries.iter().enumerate().map(|(at, entry)| (*entry, at < seg.committed)));
        log
    }

    fn serve(&mut self, up: UpstreamId) {
        let Some(stream) = self.ups.get_mut(&up) else { return };
        let Some((seq, entry)) = stream.to.pop_front() else { return };
        if !stream.stopped {
            self.take(up, seq, entry);
        }
    }

    fn take(&mut self, up: UpstreamId, seq: u64, entry: Entry) {
        let segment = self.ups[&up].segment;
        let seg = &self.segments[&segment];
        if seg.fenced || seg.dead {
            return;
        }
        if !seg.begun {
            self.segments.get_mut(&segment).unwrap().held.push((up, seq, entry));
            return;
        }
        if seg.next.is_some() {
            return;
        }
        let log = self.lineage(segment);
        let known = log.iter().any(|(old, _)| *old == entry) && entry.producer.is_some();
        let stream = self.ups.get_mut(&up).unwrap();
        if !known && let Some((id, number)) = entry.producer {
            let last =
                log.iter().filter_map(|(old, _)| old.producer).filter(|(old, _)| *old == id).map(|(_, n)| n).max();
            if number != last.map_or(0, |last| last + 1) {
                let error = WireError::refused(ErrorCode::OutOfSequence, "");
                stream.from.push_back(FromSegd::AppendError { seq, error });
                return;
            }
        }
        stream.owed.push((seq, entry));
        stream.accepted_through = Some(seq);
        if !known {
            self.segments.get_mut(&segment).unwrap().entries.push(entry);
        }
        self.send_acks();
    }

    fn send_acks(&mut self) {
        let ids: Vec<UpstreamId> = self.ups.keys().copied().collect();
        for up in ids {
            let segment = self.ups[&up].segment;
            if self.segments[&segment].fenced || self.segments[&segment].dead || self.ups[&up].owed.is_empty() {
                continue;
            }
            let log = self.lineage(segment);
            let stream = self.ups.get_mut(&up).unwrap();
            stream.owed.retain(|(seq, entry)| {
                let at = log.iter().position(|(old, committed)| old == entry && *committed);
                if let Some(at) = at {
                    stream.from.push_back(FromSegd::AppendAck { seq: *seq, base_offset: Offset(at as u64) });
                }
                at.is_none()
            });
        }
    }

    /// Commits `more` records of the oldest segment that is not all committed.
    fn commit(&mut self, more: usize) {
        let mut at = self.head;
        while let Some(prior) = self.segments[&at].prior.filter(|prior| !self.segments[prior].decided) {
            at = prior;
        }
        let seg = self.segments.get_mut(&at).unwrap();
        seg.committed = (seg.committed + more).min(seg.entries.len());
        if seg.next.is_some() && seg.committed == seg.entries.len() {
            seg.decided = true;
        }
        self.send_acks();
    }

    fn prepare(&mut self) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.segments.insert(id, Segment { prior: Some(self.head), ..Segment::default() });
        self.unpublished.push_back(vec![MetaItem::Segment(view(id, Some(self.head), ready()))]);
        id
    }

    fn candidate(&self) -> Option<u64> {
        let fits = |seg: &Segment| seg.prior == Some(self.head) && !seg.begun && !seg.dead;
        self.segments.iter().rev().find(|(_, seg)| fits(seg)).map(|(id, _)| *id)
    }

    /// A planned roll: the primary switches to a candidate.
    fn switch(&mut self) {
        let head = &self.segments[&self.head];
        let gate_open = head.prior.is_none_or(|prior| self.segments[&prior].decided);
        let Some(next) = self.candidate().filter(|_| gate_open) else { return };
        let old = self.head;
        self.segments.get_mut(&old).unwrap().next = Some(next);
        self.tell_moved(old, next);
        self.begin(next, old);
        self.commit(0);
    }

    fn begin(&mut self, next: u64, prior: u64) {
        let start = self.segments[&prior].start + self.segments[&prior].entries.len() as u64;
        let seg = self.segments.get_mut(&next).unwrap();
        seg.start = start;
        seg.begun = true;
        self.head = next;
        for (up, seq, entry) in std::mem::take(&mut seg.held) {
            if self.ups.get(&up).is_some_and(|stream| !stream.stopped) {
                self.take(up, seq, entry);
            }
        }
    }

    fn tell_moved(&mut self, segment: u64, next: u64) {
        let ids: Vec<UpstreamId> =
            self.ups.iter().filter(|(_, up)| up.segment == segment && !up.stopped).map(|(id, _)| *id).collect();
        for id in ids {
            let moved = self.moved(segment, next, self.ups[&id].accepted_through);
            let stream = self.ups.get_mut(&id).unwrap();
            stream.stopped = true;
            stream.from.push_back(moved);
        }
    }

    /// metad records what is decided.
    fn record(&mut self) {
        let due = self.segments.iter().find(|(_, seg)| seg.decided && !seg.recorded && !seg.dead).map(|(id, _)| *id);
        let Some(id) = due else { return };
        let seg = self.segments.get_mut(&id).unwrap();
        seg.recorded = true;
        let (next, end) = (seg.next.unwrap(), seg.start + seg.entries.len() as u64);
        let mut sealed_view = view(id, seg.prior, sealed(seg.start, end, next));
        if seg.recovered {
            sealed_view = recovered(sealed_view, next);
        }
        let mut items = vec![sealed_view, view(next, Some(id), open(end))];
        for (other, seg) in &mut self.segments {
            if seg.prior == Some(id) && *other != next {
                seg.dead = true;
                items.push(view(*other, Some(id), seam_wire::meta::SegmentState::Reclaiming));
            }
        }
        self.unpublished.push_back(items.into_iter().map(MetaItem::Segment).collect());
    }

    /// The primary of the oldest undecided segment dies or is cut off; a recovery decides its end.
    fn recover(&mut self, pick: usize, adopt: bool, tell: u8) {
        let mut at = self.head;
        while let Some(prior) = self.segments[&at].prior.filter(|prior| !self.segments[prior].decided) {
            at = prior;
        }
        if self.segments[&at].decided || self.segments[&at].fenced {
            return;
        }
        let sealed_to = self.segments[&at].next;
        self.segments.get_mut(&at).unwrap().fenced = true;
        self.segments.get_mut(&at).unwrap().recovered = true;
        if let Some(next) = sealed_to.filter(|_| adopt) {
            // Its seal entry was found: all before it is kept.
            let seg = self.segments.get_mut(&at).unwrap();
            seg.committed = seg.entries.len();
            seg.decided = true;
            assert!(self.segments[&next].begun);
        } else {
            let seg = self.segments.get_mut(&at).unwrap();
            let keep = seg.committed + pick % (seg.entries.len() - seg.committed + 1);
            seg.entries.truncate(keep);
            seg.committed = keep;
            seg.decided = true;
            self.head = at;
            let next = self.prepare();
            self.segments.get_mut(&at).unwrap().next = Some(next);
            if let Some(overruled) = sealed_to {
                self.overrule(overruled, next, tell);
            }
            self.begin(next, at);
        }
        if tell.is_multiple_of(2) {
            self.break_all(at);
        }
        self.record();
        self.send_acks();
    }

    fn overrule(&mut self, segment: u64, next: u64, tell: u8) {
        let further = self.segments[&segment].next;
        assert!(further.is_none(), "no switch behind a closed gate");
        self.segments.get_mut(&segment).unwrap().dead = true;
        match tell % 3 {
            0 => self.break_all(segment),
            1 => {
                let ids: Vec<UpstreamId> =
                    self.ups.iter().filter(|(_, up)| up.segment == segment).map(|(id, _)| *id).collect();
                for id in ids {
                    let stream = self.ups.get_mut(&id).unwrap();
                    stream.stopped = true;
                    let start = Offset(0);
                    stream.from.push_back(FromSegd::Moved { next: SegmentId(next), start, accepted_through: None });
                }
            }
            _ => {}
        }
    }

    fn break_all(&mut self, segment: u64) {
        let ids: Vec<UpstreamId> = self.ups.iter().filter(|(_, up)| up.segment == segment).map(|(id, _)| *id).collect();
        for id in ids {
            self.break_one(id);
        }
    }

    fn break_one(&mut self, up: UpstreamId) {
        if self.ups.remove(&up).is_some() {
            self.feed(Input::UpstreamBroken { up });
        }
    }

    fn hear(&mut self, up: UpstreamId) {
        let msg = self.ups.get_mut(&up).and_then(|stream| stream.from.pop_front());
        if let Some(msg) = msg {
            self.feed(Input::FromSegd { up, msg });
        }
    }

    fn publish(&mut self) {
        if let Some(items) = self.unpublished.pop_front() {
            apply(&mut self.chains, items);
            self.feed(Input::ChainChanged);
        }
    }

    fn tick(&mut self, micros: u64) {
        self.now += micros;
        self.feed(Input::Tick);
    }

    fn nth_up(&self, n: u8) -> Option<UpstreamId> {
        let count = self.ups.len();
        (count > 0).then(|| *self.ups.keys().nth(n as usize % count).unwrap())
    }

    fn step(&mut self, op: u8, a: u8, b: u8) {
        match op % 32 {
            0..=8 => self.append(u64::from(a % 3)),
            9..=14 => drop(self.nth_up(a).map(|up| (0..=b % 3).for_each(|_| self.serve(up)))),
            15..=19 => drop(self.nth_up(a).map(|up| (0..=b % 3).for_each(|_| self.hear(up)))),
            20..=21 => self.commit(usize::from(a % 4)),
            22 => drop(self.prepare()),
            23..=24 => self.switch(),
            25..=26 => self.publish(),
            27 => self.record(),
            28 => drop(self.nth_up(a).map(|up| self.break_one(up))),
            29 if a.is_multiple_of(2) => self.recover(usize::from(b), a.is_multiple_of(4), b / 8),
            29 => self.tick(1_000_000),
            _ => self.tick(u64::from(a) * 1_000),
        }
    }

    /// Faults stop: everything must be answered well before any deadline.
    fn heal(&mut self) {
        for _ in 0..200 {
            if self.core.is_idle() {
                return;
            }
            while !self.unpublished.is_empty() {
                self.publish();
            }
            self.record();
            let ids: Vec<UpstreamId> = self.ups.keys().copied().collect();
            for up in ids {
                for _ in 0..8 {
                    self.serve(up);
                    self.commit(100);
                    self.hear(up);
                }
            }
            let next =
                self.core.next_deadline().map_or(1_000, |at| at.0.saturating_sub(self.now).clamp(1_000, 500_000));
            self.tick(next);
        }
        panic!("not answered after all faults stopped: {:#?}\n{:#?}", self.core, self.ups);
    }

    /// With time enough, moves, breaks and recoveries are invisible to an idempotent producer.
    fn check_idempotent_appends_succeed(&self) {
        for entry in self.appended.iter().filter(|entry| entry.producer.is_some()) {
            match &self.answers[&(entry.client, entry.seq)] {
                Answer::Acked(_) => {}
                Answer::Failed(error) => assert_eq!(error.code, ErrorCode::Overloaded, "{entry:?}: {error}"),
            }
        }
    }

    fn check(&self) {
        let log: Vec<Entry> = self.lineage(self.head).into_iter().map(|(entry, _)| entry).collect();
        for (at, entry) in log.iter().enumerate() {
            let twice = log[..at].contains(entry);
            assert!(!twice, "{entry:?} is in the log twice: {log:?}");
        }
        for client in 0..3 {
            let seqs: Vec<u64> = log.iter().filter(|e| e.client == client).map(|e| e.seq).collect();
            assert!(seqs.is_sorted(), "client {client}: {seqs:?}");
        }
        for entry in &self.appended {
            let at = log.iter().position(|logged| logged == entry);
            match &self.answers[&(entry.client, entry.seq)] {
                Answer::Acked(offset) => assert_eq!(at, Some(*offset as usize), "{entry:?} in {log:?}"),
                Answer::Failed(error) if error.certainty == Certainty::Definite => {
                    assert_eq!(at, None, "{entry:?} failed for sure with {error}, but is in the log");
                }
                Answer::Failed(_) => {}
            }
        }
        let counters = self.core.counters();
        assert_eq!(counters.appends, self.appended.len() as u64);
        assert_eq!(counters.acks + counters.failed, counters.appends);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12_000, max_shrink_iters: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_append_is_answered_once_and_truly(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..200)) {
        let mut world = World::new(3_600_000_000);
        world.feed(Input::ChainChanged);
        for (op, a, b) in steps {
            world.step(op, a, b);
        }
        world.heal();
        world.check();
        world.check_idempotent_appends_succeed();
    }

    #[test]
    fn deadlines_answer_what_nobody_else_does(steps in proptest::collection::vec(any::<(u8, u8, u8)>(), 1..200)) {
        let mut world = World::new(300_000);
        world.feed(Input::ChainChanged);
        for (op, a, b) in steps {
            world.step(op, a, b);
        }
        world.heal();
        world.check();
    }
}

/// The planned roll as the brochure has it: nothing waits, nothing is sent twice.
#[test]
fn a_planned_move_goes_on_at_once() {
    let mut world = World::new(1_000_000);
    world.feed(Input::ChainChanged);
    let next = world.prepare();
    world.publish();
    assert_eq!(world.core.warm_streams(), 1);
    for _ in 0..3 {
        world.append(0);
    }
    let old = world.nth_up(0).unwrap();
    world.serve(old);
    world.serve(old);
    world.switch();
    // `AppendOpened`, then `Moved`: the third batch was not accepted and goes to the successor, with no further input.
    world.hear(old);
    world.hear(old);
    assert_eq!(world.core.head(), Some(SegmentId(next)));
    let warm = *world.ups.iter().find(|(_, up)| up.segment == next).unwrap().0;
    assert_eq!(world.ups[&warm].to.len(), 1);
    world.append(0);
    assert_eq!(world.ups[&warm].to.len(), 2);
    world.heal();
    world.check();
    let counters = world.core.counters();
    assert_eq!((counters.moved, counters.warm_moves, counters.moved_batches), (1, 1, 1));
    assert_eq!((counters.resends, counters.failed), (0, 0));
}

/// The old stream breaks after the move: its batches go to the new head, which knows them; one without a producer id is
/// answered "it may have happened".
#[test]
fn a_break_after_the_move_resends_only_idempotent_batches() {
    let mut world = World::new(1_000_000);
    world.feed(Input::ChainChanged);
    world.prepare();
    world.publish();
    world.append(0);
    world.append(2);
    let old = world.nth_up(0).unwrap();
    world.serve(old);
    world.serve(old);
    world.switch();
    world.hear(old);
    world.hear(old);
    world.break_one(old);
    match &world.answers[&(2, 0)] {
        Answer::Failed(error) => assert_eq!(error.certainty, Certainty::Indeterminate),
        Answer::Acked(_) => panic!("nobody acked it"),
    }
    world.heal();
    world.check();
    assert!(matches!(world.answers[&(0, 0)], Answer::Acked(0)));
    assert_eq!(world.core.counters().resends, 1);
}

/// N's primary is overruled while its stream still stands, and the router hears it first from the successor that was never
/// chosen: what N had accepted goes before what came after, even in another producer session.
#[test]
fn an_overruled_move_keeps_the_order_of_what_the_old_head_had_accepted() {
    let mut world = World::new(3_600_000_000);
    world.feed(Input::ChainChanged);
    world.prepare();
    world.publish();
    world.append(0);
    world.append(0);
    let old = world.nth_up(0).unwrap();
    world.serve(old);
    world.serve(old);
    world.switch();
    world.hear(old);
    world.hear(old);
    let overruled = world.nth_up(1).unwrap();
    world.sessions[0] = (500, 0);
    world.append(0);
    world.serve(overruled);
    world.recover(0, false, 1);
    world.publish();
    world.hear(overruled);
    world.hear(overruled);
    let left: Vec<u64> = world.ups.values().map(|up| up.segment).collect();
    assert_eq!(left, [world.head], "streams of the fenced primary and of the overruled successor are given up");
    world.heal();
    world.check();
    world.check_idempotent_appends_succeed();
}

/// A full range refuses, and refuses what would come out of order behind the refused.
#[test]
fn a_full_range_refuses_in_order() {
    let mut world = World::new(1_000_000);
    world.feed(Input::ChainChanged);
    for _ in 0..12 {
        world.append(1);
    }
    world.sessions[1].1 = 12;
    let id = ProducerId(world.sessions[1].0);
    let send = |world: &mut World, seq: u64, base_sequence: i32| {
        let mut out = Vec::new();
        let producer = Some(ProducerSeq { id, epoch: 0, base_sequence });
        let payload = Bytes::from(vec![0; 16]);
        let deadline = Tick(1_000_000);
        let input = Input::Append { client: ClientStream(1), seq, producer, payload, deadline, trace: None };
        world.core.handle(Tick(world.now), input, &world.chains, &mut out);
        out
    };
    let overloaded = |out: &[Effect]| match out {
        [Effect::FailClient { error, .. }] => error.code == ErrorCode::Overloaded && error.retryable,
        _ => false,
    };
    assert!(overloaded(&send(&mut world, 12, 12)));
    let up = world.nth_up(0).unwrap();
    world.hear(up);
    world.serve(up);
    world.commit(1);
    world.hear(up);
    // There is room again, but 12 must come first.
    assert!(overloaded(&send(&mut world, 13, 13)));
    assert!(matches!(send(&mut world, 14, 12)[..], [Effect::Send { .. }]));
}
