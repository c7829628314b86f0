//! When a producer starts over: told case by case, where `producer_world` only says that it does no harm.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use client_core::SendError;
use client_core::accumulate::ClosedBatch;
use client_core::producer::{Effect, Input, ProducerSettings, RangeProducer, StreamId};
use seam_wire::batch::{BatchBuilder, BatchHeader, Compression};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::{Offset, ProducerId, Tick};

const NOW: Tick = Tick(1_000);
const DEADLINE: Tick = Tick(30_000_000);

struct Rig {
    machine: RangeProducer<u64>,
    stream: StreamId,
    sent: Vec<(u64, Bytes)>,
    done: Vec<(u64, Result<Offset, SendError>)>,
    next_order: u64,
}

impl Rig {
    /// A machine with an open stream and `batches` batches of 2 records in flight.
    fn with_in_flight(batches: u64) -> Rig {
        let machine = RangeProducer::new(ProducerId(7), ProducerSettings::default());
        let mut rig = Rig { machine, stream: StreamId(0), sent: Vec::new(), done: Vec::new(), next_order: 0 };
        (0..batches).for_each(|_| rig.submit());
        rig.input(NOW, Input::Opened { stream: StreamId(0) });
        rig
    }

    fn submit(&mut self) {
        let order = self.next_order;
        self.next_order += 1;
        let mut builder = BatchBuilder::new(Compression::None, None);
        (0..2).for_each(|_| builder.push(0, None, Some(b"x"), &[]).unwrap());
        let batch = ClosedBatch { order, builder, waiters: vec![order; 2], cost: 2, deadline: DEADLINE };
        self.input(NOW, Input::Batch(batch));
    }

    fn input(&mut self, now: Tick, input: Input<u64>) {
        let mut out = Vec::new();
        self.machine.handle(now, input, &mut out);
        for effect in out {
            match effect {
                Effect::Open { stream, .. } => self.stream = stream,
                Effect::Send { seq, payload, .. } => self.sent.push((seq, payload)),
                Effect::Close { .. } => {}
                Effect::Done { waiters, result, .. } => self.done.push((waiters[0], result)),
            }
        }
    }

    fn ack(&mut self, seq: u64) {
        self.input(NOW, Input::Ack { stream: self.stream, seq, base_offset: Offset(seq * 2) });
    }

    fn fail(&mut self, seq: u64, code: ErrorCode) {
        let error = WireError::refused(code, "on purpose");
        self.input(NOW, Input::Failed { stream: self.stream, seq, error });
    }

    /// Id, epoch and base sequence of what was sent since this was last asked.
    fn producers(&mut self) -> Vec<(u64, i16, i32)> {
        let sent = std::mem::take(&mut self.sent);
        let producer = |bytes: &Bytes| BatchHeader::parse(bytes).unwrap().producer.unwrap();
        sent.iter().map(|(_, bytes)| producer(bytes)).map(|(id, epoch, base)| (id.0, epoch, base)).collect()
    }
}

#[test]
fn a_producer_that_segd_forgot_starts_over() {
    let mut rig = Rig::with_in_flight(3);
    assert_eq!(rig.producers(), [(7, 0, 0), (7, 0, 2), (7, 0, 4)]);
    rig.ack(0);
    rig.fail(1, ErrorCode::OutOfSequence);
    assert!(rig.producers().is_empty(), "the third is not settled yet");
    rig.fail(2, ErrorCode::OutOfSequence);
    assert_eq!(rig.producers(), [(7, 1, 0), (7, 1, 2)], "all copies were refused: nothing can be written twice");
    rig.ack(3);
    rig.ack(4);
    assert!(rig.done.iter().all(|(_, result)| result.is_ok()) && rig.done.len() == 3, "{:?}", rig.done);
}

#[test]
fn behind_a_refused_batch_the_others_start_over() {
    let mut rig = Rig::with_in_flight(3);
    rig.producers();
    rig.fail(0, ErrorCode::BadBatch);
    rig.fail(1, ErrorCode::OutOfSequence);
    rig.fail(2, ErrorCode::OutOfSequence);
    assert_eq!(rig.producers(), [(7, 1, 0), (7, 1, 2)]);
    let [(0, Err(error))] = &rig.done[..] else { panic!("{:?}", rig.done) };
    assert!(error.is_definite() && error.code == ErrorCode::BadBatch);
}

#[test]
fn a_copy_under_way_keeps_a_batch_in_its_epoch() {
    let mut rig = Rig::with_in_flight(2);
    rig.producers();
    rig.input(NOW, Input::Broken { stream: rig.stream, detail: "broken".to_owned() });
    rig.input(NOW, Input::Tick);
    rig.input(NOW, Input::Opened { stream: rig.stream });
    assert_eq!(rig.producers(), [(7, 0, 0), (7, 0, 2)], "the same batches, the same sequences");
    rig.fail(0, ErrorCode::OutOfSequence);
    rig.fail(1, ErrorCode::OutOfSequence);
    assert!(rig.producers().is_empty());
    assert!(rig.done.iter().all(|(_, result)| !result.as_ref().unwrap_err().is_definite()) && rig.done.len() == 2);
    rig.submit();
    assert_eq!(rig.producers(), [(7, 1, 0)]);
}

#[test]
fn after_a_deadline_in_doubt_the_next_epoch_begins() {
    let mut rig = Rig::with_in_flight(1);
    rig.producers();
    rig.input(DEADLINE, Input::Tick);
    let [(0, Err(error))] = &rig.done[..] else { panic!("{:?}", rig.done) };
    assert!(!error.is_definite() && error.code == ErrorCode::DeadlineExceeded);
    rig.submit();
    assert_eq!(rig.producers(), [(7, 1, 0)]);
}

#[test]
fn an_id_that_somebody_else_has_is_given_up() {
    let mut rig = Rig::with_in_flight(2);
    rig.producers();
    rig.fail(0, ErrorCode::ProducerFenced);
    rig.fail(1, ErrorCode::ProducerFenced);
    let sent = rig.producers();
    let [(id, 0, 0), (same, 0, 2)] = sent[..] else { panic!("{sent:?}") };
    assert!(id != 7 && id == same && i64::try_from(id).is_ok());
}

#[test]
fn a_refusal_brings_one_pause_whatever_is_behind_it() {
    let mut rig = Rig::with_in_flight(8);
    rig.producers();
    for seq in 0..8 {
        let error = WireError::retry(ErrorCode::Overloaded, "on purpose");
        rig.input(NOW, Input::Failed { stream: rig.stream, seq, error });
    }
    let resume_at = rig.machine.next_deadline().unwrap();
    assert_eq!(resume_at, NOW.after_us(ProducerSettings::default().retry_min_us));
    rig.input(resume_at, Input::Tick);
    assert_eq!(rig.producers().iter().map(|(_, epoch, base)| (*epoch, *base / 2)).collect::<Vec<_>>(), {
        (0..8).map(|n| (0, n)).collect::<Vec<_>>()
    });
}
