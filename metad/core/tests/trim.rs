//! Retention as commands: the start of the log moves first and never back, what lies before it is deleted by all who hold it
//! and then leaves the state, and what a successor may still need stays.

#![allow(clippy::unwrap_used)]

mod common;

use common::*;
use metad_core::{Command, Counters, Meta, Outcome, Refusal};
use seam_wire::meta::{MetaItem, NodeState, SegmentState};
use seam_wire::{Offset, RangeId, TopicId};

const RANGE: RangeId = RangeId(1);

/// Segments 1 to `sealed` hold ten records and 100 bytes each, the next one is open.
fn chain_of(sealed: u64) -> Meta {
    let mut meta = one_range();
    for id in 1..=sealed {
        grow(&mut meta, id, id * 10);
    }
    meta
}

/// Seals the head `id` at `end`; the successor lies on nodes 1, 2, 3 too.
fn grow(meta: &mut Meta, id: u64, end: u64) {
    ok(meta, &prepare(id, 1, &[1, 2, 3]));
    ok(meta, &ready(id + 1, &[1, 2, 3], 1));
    ok(meta, &planned(id, end, id + 1));
}

fn chain(meta: &Meta) -> Vec<u64> {
    meta.chain(RANGE).map(|id| id.0).collect()
}

fn start(meta: &Meta) -> u64 {
    meta.range(RANGE).unwrap().start.0
}

#[test]
fn the_start_moves_first_and_the_data_goes_when_all_confirmed() {
    let mut meta = chain_of(4);
    assert_eq!(meta.range(RANGE).unwrap().sealed_bytes, 400);
    let applied = ok(&mut meta, &trim(1, 3));
    assert_eq!((chain(&meta), start(&meta)), (vec![3, 4, 5], 20));
    assert_eq!(meta.range(RANGE).unwrap().sealed_bytes, 200);
    let trimmed = |start: u64, end, next| SegmentState::Trimmed {
        start: Offset(start),
        end: Offset(end),
        next: s(next),
        log_start: Offset(20),
    };
    assert_eq!((state(&meta, 1), state(&meta, 2)), (trimmed(0, 10, 2), trimmed(10, 20, 3)));
    assert_eq!(applied.items.len(), 2, "both are pushed, with the new start");
    again(&mut meta, &trim(1, 3), &Outcome::Done);

    for node in [1, 2] {
        ok(&mut meta, &confirm(1, node));
        again(&mut meta, &confirm(1, node), &Outcome::Done);
    }
    assert_eq!(state(&meta, 1), trimmed(0, 10, 2), "node 3 still has it");
    let last = ok(&mut meta, &confirm(1, 3));
    assert!(is_gone(&meta, 1));
    let [MetaItem::Segment(view)] = last.items.as_slice() else { panic!("{:?}", last.items) };
    assert_eq!((view.spec.id, &view.state), (s(1), &SegmentState::Reclaimed), "the last word on it");
    again(&mut meta, &confirm(1, 3), &Outcome::Done);
    assert!(matches!(no(&mut meta, &prepare(1, 2, &[1, 2, 3])), Refusal::UnknownSegment(_)), "refused for ever");
    (1..=3).for_each(|node| drop(ok(&mut meta, &confirm(2, node))));
    assert_eq!(meta.counters(), Counters { made: 5, used: 5, reclaimed: 0, open: 0 });
    meta.assert_invariants();
    assert_eq!(Meta::restore(&meta.snapshot()).unwrap(), meta);
}

#[test]
fn a_trim_names_the_start_it_saw() {
    let mut meta = chain_of(5);
    ok(&mut meta, &trim(1, 3));
    assert!(matches!(no(&mut meta, &trim(1, 4)), Refusal::WrongFirst { .. }), "another was faster");
    assert!(matches!(no(&mut meta, &trim(3, 1)), Refusal::NotTrimmable { .. }), "it never moves back");
    ok(&mut meta, &trim(3, 5));
    assert_eq!((chain(&meta), start(&meta)), (vec![5, 6], 40));
}

