//! The tail machine against a log served by routers that break off, repeat themselves, refuse, damage and skip, and that
//! retention shortens: every offset is delivered once and in order, whatever they do (T1, T2), or told once as deleted (T3).

#![allow(clippy::unwrap_used)]

use client_core::tail::{Tail, TailEffect, TailFailure, TailInput, TailSettings};
use proptest::prelude::*;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::TailFrom;
use seam_wire::{Offset, Tick};

#[derive(Clone, Debug)]
enum Step {
    /// Serve the next batch.
    Serve,
    /// The batch before it once more.
    Repeat,
    Break,
    Refuse,
    /// Leave out a batch.
    Skip,
    Damage,
    /// Retention deletes so many batches of what is left.
    Trim(usize),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => Just(Step::Serve),
        1 => Just(Step::Repeat),
        1 => Just(Step::Break),
        1 => Just(Step::Refuse),
        1 => Just(Step::Skip),
        1 => Just(Step::Damage),
        1 => (1usize..4).prop_map(Step::Trim),
        3 => Just(Step::Wait),
    ]
}

struct World {
    now: Tick,
    tail: Tail,
    /// Offsets at which batches begin; the last is the end.
    bounds: Vec<u64>,
    /// The batch to serve next, while a tail is open.
    serving: Option<usize>,
    /// The batch the log starts with.
    log_start: usize,
    delivered: Vec<u64>,
    missed: Vec<u64>,
    opens: Vec<TailFrom>,
    finished: bool,
    failed: Option<TailFailure>,
}

impl World {
    fn input(&mut self, input: TailInput) {
        let mut out = Vec::new();
        self.tail.handle(self.now, input, &mut out);
        for effect in out {
            match effect {
                TailEffect::Open { from, .. } => self.opened(from),
                TailEffect::AskEnd => {
                    let end = self.bounds.last().map(|end| Offset(*end));
                    self.input(TailInput::EndKnown { end });
                }
                TailEffect::Deliver { first, next } => self.delivered.extend(first.0..next.0),
                TailEffect::Trimmed { from, start } => {
                    assert_eq!(start.0, self.bounds[self.log_start], "told as it is");
                    self.missed.extend(from.0..start.0);
                }
                TailEffect::Finish => self.finished = true,
                TailEffect::Fail(failure) => self.failed = Some(failure),
            }
        }
    }

    fn opened(&mut self, from: TailFrom) {
        self.opens.push(from);
        let earliest = self.bounds[self.log_start];
        let start = match from {
            TailFrom::Offset(offset) if offset.0 < earliest => return self.is_trimmed(),
            TailFrom::Earliest => earliest,
            TailFrom::Latest => *self.bounds.last().unwrap(),
            TailFrom::Offset(offset) => offset.0,
        };
        // The batch that holds it begins at or below it.
        self.serving = Some(self.bounds.iter().rposition(|bound| *bound <= start).unwrap());
        self.input(TailInput::Opened { start: Offset(start) });
    }

    fn is_trimmed(&mut self) {
        self.serving = None;
        let start = Offset(self.bounds[self.log_start]);
        let error = WireError::trimmed(self.tail.next_offset().unwrap_or_default(), start);
        self.input(TailInput::Refused { error });
    }

    fn batch(&mut self, index: usize) {
        if let (Some(base), Some(next)) = (self.bounds.get(index), self.bounds.get(index + 1)) {
            let (base, next) = (Offset(*base), Offset(*next));
            self.input(TailInput::Batch { base, next });
        }
    }

    fn step(&mut self, step: &Step) {
        let Some(serving) = self.serving else {
            return self.wait();
        };
        if let Step::Trim(count) = step {
            self.log_start = (self.log_start + count).min(self.bounds.len() - 1);
            return;
        }
        // segd or the router notices at the next word.
        if serving < self.log_start {
            return self.is_trimmed();
        }
        let left = match step {
            Step::Serve => {
                self.serving = Some((serving + 1).min(self.bounds.len() - 1));
                self.batch(serving);
                return self.wait_if_broken();
            }
            Step::Repeat => return self.batch(serving.saturating_sub(1)),
            Step::Skip => {
                self.serving = Some((serving + 1).min(self.bounds.len() - 1));
                return;
            }
            Step::Wait | Step::Trim(_) => return self.wait(),
            Step::Break => TailInput::Broken { detail: "broken".to_owned() },
            Step::Refuse => TailInput::Refused { error: WireError::retry(ErrorCode::Unavailable, "not now") },
            Step::Damage => TailInput::Damaged { detail: "crc".to_owned() },
        };
        self.serving = None;
        self.input(left);
    }

