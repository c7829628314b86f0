//! What a node does with metad's word, in cases that once went wrong.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use seam_wire::meta::{Binder, MetaItem, MetaUpdate, Recovery, SegmentSpec, SegmentState, SegmentView, TopicView};
use seam_wire::msg::{Decision, Peer};
use seam_wire::report::Report;
use seam_wire::table::TableSnapshot;
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, Tick, TopicId};
use segd_core::io::{Effect, Input};
use segd_core::node::{Node, RestoredReplica, Settings};
use segd_core::replica::RestoredState;
use segd_core::table::ProducerTable;

const ME: NodeId = NodeId(2);
const S: SegmentId = SegmentId(1);

fn view(state: SegmentState) -> MetaItem {
    let spec = SegmentSpec {
        id: S,
        topic: TopicId(1),
        range: RangeId(1),
        prior: None,
        attempt: 1,
        replicas: vec![NodeId(1), ME, NodeId(3)],
        ack_quorum: 2,
        binder: Binder::Root,
        config: TopicConfig::default(),
    };
    let (primary_incarnation, recovery) = (None, None);
    MetaItem::Segment(SegmentView {
        spec,
        state,
        primary_incarnation,
        recovery,
        release_asked: false,
        roll_requested: 0,
        roll_reason: None,
        trace: None,
    })
}

fn ids(next_segment: u64) -> MetaItem {
    MetaItem::Ids { next_segment: SegmentId(next_segment) }
}

fn trimmed(log_start: u64) -> SegmentState {
    let (start, end) = (Offset(0), Offset(3));
    SegmentState::Trimmed { start, end, next: SegmentId(2), log_start: Offset(log_start) }
}

/// As found on disk: decided to end at 3, all of it here.
fn on_disk() -> RestoredReplica {
    let MetaItem::Segment(view) = view(SegmentState::Planned) else { unreachable!("a segment") };
    let state = RestoredState {
        start: Some(Offset(0)),
        durable_end: Offset(3),
        seal: None,
        promised: Epoch::PRIMARY,
        decision: Some(Decision { end: Offset(3), next: SegmentId(2) }),
        tail_known: true,
    };
    RestoredReplica {
        spec: view.spec,
        state,
        start_table: TableSnapshot::default(),
        table: ProducerTable::default(),
        bytes: 77,
    }
}

fn position(out: &[Effect], wanted: impl Fn(&Effect) -> bool) -> Option<usize> {
    out.iter().position(wanted)
}

fn topic(deleted: bool) -> MetaItem {
    let (name, config, ranges) = ("t".to_owned(), TopicConfig::default(), vec![RangeId(1)]);
    MetaItem::Topic(TopicView { id: TopicId(1), name, config, ranges, deleted })
}

fn tell(node: &mut Node, version: u64, items: Vec<MetaItem>) -> Vec<Effect> {
    let mut out = Vec::new();
    let update = MetaUpdate { version, reset: version == 1, items };
    node.handle(Tick(version), Input::Meta(update), &mut out);
    for effect in out.clone() {
        if let Effect::Persist { token, .. } = effect {
            node.handle(Tick(version), Input::Persisted { token }, &mut out);
        }
    }
    out
}

/// Deleting a topic took every node down that held a segment of its chain.
#[test]
fn segments_of_a_deleted_topic_are_forgotten_though_they_were_decided() {
    let mut node = Node::new(ME, Incarnation(1), Settings::default(), Some(SegmentId(0)), Vec::new());
    tell(&mut node, 1, vec![topic(false), view(SegmentState::Planned)]);
    let sealed = SegmentState::Sealed { start: Offset(0), end: Offset(0), next: SegmentId(2) };
    tell(&mut node, 2, vec![view(sealed)]);
    assert!(node.replica(S).unwrap().decision().is_some());
    let out = tell(&mut node, 3, vec![view(SegmentState::Reclaiming), topic(true)]);
    assert!(out.iter().any(|effect| matches!(effect, Effect::Forget { segment: S, log_start: None })));
    assert!(node.replica(S).is_none());
}

/// A follower that was asked before it had heard of the segment answered only when it was asked again, a quarter of a second
/// later.
#[test]
fn an_open_that_comes_before_the_assignment_is_answered_with_it() {
    let mut node = Node::new(ME, Incarnation(1), Settings::default(), Some(SegmentId(0)), Vec::new());
    let (from, msg, payload) = (NodeId(1), Peer::Open, Bytes::new());
    let mut out = Vec::new();
    node.handle(Tick(1), Input::Peer { from, segment: S, msg, payload, trace: None }, &mut out);
    assert!(out.is_empty());
    let out = tell(&mut node, 1, vec![topic(false), view(SegmentState::Planned)]);
    let opened = |effect: &Effect| matches!(effect, Effect::Send { to: NodeId(1), msg: Peer::Opened, .. });
    assert!(out.iter().any(opened), "{out:?}");
}

