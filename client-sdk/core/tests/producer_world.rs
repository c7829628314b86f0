//! The producer machine against a model of routers and segd, with everything going wrong that may: streams break with
//! copies left behind in them, copies land late, answers get lost or come in any order, appends are refused, time passes.
//! Whatever happens, P1 to P5 hold as an application and the log would see them.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use client_core::SendError;
use client_core::accumulate::ClosedBatch;
use client_core::producer::{Effect, Input, ProducerSettings, RangeProducer, StreamId};
use proptest::prelude::*;
use seam_wire::batch::{BatchBuilder, BatchHeader, Compression, records, sequence_after};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::{Offset, ProducerId, Tick};
use std::collections::{BTreeMap, VecDeque};

const REMEMBERED: usize = 16;
const DEADLINE_US: u64 = 30_000_000;

#[derive(Default)]
struct Session {
    epoch: i16,
    batches: VecDeque<(i32, u32, u64)>,
}

/// A range's log with the producer table's rules.
#[derive(Default)]
struct Segd {
    sessions: BTreeMap<ProducerId, Session>,
    log: Vec<u32>,
}

impl Segd {
    fn append(&mut self, batch: &Bytes) -> Result<Offset, WireError> {
        let header = BatchHeader::parse(batch).unwrap();
        let (id, epoch, base) = header.producer.unwrap();
        let session = self.sessions.entry(id).or_default();
        if epoch < session.epoch {
            return Err(WireError::refused(ErrorCode::ProducerFenced, "old epoch"));
        }
        if epoch == session.epoch
            && let Some((_, _, offset)) =
                session.batches.iter().find(|(first, count, _)| (*first, *count) == (base, header.record_count))
        {
            return Ok(Offset(*offset));
        }
        let expected = match session.batches.back() {
            Some((first, count, _)) if epoch == session.epoch => sequence_after(*first, *count),
            Some(_) | None => 0,
        };
        if base != expected {
            return Err(WireError::refused(ErrorCode::OutOfSequence, format!("{expected} was due, {base} came")));
        }
        if epoch > session.epoch {
            session.batches.clear();
            session.epoch = epoch;
        }
        let offset = self.log.len() as u64;
        session.batches.push_back((base, header.record_count, offset));
        if session.batches.len() > REMEMBERED {
            session.batches.pop_front();
        }
        let ids = records(batch)
            .unwrap()
            .into_iter()
            .map(|record| u32::from_le_bytes(record.value.unwrap()[..4].try_into().unwrap()));
        self.log.extend(ids);
        Ok(Offset(offset))
    }
}

struct Stream {
    id: StreamId,
    opened: bool,
    /// The client still has it.
    alive: bool,
    copies: VecDeque<(u64, Bytes)>,
    answers: VecDeque<(u64, Result<Offset, WireError>)>,
    /// An append was refused for want of room: later ones are too, until it comes again.
    refused: Option<i32>,
}

#[derive(Clone, Debug)]
enum Step {
    Submit {
        records: u8,
    },
    Wait {
        us: u64,
    },
    Open {
        refuse: bool,
    },
    /// A copy on a stream, alive or dead, reaches segd, or not.
    Land {
        stream: u8,
        fate: u8,
    },
    Answer {
        index: u8,
    },
    Break {
        drop_copies: bool,
    },
    /// A copy that somebody kept lands.
    LandStray {
        index: u8,
    },
}

/// Base sequence, first record, number of records.
type FirstSend = (i32, u32, u32);

struct World {
    now: Tick,
    machine: RangeProducer<u32>,
    settings: ProducerSettings,
    segd: Segd,
    streams: Vec<Stream>,
    strays: Vec<Bytes>,
    next_order: u64,
    next_record: u32,
    deadlines: BTreeMap<u32, Tick>,
    outcomes: BTreeMap<u32, Result<Offset, SendError>>,
    /// What was first sent under each id and epoch, in order.
    sent: BTreeMap<(ProducerId, i16), Vec<FirstSend>>,
}

