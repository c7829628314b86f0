//! A tail that hears nothing of an open segment: it finds out whether records wait, and does not wait for ever when they do
//! (rows 17 and 18 of the field reports).

#![allow(clippy::unwrap_used)]

mod support;

use bytes::Bytes;
use router_core::tail::{Effect, Input, TailStream};
use router_core::{Chains, Tail, TailSettings, Tick};
use seam_wire::meta::MetaItem;
use seam_wire::msg::FromSegd;
use seam_wire::{NodeId, Offset, SegmentId};
use support::*;

const SEGMENT: SegmentId = SegmentId(1);

struct Bench {
    now: u64,
    chains: Chains,
    tail: Tail,
}

impl Bench {
    /// A tail that has read up to offset 5 of an open segment and waits.
    fn reading() -> Bench {
        let mut chains = Chains::default();
        let mut items: Vec<MetaItem> = vec![topic(), MetaItem::Segment(view(1, None, open(0)))];
        items.extend(nodes_of(1));
        apply(&mut chains, items);
        let tail = Tail::new(RANGE, Offset(0), None, 0, TailSettings::default());
        let mut bench = Bench { now: 1_000_000, chains, tail };
        let opened = bench.feed(Input::ChainChanged);
        assert!(matches!(opened[..], [Effect::Open { node: NodeId(10), .. }]), "{opened:?}");
        bench.hear(FromSegd::TailOpened { start: Some(Offset(0)) }, Bytes::new());
        bench.hear(FromSegd::Records { next: Offset(5) }, batch(0, 5));
        bench
    }

    fn feed(&mut self, input: Input) -> Vec<Effect> {
        let mut out = Vec::new();
        self.tail.handle(Tick(self.now), input, &self.chains, &mut out);
        out
    }

    fn hear(&mut self, msg: FromSegd, payload: Bytes) -> Vec<Effect> {
        self.feed(Input::FromSegd { stream: TailStream(0), msg, payload })
    }

    /// Lets time pass until something is due. Returns how long, in microseconds.
    fn pass(&mut self) -> (u64, Vec<Effect>) {
        let due = self.tail.next_deadline().expect("it waits for something").0;
        let waited = due - self.now;
        self.now = due;
        (waited, self.feed(Input::Tick))
    }

    fn answer(&mut self, committed: u64) -> Vec<Effect> {
        self.feed(Input::Committed { segment: SEGMENT, bounds: Some((Offset(committed), None)) })
    }
}

fn asks(effects: &[Effect]) -> bool {
    matches!(effects, [Effect::AskEnd { segment: SEGMENT, node: NodeId(10) }])
}

#[test]
fn a_reader_that_makes_no_progress_while_records_wait_looks_again() {
    let mut bench = Bench::reading();
    let (_, asked) = bench.pass();
    assert!(asks(&asked), "{asked:?}");
    assert!(bench.answer(6).is_empty(), "what is under way gets its time");
    let (_, left) = bench.pass();
    assert!(matches!(left[..], [Effect::Close { .. }, Effect::Open { from: Some(Offset(5)), .. }]), "{left:?}");
    assert_eq!(bench.tail.counters().stuck, 1);
}

#[test]
fn a_reader_at_a_decided_end_of_which_it_was_not_told_looks_again() {
    let mut bench = Bench::reading();
    bench.pass();
    let bounds = Some((Offset(5), Some(Offset(5))));
    bench.feed(Input::Committed { segment: SEGMENT, bounds });
    let (_, left) = bench.pass();
    assert!(matches!(left[..], [Effect::Close { .. }, Effect::Open { .. }]), "{left:?}");
    assert_eq!(bench.tail.counters().stuck, 1);
}

#[test]
fn what_comes_while_it_asks_ends_the_suspicion() {
    let mut bench = Bench::reading();
    bench.pass();
    bench.answer(6);
    bench.hear(FromSegd::Records { next: Offset(6) }, batch(5, 1));
    let (_, next) = bench.pass();
    assert!(asks(&next), "the silence begins anew: {next:?}");
    // An answer that what came has overtaken counts for nothing.
    bench.hear(FromSegd::Records { next: Offset(7) }, batch(6, 1));
    bench.answer(9);
    assert!(asks(&bench.pass().1));
    assert_eq!(bench.tail.counters().stuck, 0);
}

#[test]
fn an_idle_range_is_asked_ever_less_often() {
    let mut bench = Bench::reading();
    let settings = TailSettings::default();
    let mut wait_us = settings.silence_us;
    for _ in 0..10 {
        let (waited, asked) = bench.pass();
        assert!(asks(&asked), "{asked:?}");
        assert_eq!(waited, wait_us);
        bench.answer(5);
        wait_us = (2 * wait_us).min(settings.silence_max_us);
    }
    assert_eq!(bench.tail.counters().stuck, 0);
}