    /// Delivered or told as deleted, in order; twice where it was both.
    fn known(&self) -> Vec<u64> {
        let mut known = [self.delivered.as_slice(), self.missed.as_slice()].concat();
        known.sort_unstable();
        known
    }

    fn wait_if_broken(&mut self) {
        if !self.tail.is_open() {
            self.serving = None;
        }
    }

    fn wait(&mut self) {
        if let Some(deadline) = self.tail.next_deadline() {
            self.now = self.now.max(deadline);
            self.input(TailInput::Tick);
        }
    }
}

fn world(bounds: Vec<u64>, from: TailFrom, settings: TailSettings) -> World {
    let tail = Tail::new(from, settings);
    let mut world = World {
        now: Tick(1),
        tail,
        bounds,
        serving: None,
        log_start: 0,
        delivered: Vec::new(),
        missed: Vec::new(),
        opens: Vec::new(),
        finished: false,
        failed: None,
    };
    world.input(TailInput::Start);
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
    #[test]
    fn every_offset_once_and_in_order(
        sizes in prop::collection::vec(1u64..5, 1..40),
        steps in prop::collection::vec(step(), 0..200),
        start in 0u64..40,
    ) {
        let mut bounds = vec![0];
        sizes.iter().for_each(|size| bounds.push(bounds.last().unwrap() + size));
        let end = *bounds.last().unwrap();
        let start = start.min(end);
        let mut world = world(bounds, TailFrom::Offset(Offset(start)), TailSettings::default());
        steps.iter().for_each(|step| world.step(step));
        let known = world.known();
        prop_assert!(known.iter().copied().eq(start..start + known.len() as u64), "{:?} {:?}", world.delivered, world.missed);
        if world.failed.is_some() {
            return Ok(()); // Damaged or skipped too often at one place.
        }
        // All is well again: the rest comes, and the end. (A router that left out the last batch is not found out before
        // the next one.)
        world.serving = None;
        world.input(TailInput::Broken { detail: "broken".to_owned() });
        for _ in 0..1_000 {
            if world.tail.next_offset() == Some(Offset(end)) && world.tail.is_open() {
                break;
            }
            world.wait();
            world.step(&Step::Serve);
        }
        prop_assert!(world.known().into_iter().eq(start..end), "{:?} {:?}", world.delivered, world.missed);
        prop_assert!(world.delivered.is_sorted_by(|a, b| a < b), "{:?}", world.delivered);
        world.input(TailInput::Ended { end: Offset(end) });
        prop_assert!(world.finished);
    }
}

#[test]
fn goes_on_where_latest_was_even_if_nothing_came() {
    let mut world = world(vec![0, 5], TailFrom::Latest, TailSettings::default());
    assert_eq!(world.tail.next_offset(), Some(Offset(5)));
    world.bounds.push(9);
    world.input(TailInput::Broken { detail: "broken".to_owned() });
    world.wait();
    assert_eq!(world.opens, [TailFrom::Latest, TailFrom::Offset(Offset(5))]);
    world.step(&Step::Serve);
    assert_eq!(world.delivered, [5, 6, 7, 8], "what was written meanwhile is not missed");
}

#[test]
fn a_tail_that_hears_nothing_though_records_wait_goes_on_elsewhere() {
    let mut world = world(vec![0, 5, 9], TailFrom::Earliest, TailSettings::default());
    world.step(&Step::Serve);
    // It asks, and what is under way gets its time.
    world.wait();
    assert_eq!((world.tail.stuck(), world.opens.len()), (0, 1));
    world.wait();
    world.wait();
    assert_eq!((world.tail.stuck(), world.opens.len()), (1, 2));
    world.step(&Step::Serve);
    assert_eq!(world.delivered, (0..9).collect::<Vec<_>>());
    // Nothing waits now: it asks ever less often, and stays.
    let asked_at = world.now;
    for _ in 0..5 {
        world.wait();
    }
    assert!(world.now.since(asked_at) >= 31 * TailSettings::default().silence_us);
    assert_eq!((world.tail.stuck(), world.opens.len()), (1, 2));
}