impl World {
    fn new(max_in_flight: usize) -> Self {
        let settings = ProducerSettings { max_in_flight, ..ProducerSettings::default() };
        World {
            now: Tick(1),
            machine: RangeProducer::new(ProducerId(7), settings),
            settings,
            segd: Segd::default(),
            streams: Vec::new(),
            strays: Vec::new(),
            next_order: 0,
            next_record: 0,
            deadlines: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            sent: BTreeMap::new(),
        }
    }

    fn input(&mut self, input: Input<u32>) {
        let mut out = Vec::new();
        self.machine.handle(self.now, input, &mut out);
        self.machine.assert_invariants();
        for effect in out {
            self.carry_out(effect);
        }
        let due = self.deadlines.iter().find(|(_, deadline)| **deadline < self.now);
        assert_eq!(due, None, "P1: past its deadline without an outcome");
    }

    fn carry_out(&mut self, effect: Effect<u32>) {
        match effect {
            Effect::Open { stream, .. } => {
                assert!(self.streams.iter().all(|other| !other.alive), "two streams at a time");
                let (copies, answers) = (VecDeque::new(), VecDeque::new());
                self.streams.push(Stream { id: stream, opened: false, alive: true, copies, answers, refused: None });
            }
            Effect::Send { stream, seq, payload } => {
                self.check_send(&payload);
                let stream = self.streams.iter_mut().find(|other| other.id == stream).unwrap();
                assert!(stream.alive && stream.opened, "sent on a stream that is not open");
                stream.copies.push_back((seq, payload));
            }
            Effect::Close { stream } => self.kill(stream, false),
            Effect::Done { waiters, cost, result } => {
                assert_eq!(cost, waiters.len());
                for (index, record) in waiters.into_iter().enumerate() {
                    let result = result.clone().map(|base| base.plus(index as u64));
                    assert!(self.deadlines.remove(&record).is_some());
                    assert!(self.outcomes.insert(record, result).is_none(), "P1: two outcomes of {record}");
                }
            }
        }
    }

    /// P2: in each epoch, what is new follows what was sent before; what is sent again is the same.
    fn check_send(&mut self, payload: &Bytes) {
        let header = BatchHeader::parse(payload).unwrap();
        let (id, epoch, base) = header.producer.unwrap();
        let first = records(payload).unwrap()[0].value.clone().unwrap();
        let first = u32::from_le_bytes(first[..4].try_into().unwrap());
        let sent = self.sent.entry((id, epoch)).or_default();
        match sent.iter().find(|(known, _, _)| *known == base) {
            Some((_, record, count)) => assert_eq!((*record, *count), (first, header.record_count), "P2: two contents"),
            None => {
                let expected = sent.last().map_or(0, |(base, _, count)| sequence_after(*base, *count));
                assert_eq!(base, expected, "P2: a gap in epoch {epoch}");
                sent.push((base, first, header.record_count));
            }
        }
        // P3
        let outstanding = sent.iter().filter(|(_, record, _)| self.deadlines.contains_key(record)).count();
        assert!(outstanding <= self.settings.max_in_flight, "P3: {outstanding} in flight");
    }

    fn kill(&mut self, id: StreamId, drop_copies: bool) {
        if let Some(stream) = self.streams.iter_mut().find(|stream| stream.id == id) {
            stream.alive = false;
            stream.answers.clear();
            if drop_copies {
                stream.copies.clear();
            }
        }
    }

    fn submit(&mut self, count: u32, deadline_us: u64) {
        if self.machine.room() == 0 {
            return;
        }
        let mut builder = BatchBuilder::new(Compression::None, None);
        let deadline = self.now.after_us(deadline_us);
        let waiters: Vec<u32> = (self.next_record..self.next_record + count).collect();
        for record in &waiters {
            builder.push(0, None, Some(&record.to_le_bytes()), &[]).unwrap();
            self.deadlines.insert(*record, deadline);
        }
        self.next_record += count;
        let cost = waiters.len();
        let batch = ClosedBatch { order: self.next_order, builder, waiters, cost, deadline };
        self.next_order += 1;
        self.input(Input::Batch(batch));
    }

