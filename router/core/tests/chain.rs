//! What the picture answers: head, place of an offset, readers, candidates, and what a lagging member cannot undo.

#![allow(clippy::unwrap_used)]

mod support;

use router_core::Chains;
use seam_wire::error::ErrorCode;
use seam_wire::meta::{MetaItem, MetaUpdate, NodeState, SegmentState};
use seam_wire::{NodeId, Offset, RangeId, SegmentId};
use support::*;

fn chains(segments: Vec<MetaItem>) -> Chains {
    let mut chains = Chains::default();
    apply(&mut chains, [vec![topic()], segments, [1, 2, 3, 4].into_iter().flat_map(nodes_of).collect()].concat());
    chains
}

fn segment(id: u64, prior: Option<u64>, state: SegmentState) -> MetaItem {
    MetaItem::Segment(view(id, prior, state))
}

#[test]
fn offsets_are_located_past_empty_segments() {
    let chains = chains(vec![
        segment(1, None, sealed(0, 10, 2)),
        segment(2, Some(1), sealed(10, 10, 3)),
        segment(3, Some(2), sealed(10, 10, 4)),
        segment(4, Some(3), open(10)),
    ]);
    assert_eq!(chains.locate(RANGE, Offset(0)), Some(SegmentId(1)));
    assert_eq!(chains.locate(RANGE, Offset(9)), Some(SegmentId(1)));
    assert_eq!(chains.locate(RANGE, Offset(10)), Some(SegmentId(4)));
    assert_eq!(chains.locate(RANGE, Offset(99)), Some(SegmentId(4)));
    assert_eq!(chains.head(RANGE), Some(SegmentId(4)));
    assert_eq!(chains.earliest(RANGE), Some(Offset(0)));
}

#[test]
fn without_an_open_segment_the_head_is_what_the_last_names_as_next() {
    let mut chains = chains(vec![segment(1, None, sealed(0, 10, 2)), segment(2, Some(1), ready())]);
    assert_eq!(chains.head(RANGE), Some(SegmentId(2)));
    assert_eq!(chains.locate(RANGE, Offset(12)), Some(SegmentId(2)));
    apply(&mut chains, vec![segment(2, Some(1), sealed(10, 10, 3))]);
    assert_eq!(chains.head(RANGE), Some(SegmentId(2)), "of 3 nothing is known, not even where it is");
    assert_eq!(chains.head(RangeId(99)), None);
}

#[test]
fn a_retained_chain_starts_later() {
    let chains = chains(vec![segment(2, Some(1), sealed(10, 20, 3)), segment(3, Some(2), open(20))]);
    assert_eq!(chains.earliest(RANGE), Some(Offset(10)));
    assert_eq!(chains.locate(RANGE, Offset(9)), None);
}

#[test]
fn sealed_segments_are_read_from_any_live_replica_and_open_ones_from_the_primary() {
    let mut chains = chains(vec![segment(1, None, sealed(0, 10, 2)), segment(2, Some(1), open(10))]);
    let ids = |nodes: Vec<NodeId>| nodes.into_iter().map(|id| id.0).collect::<Vec<_>>();
    assert_eq!(ids(chains.readers(SegmentId(1), 0)), [10, 11, 12]);
    assert_eq!(ids(chains.readers(SegmentId(1), 4)), [11, 12, 10]);
    assert_eq!(ids(chains.readers(SegmentId(2), 4)), [20]);
    apply(&mut chains, vec![node(11, NodeState::Dead), node(12, NodeState::Draining)]);
    assert_eq!(ids(chains.readers(SegmentId(1), 0)), [10, 12]);
    assert_eq!(ids(chains.readers(SegmentId(77), 0)), []);
}

#[test]
fn candidates_come_and_go() {
    let mut chains = chains(vec![segment(1, None, open(0)), segment(2, Some(1), SegmentState::Planned)]);
    let ids = |chains: &Chains| chains.candidates(SegmentId(1)).map(|view| view.spec.id.0).collect::<Vec<_>>();
    assert!(ids(&chains).is_empty(), "planned is not ready");
    apply(&mut chains, vec![segment(2, Some(1), ready()), segment(3, Some(1), ready())]);
    assert_eq!(ids(&chains), [2, 3]);
    apply(&mut chains, vec![segment(1, None, sealed(0, 5, 3)), segment(3, Some(1), open(5))]);
    assert_eq!(ids(&chains), [2], "until metad says so");
    assert!(chains.never_chosen(SegmentId(2)), "but it cannot be chosen any more");
    apply(&mut chains, vec![segment(2, Some(1), SegmentState::Reclaimed)]);
    assert!(ids(&chains).is_empty());
    assert!(chains.never_chosen(SegmentId(2)) && !chains.never_chosen(SegmentId(3)));
}