/// Under `ack = replicated` a process that ended uncleanly does not know what its replicas had taken. One that was planned
/// as a primary before became it after: it committed, and showed, what its own replica had ignored. As a follower it let
/// itself be counted as open.
#[test]
fn a_replica_that_does_not_know_its_tail_is_neither_primary_nor_counted_as_open() {
    let restored = |tail_known: bool, replicas: Vec<NodeId>| {
        let RestoredReplica { mut spec, state, .. } = on_disk();
        spec.replicas = replicas;
        let state = RestoredState { start: None, durable_end: Offset(0), decision: None, tail_known, ..state };
        RestoredReplica {
            spec,
            state,
            start_table: TableSnapshot::default(),
            table: ProducerTable::default(),
            bytes: 0,
        }
    };
    let started = |tail_known: bool, replicas: &[u32]| {
        let replicas: Vec<NodeId> = replicas.iter().copied().map(NodeId).collect();
        let replica = restored(tail_known, replicas.clone());
        let mut node = Node::new(ME, Incarnation(2), Settings::default(), Some(SegmentId(0)), vec![replica]);
        let MetaItem::Segment(mut view) = view(SegmentState::Planned) else { unreachable!("it makes a segment") };
        view.spec.replicas = replicas;
        tell(&mut node, 1, vec![topic(false), MetaItem::Segment(view)]);
        node
    };
    let opens = |node: &mut Node| {
        let (from, msg, payload) = (NodeId(1), Peer::Open, Bytes::new());
        let mut out = Vec::new();
        node.handle(Tick(2), Input::Peer { from, segment: S, msg, payload, trace: None }, &mut out);
        out.iter().any(|effect| matches!(effect, Effect::Send { msg: Peer::Opened, .. }))
    };
    assert!(started(true, &[2, 1, 3]).primary(S).is_some());
    assert!(started(false, &[2, 1, 3]).primary(S).is_none());
    assert!(opens(&mut started(true, &[1, 2, 3])));
    assert!(!opens(&mut started(false, &[1, 2, 3])));
}

/// A node whose journal had failed asked to be woken for deadlines that it never looked at again: its process spun.
#[test]
fn a_node_out_of_service_wants_no_wake_up() {
    let mut node = Node::new(ME, Incarnation(1), Settings::default(), Some(SegmentId(0)), Vec::new());
    tell(&mut node, 1, vec![topic(false), view(SegmentState::Planned)]);
    let (from, msg, payload) =
        (NodeId(1), Peer::Fence { epoch: seam_wire::Epoch(1), loss_accepted: false }, Bytes::new());
    let mut out = Vec::new();
    node.handle(Tick(2), Input::Peer { from, segment: S, msg, payload, trace: None }, &mut out);
    let open = SegmentState::Open { start: Offset(0) };
    tell(&mut node, 3, vec![recovered_by_me(open)]);
    assert!(node.next_deadline().is_some(), "an agent repeats itself");
    node.handle(Tick(4), Input::JournalFailed, &mut out);
    assert_eq!(node.next_deadline(), None);
}

fn recovered_by_me(state: SegmentState) -> MetaItem {
    let MetaItem::Segment(view) = view(state) else { unreachable!("it makes a segment") };
    let recovery = Some(Recovery {
        epoch: seam_wire::Epoch(1),
        agent: ME,
        agent_incarnation: Incarnation(1),
        candidate: SegmentId(2),
        start: Offset(0),
        loss_accepted: false,
    });
    MetaItem::Segment(SegmentView { recovery, ..view })
}

/// A node that came back with an empty disk opened a candidate anew that metad took for unused still; it had been begun, and
/// written. The empty answer to the agent took back what was acked.
#[test]
fn v7_a_lost_disk_opens_no_candidate_that_the_old_one_may_have_held() {
    let ready = SegmentState::Ready { open_on: vec![NodeId(1), ME] };
    let fence = |node: &mut Node| {
        let (from, msg, payload) =
            (NodeId(1), Peer::Fence { epoch: seam_wire::Epoch(1), loss_accepted: false }, Bytes::new());
        let mut out = Vec::new();
        node.handle(Tick(9), Input::Peer { from, segment: S, msg, payload, trace: None }, &mut out);
        out
    };
    let refused = |effect: &Effect| matches!(effect, Effect::Send { msg: Peer::CannotAnswer { .. }, .. });
    let mut node = Node::new(ME, Incarnation(2), Settings::default(), None, Vec::new());
    let out = tell(&mut node, 7, vec![topic(false), view(SegmentState::Planned)]);
    assert!(out.is_empty(), "a view may be older than the registration: {out:?}");
    tell(&mut node, 8, vec![view(ready)]);
    let mut out = Vec::new();
    node.handle(Tick(8), Input::Registered { next_segment: SegmentId(2) }, &mut out);
    assert!(out.iter().any(|effect| matches!(effect, Effect::Found { first: SegmentId(2) })), "{out:?}");
    node.handle(Tick(9), Input::Founded { first: SegmentId(2) }, &mut Vec::new());
    assert!(node.replica(S).is_none());
    assert!(fence(&mut node).iter().any(refused));

    // The same segment on a disk that was there before it: it was never held, and is opened late.
    let mut straggler = Node::new(ME, Incarnation(2), Settings::default(), Some(SegmentId(1)), Vec::new());
    tell(&mut straggler, 1, vec![topic(false), view(SegmentState::Open { start: Offset(0) })]);
    assert!(straggler.replica(S).is_some());
}