    fn wait(&mut self, us: u64) {
        let until = self.now.after_us(us);
        for _ in 0..10_000 {
            match self.machine.next_deadline() {
                Some(deadline) if deadline <= until => {
                    let before = self.now;
                    self.now = deadline.max(self.now);
                    self.input(Input::Tick);
                    let next = self.machine.next_deadline();
                    assert!(self.now > before || next.is_none_or(|next| next > self.now), "a tick that is due at once");
                }
                Some(_) | None => {
                    self.now = until;
                    return;
                }
            }
        }
        panic!("time does not pass");
    }

    fn alive(&mut self) -> Option<&mut Stream> {
        self.streams.iter_mut().find(|stream| stream.alive)
    }

    fn open(&mut self, refuse: bool) {
        let Some(stream) = self.alive().filter(|stream| !stream.opened) else {
            return;
        };
        let id = stream.id;
        if refuse {
            stream.alive = false;
            let error = WireError::retry(ErrorCode::Unavailable, "not now");
            self.input(Input::Refused { stream: id, error });
        } else {
            stream.opened = true;
            self.input(Input::Opened { stream: id });
        }
    }

    fn land(&mut self, which: usize, fate: u8) {
        let with_copies: Vec<usize> =
            (0..self.streams.len()).filter(|index| !self.streams[*index].copies.is_empty()).collect();
        if with_copies.is_empty() {
            return;
        }
        let stream = &mut self.streams[with_copies[which % with_copies.len()]];
        let (seq, payload) = stream.copies.pop_front().unwrap();
        let (_, _, base) = BatchHeader::parse(&payload).unwrap().producer.unwrap();
        let behind_refused = stream.refused.is_some_and(|first| base > first);
        let answer = match fate {
            0 => Some(Err(WireError::retry(ErrorCode::Overloaded, "no room"))),
            1 => {
                stream.refused = Some(base);
                Some(Err(WireError::retry(ErrorCode::Overloaded, "no room")))
            }
            _ if behind_refused => Some(Err(WireError::retry(ErrorCode::Overloaded, "that one first"))),
            // The router lost track of it and somebody still has a copy.
            2 => {
                self.strays.push(payload);
                Some(Err(WireError::unknown(ErrorCode::Unavailable, "the stream to segd broke")))
            }
            // Written, or not, and nobody says so.
            3 => {
                let _ = self.segd.append(&payload);
                None
            }
            4 => None,
            5 => Some(Err(WireError::refused(ErrorCode::BadBatch, "refused for good"))),
            _ => {
                stream.refused = None;
                Some(self.segd.append(&payload))
            }
        };
        if let Some(answer) = answer
            && stream.alive
        {
            stream.answers.push_back((seq, answer));
        }
    }

    fn answer(&mut self, index: usize) {
        let Some(stream) = self.alive() else {
            return;
        };
        if stream.answers.is_empty() {
            return;
        }
        let (seq, answer) = stream.answers.remove(index % stream.answers.len()).unwrap();
        let id = stream.id;
        match answer {
            Ok(base_offset) => self.input(Input::Ack { stream: id, seq, base_offset }),
            Err(error) => self.input(Input::Failed { stream: id, seq, error }),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Submit { records } => self.submit(u32::from(*records) + 1, DEADLINE_US),
            Step::Wait { us } => self.wait(*us),
            Step::Open { refuse } => self.open(*refuse),
            Step::Land { stream, fate } => self.land(usize::from(*stream), *fate),
            Step::Answer { index } => self.answer(usize::from(*index)),
            Step::Break { drop_copies } => {
                if let Some(stream) = self.alive() {
                    let id = stream.id;
                    self.kill(id, *drop_copies);
                    self.input(Input::Broken { stream: id, detail: "broken".to_owned() });
                }
            }
            Step::LandStray { index } => {
                if !self.strays.is_empty() {
                    let index = usize::from(*index) % self.strays.len();
                    let _ = self.segd.append(&self.strays.swap_remove(index));
                }
            }
        }
    }