#[test]
fn a_hole_is_believed_when_all_say_so() {
    let settings = TailSettings { strikes: 3, ..TailSettings::default() };
    let mut world = world(vec![0, 5, 9], TailFrom::Earliest, settings);
    for _ in 0..3 {
        assert_eq!(world.failed, None);
        world.wait();
        world.input(TailInput::Batch { base: Offset(5), next: Offset(9) });
    }
    assert_eq!(world.failed, Some(TailFailure::Hole { expected: Offset(0), found: Offset(5) }));
    assert!(world.delivered.is_empty());
}

#[test]
fn an_unknown_topic_is_believed_after_a_while() {
    let unknown = || TailInput::Refused { error: WireError::refused(ErrorCode::UnknownTopic, "no such topic") };
    let mut world = world(vec![0, 5], TailFrom::Earliest, TailSettings::default());
    world.tail = Tail::new(TailFrom::Earliest, TailSettings::default());
    world.input(unknown());
    assert_eq!(world.failed, None);
    world.now = world.now.after_us(TailSettings::default().unknown_patience_us);
    world.input(unknown());
    assert!(matches!(&world.failed, Some(TailFailure::Refused(error)) if error.code == ErrorCode::UnknownTopic));
}

#[test]
fn gives_up_only_when_told_to() {
    let settings = TailSettings { give_up_us: Some(1_000_000), ..TailSettings::default() };
    let mut patient = Tail::new(TailFrom::Earliest, TailSettings::default());
    let mut hasty = Tail::new(TailFrom::Earliest, settings);
    let mut now = Tick(0);
    let mut gave_up = false;
    for _ in 0..40 {
        let mut out = Vec::new();
        let broken = || TailInput::Broken { detail: "nobody there".to_owned() };
        patient.handle(now, broken(), &mut out);
        assert!(!out.iter().any(|effect| matches!(effect, TailEffect::Fail(_))));
        hasty.handle(now, broken(), &mut out);
        gave_up |= out.iter().any(|effect| matches!(effect, TailEffect::Fail(TailFailure::Refused(_))));
        now = patient.next_deadline().unwrap().max(now);
        patient.handle(now, TailInput::Tick, &mut out);
        hasty.handle(now, TailInput::Tick, &mut out);
    }
    assert!(gave_up);
}

#[test]
fn what_retention_deleted_is_told_once_and_reading_goes_on() {
    let mut world = world(vec![0, 3, 5, 9], TailFrom::Offset(Offset(0)), TailSettings::default());
    world.step(&Step::Serve);
    world.step(&Step::Trim(2));
    world.step(&Step::Serve);
    assert_eq!(world.missed, [3, 4]);
    world.wait();
    assert_eq!(world.opens.last(), Some(&TailFrom::Offset(Offset(5))), "at once, where the log starts");
    world.step(&Step::Serve);
    assert_eq!((world.delivered, world.missed), (vec![0, 1, 2, 5, 6, 7, 8], vec![3, 4]));
}

/// Who asked for the earliest offset, and has got nothing, misses nothing.
#[test]
fn earliest_means_where_the_log_starts_when_the_first_record_comes() {
    let mut world = world(vec![0, 3, 5], TailFrom::Earliest, TailSettings::default());
    world.step(&Step::Trim(1));
    world.step(&Step::Serve);
    world.wait();
    assert_eq!(world.opens, [TailFrom::Earliest, TailFrom::Earliest]);
    world.step(&Step::Serve);
    assert_eq!((world.delivered, world.missed), (vec![3, 4], vec![]));
}

/// A router that says "deleted" of what is not below what is due is left for another, and nothing is skipped for it.
#[test]
fn a_start_below_what_is_due_moves_nothing() {
    let mut world = world(vec![0, 3, 5], TailFrom::Offset(Offset(3)), TailSettings::default());
    let error = WireError::trimmed(Offset(1), Offset(2));
    world.input(TailInput::Refused { error });
    assert_eq!((world.tail.next_offset(), &world.failed), (Some(Offset(3)), &None));
    world.wait();
    world.step(&Step::Serve);
    assert_eq!((world.delivered, world.missed), (vec![3, 4], vec![]));
}