/// Readers hear of the new start before the files go, and metad hears that they are gone.
#[test]
fn a_trimmed_segment_is_told_to_readers_then_forgotten_then_reported() {
    let mut node = Node::new(ME, Incarnation(2), Settings::default(), Some(SegmentId(0)), vec![on_disk()]);
    let sealed = SegmentState::Sealed { start: Offset(0), end: Offset(3), next: SegmentId(2) };
    tell(&mut node, 1, vec![topic(false), view(sealed), ids(5)]);
    assert!(node.replica(S).is_some());
    let out = tell(&mut node, 2, vec![view(trimmed(3))]);
    let told = position(&out, |e| matches!(e, Effect::LogStart { range: RangeId(1), start: Offset(3) }));
    let gone = position(&out, |e| matches!(e, Effect::Forget { segment: S, log_start: Some(Offset(3)) }));
    let report = Report::Reclaimed { segment: S, node: ME };
    let reported = position(&out, |e| matches!(e, Effect::Report { report: r, .. } if *r == report));
    assert!(told.is_some() && told < gone && gone < reported, "{out:?}");
    assert!(node.replica(S).is_none());
    // metad's last word on it, and the same again: nothing is left to do.
    let out = tell(&mut node, 3, vec![view(SegmentState::Reclaimed)]);
    assert!(!out.iter().any(|e| matches!(e, Effect::Forget { .. } | Effect::Report { .. })), "{out:?}");
}

/// A node that was away while a segment was trimmed, or a candidate reclaimed, and all others confirmed: it is taken for dead,
/// metad forgets the segment, and the files must go all the same when it returns.
#[test]
fn what_a_full_snapshot_does_not_know_any_more_is_deleted() {
    let mut node = Node::new(ME, Incarnation(2), Settings::default(), Some(SegmentId(0)), vec![on_disk()]);
    let out = tell(&mut node, 1, vec![topic(false), ids(5)]);
    assert!(out.iter().any(|e| matches!(e, Effect::Forget { segment: S, .. })), "{out:?}");
    assert!(node.replica(S).is_none());
    assert!(!out.iter().any(|e| matches!(e, Effect::Report { .. })), "nobody waits for its word");
}

/// A member of metad that lags does not know the newest segments yet: they are no garbage.
#[test]
fn what_a_lagging_snapshot_cannot_know_yet_stays() {
    for items in [vec![topic(false), ids(1)], vec![topic(false)], Vec::new()] {
        let mut node = Node::new(ME, Incarnation(2), Settings::default(), Some(SegmentId(0)), vec![on_disk()]);
        tell(&mut node, 1, items);
        assert!(node.replica(S).is_some());
    }
}

/// The successor's primary heard of nothing for so long that its prior was decided, trimmed and gone: that it is in the chain
/// itself is word enough.
#[test]
fn a_gate_opens_by_the_word_on_its_own_segment_when_the_prior_is_gone() {
    let next = |state: SegmentState| {
        let MetaItem::Segment(mut view) = view(state) else { unreachable!("a segment") };
        view.spec.id = SegmentId(2);
        view.spec.prior = Some(S);
        view.spec.binder = Binder::Primary;
        view.spec.replicas = vec![ME, NodeId(4), NodeId(5)];
        view.primary_incarnation = Some(Incarnation(1));
        MetaItem::Segment(view)
    };
    let mut node = Node::new(ME, Incarnation(1), Settings::default(), Some(SegmentId(0)), Vec::new());
    let open = SegmentState::Open { start: Offset(0) };
    tell(&mut node, 1, vec![topic(false), view(open), next(SegmentState::Planned), ids(3)]);
    assert!(!node.primary(SegmentId(2)).unwrap().gate().is_open());
    let mut out = Vec::new();
    let items = vec![topic(false), next(SegmentState::Open { start: Offset(9) }), ids(4)];
    node.handle(Tick(9), Input::Meta(MetaUpdate { version: 9, reset: true, items }), &mut out);
    assert!(node.primary(SegmentId(2)).unwrap().gate().is_open());
}