#[test]
fn a_lagging_member_cannot_take_the_picture_back() {
    let mut chains = chains(vec![segment(1, None, open(0))]);
    apply(&mut chains, vec![segment(1, None, sealed(0, 5, 2)), segment(2, Some(1), open(5))]);
    let old = MetaUpdate { version: 1, reset: true, items: vec![topic(), segment(1, None, open(0))] };
    assert!(chains.apply(old).stale);
    assert_eq!(chains.head(RANGE), Some(SegmentId(2)));
    let fresh = MetaUpdate { version: 9, reset: true, items: vec![topic(), segment(5, None, open(7))] };
    assert!(chains.apply(fresh).ranges.contains(&RANGE));
    assert_eq!((chains.head(RANGE), chains.earliest(RANGE)), (Some(SegmentId(5)), Some(Offset(7))));
    assert!(chains.segment(SegmentId(2)).is_none());
}

#[test]
fn names_resolve_or_say_why() {
    let mut empty = Chains::default();
    assert_eq!(empty.resolve("t", 0).unwrap_err().code, ErrorCode::Unavailable, "nothing is known yet");
    apply(&mut empty, vec![topic()]);
    assert_eq!(empty.resolve("t", 0), Ok(RANGE));
    assert_eq!(empty.resolve("t", 1).unwrap_err().code, ErrorCode::UnknownRange);
    assert_eq!(empty.resolve("u", 0).unwrap_err().code, ErrorCode::UnknownTopic);
    let MetaItem::Topic(mut gone) = topic() else { panic!("it is a topic") };
    gone.deleted = true;
    apply(&mut empty, vec![MetaItem::Topic(gone)]);
    assert_eq!(empty.resolve("t", 0).unwrap_err().code, ErrorCode::UnknownTopic);
    assert!(empty.deleted(RANGE));
}

fn trimmed(start: u64, end: u64, next: u64, log_start: u64) -> SegmentState {
    let (start, end, next) = (Offset(start), Offset(end), SegmentId(next));
    SegmentState::Trimmed { start, end, next, log_start: Offset(log_start) }
}

/// Retention: the earliest offset moves with the first trimmed segment, and what is gone is known as gone, not as never chosen.
#[test]
fn a_trimmed_segment_leaves_the_chain_and_then_the_picture() {
    let mut chains = Chains::default();
    let parts = [(1, None, sealed(0, 5, 2)), (2, Some(1), sealed(5, 9, 3)), (3, Some(2), open(9))];
    apply(&mut chains, parts.map(|(id, prior, state)| segment(id, prior, state)).to_vec());
    apply(&mut chains, nodes_of(1).collect());
    assert!(!chains.readers(SegmentId(1), 0).is_empty());
    apply(&mut chains, vec![segment(1, None, trimmed(0, 5, 2, 5))]);
    assert_eq!((chains.earliest(RANGE), chains.locate(RANGE, Offset(3))), (Some(Offset(5)), None));
    assert_eq!(chains.sealed(SegmentId(1)), Some((Offset(5), SegmentId(2))), "a stream that is still on it finds on");
    assert!(chains.gone(SegmentId(1)) && !chains.never_chosen(SegmentId(1)) && !chains.gone(SegmentId(2)));
    assert!(chains.readers(SegmentId(1), 0).is_empty());
    apply(&mut chains, vec![segment(1, None, SegmentState::Reclaimed)]);
    assert!(chains.segment(SegmentId(1)).is_none());
    assert!(chains.gone(SegmentId(1)) && !chains.never_chosen(SegmentId(1)), "what was written there was written");
    assert!(!chains.gone(SegmentId(4)), "an id that was not given out yet may come");

    // A snapshot that holds neither says the same of all ids given out.
    let items = vec![topic(), segment(3, Some(2), open(9)), MetaItem::Ids { next_segment: SegmentId(6) }];
    chains.apply(MetaUpdate { version: 99, reset: true, items });
    assert!(chains.gone(SegmentId(2)) && chains.gone(SegmentId(5)) && !chains.gone(SegmentId(6)));
    assert!(!chains.never_chosen(SegmentId(5)), "it may have been");
}