    /// Everything works again: all has its outcome, and a new record is written.
    fn heal(&mut self) {
        self.wait(DEADLINE_US + 1);
        let last = self.next_record;
        self.submit(1, DEADLINE_US);
        for _ in 0..10_000 {
            if self.outcomes.contains_key(&last) {
                break;
            }
            self.wait(1_000);
            self.open(false);
            let dead: Vec<usize> = (0..self.streams.len()).filter(|index| !self.streams[*index].alive).collect();
            dead.into_iter().for_each(|index| self.streams[index].copies.clear());
            self.land(0, 9);
            self.answer(0);
        }
        assert!(matches!(self.outcomes.get(&last), Some(Ok(_))), "not healed: {:?}", self.outcomes.get(&last));
    }

    fn check_end(&mut self) {
        assert!(self.deadlines.is_empty(), "P1: without an outcome: {:?}", self.deadlines);
        assert_eq!(self.outcomes.len() as u32, self.next_record);
        let log = &self.segd.log;
        assert!(log.is_sorted_by(|a, b| a < b), "twice or out of order: {log:?}");
        for (record, outcome) in &self.outcomes {
            match outcome {
                Ok(offset) => assert_eq!(log.get(offset.0 as usize), Some(record), "acked at the wrong place"),
                Err(error) if error.is_definite() => {
                    assert!(!log.contains(record), "P5: {record} is in the log, but: {error}");
                }
                Err(_) => {}
            }
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0u8..4).prop_map(|records| Step::Submit { records }),
        2 => prop_oneof![3 => 0u64..20_000, 2 => 0u64..6_000_000, 1 => 0u64..40_000_000].prop_map(|us| Step::Wait { us }),
        4 => prop::bool::weighted(0.2).prop_map(|refuse| Step::Open { refuse }),
        10 => (0u8..4, 0u8..60).prop_map(|(stream, fate)| Step::Land { stream, fate }),
        10 => prop_oneof![4 => Just(0u8), 1 => 0u8..8].prop_map(|index| Step::Answer { index }),
        1 => any::<bool>().prop_map(|drop_copies| Step::Break { drop_copies }),
        1 => any::<u8>().prop_map(|index| Step::LandStray { index }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4_000, ..ProptestConfig::default() })]
    #[test]
    fn each_record_has_one_true_outcome(
        steps in prop::collection::vec(step(), 1..250),
        max_in_flight in 1usize..=16,
        stray_first: bool,
    ) {
        let mut world = World::new(max_in_flight);
        steps.iter().for_each(|step| world.step(step));
        // Copies left behind land before, or after, all is well again: neither may do harm.
        let leftovers = |world: &mut World| {
            for index in 0..world.streams.len() {
                let copies: Vec<_> = world.streams[index].copies.iter().map(|(_, payload)| payload.clone()).collect();
                copies.iter().for_each(|payload| drop(world.segd.append(payload)));
            }
            let strays = std::mem::take(&mut world.strays);
            strays.iter().for_each(|payload| drop(world.segd.append(payload)));
        };
        let kept: Vec<Bytes> = world
            .streams
            .iter()
            .flat_map(|stream| stream.copies.iter().map(|(_, payload)| payload.clone()))
            .chain(world.strays.iter().cloned())
            .collect();
        if stray_first {
            leftovers(&mut world);
        }
        world.heal();
        kept.iter().for_each(|payload| drop(world.segd.append(payload)));
        world.check_end();
    }
}