#[test]
fn the_open_segment_and_the_newest_with_records_stay() {
    let mut meta = chain_of(3);
    // 4 and 5 are sealed empty: whoever writes 6 may have to ask the replicas of 3 for the producer table.
    grow(&mut meta, 4, 30);
    grow(&mut meta, 5, 30);
    for keep in [4, 5, 6] {
        assert!(matches!(no(&mut meta, &trim(1, keep)), Refusal::NotTrimmable { .. }), "keep {keep}");
    }
    ok(&mut meta, &trim(1, 3));
    grow(&mut meta, 6, 31);
    ok(&mut meta, &trim(3, 6));
    assert_eq!(chain(&meta), [6, 7]);
    let mut empty = one_range();
    grow(&mut empty, 1, 0);
    grow(&mut empty, 2, 0);
    assert!(matches!(no(&mut empty, &trim(1, 2)), Refusal::NotTrimmable { .. }), "none has records");
    assert!(matches!(
        no(&mut empty, &Command::Trim { range: RangeId(9), first: s(1), keep: s(2) }),
        Refusal::UnknownRange(_)
    ));
}

#[test]
fn a_dead_node_is_not_waited_for_and_a_deleted_topic_is_not_trimmed() {
    let mut meta = chain_of(3);
    let dead = Command::SetNodeState { id: n(3), incarnation: life(1), state: NodeState::Dead };
    ok(&mut meta, &trim(1, 2));
    ok(&mut meta, &confirm(1, 1));
    ok(&mut meta, &confirm(1, 2));
    ok(&mut meta, &dead);
    assert!(is_gone(&meta, 1), "node 3 reconciles when it returns");
    ok(&mut meta, &trim(2, 3));
    ok(&mut meta, &Command::DeleteTopic { topic: TopicId(1) });
    assert!(matches!(no(&mut meta, &trim(3, 4)), Refusal::TopicDeleted { .. }));
    for node in [1, 2] {
        (2..=4).for_each(|segment| drop(ok(&mut meta, &confirm(segment, node))));
    }
    assert_eq!(meta.segments().count(), 0);
    meta.assert_invariants();
}

#[test]
fn what_hangs_from_a_trimmed_segment_is_waited_for() {
    let mut meta = one_range();
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut meta, &prepare(1, 2, &[1, 2, 3]));
    ok(&mut meta, &ready(3, &[1, 2, 3], 1));
    ok(&mut meta, &planned(1, 10, 3));
    grow(&mut meta, 3, 20);
    ok(&mut meta, &trim(1, 3));
    (1..=3).for_each(|node| drop(ok(&mut meta, &confirm(1, node))));
    assert!(meta.segment(s(1)).is_some(), "candidate 2 is not gone from node 4 yet");
    (2..=4).for_each(|node| drop(ok(&mut meta, &confirm(2, node))));
    assert!(is_gone(&meta, 1) && is_gone(&meta, 2));
}

/// A long life leaves a small state: rolls, recoveries' candidates, trims, all confirmed.
#[test]
fn the_state_is_bounded_by_what_is_kept() {
    let mut meta = one_range();
    let mut snapshot = 0;
    let mut head = 1;
    for roll in 1..=2_000u64 {
        // A candidate that is not chosen beside the one that is.
        ok(&mut meta, &prepare(head, 1, &[3, 4, 5]));
        ok(&mut meta, &prepare(head, 2, &[1, 2, 3]));
        let (spare, next) = (head_plus(&meta, 1), head_plus(&meta, 2));
        ok(&mut meta, &ready(next, &[1, 2, 3], 1));
        ok(&mut meta, &planned(head, roll * 10, next));
        (3..=5).for_each(|node| drop(ok(&mut meta, &confirm(spare, node))));
        head = next;
        let chain = chain(&meta);
        if chain.len() > 5 {
            ok(&mut meta, &trim(chain[0], chain[1]));
            (1..=3).for_each(|node| drop(ok(&mut meta, &confirm(chain[0], node))));
        }
        if roll == 1_000 {
            snapshot = meta.snapshot().len();
        }
    }
    assert_eq!(meta.segments().count(), 5);
    // The numbers grow, their count does not.
    assert!(meta.snapshot().len() < snapshot * 5 / 4, "{} and {snapshot} bytes", meta.snapshot().len());
    assert_eq!(meta.counters(), Counters { made: 4_001, used: 2_001, reclaimed: 2_000, open: 0 });
    meta.assert_invariants();
}

/// The id given out so many before the last: 1 is the older of two just made.
fn head_plus(meta: &Meta, nth: u64) -> u64 {
    let newest = meta.segments().last().unwrap().spec.id.0;
    newest - 2 + nth
}
