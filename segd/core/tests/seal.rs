//! The switch at the old primary, as its effects show it.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use seam_wire::batch::{BatchBuilder, BatchHeader, Compression};
use seam_wire::meta::{Binder, MetaItem, MetaUpdate, SegmentSpec, SegmentState, SegmentView};
use seam_wire::msg::{FromSegd, Peer};
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, ProducerId, RangeId, SegmentId, Tick, TopicId, TraceContext};
use segd_core::io::{Effect, Input, StreamId, Write};
use segd_core::node::{Node, Settings};

const P: NodeId = NodeId(1);
const N: SegmentId = SegmentId(1);
const M: SegmentId = SegmentId(2);

fn view(id: SegmentId, prior: Option<SegmentId>, replicas: [u32; 3], state: SegmentState) -> MetaItem {
    let binder = if prior.is_some() { Binder::Primary } else { Binder::Root };
    let config = TopicConfig { segment_bytes: 16 << 10, ..TopicConfig::default() };
    let replicas = replicas.map(NodeId).to_vec();
    let (topic, range) = (TopicId(1), RangeId(1));
    let spec = SegmentSpec { id, topic, range, prior, attempt: 1, replicas, ack_quorum: 2, binder, config };
    let primary_incarnation = match state {
        SegmentState::Planned => None,
        _ => Some(Incarnation(1)),
    };
    MetaItem::Segment(SegmentView {
        spec,
        state,
        primary_incarnation,
        recovery: None,
        release_asked: false,
        roll_requested: 0,
        roll_reason: None,
        trace: None,
    })
}

/// A node on its own; journal writes are durable as soon as they are asked for.
struct Rig {
    node: Node,
    now: u64,
}

impl Rig {
    fn give(&mut self, input: Input) -> Vec<Effect> {
        self.now += 1;
        let mut out = Vec::new();
        self.node.handle(Tick(self.now), input, &mut out);
        out
    }

    fn settle(&mut self, out: &[Effect]) {
        for effect in out {
            if let Effect::Persist { token, .. } = effect {
                self.give(Input::Persisted { token: *token });
            }
        }
    }

    fn tell(&mut self, version: u64, item: MetaItem) {
        let out = self.give(Input::Meta(MetaUpdate { version, reset: version == 1, items: vec![item] }));
        self.settle(&out);
    }

    fn hear(&mut self, from: u32, segment: SegmentId, msg: Peer) {
        let input = Input::Peer { from: NodeId(from), segment, msg, payload: Bytes::new(), trace: None };
        let out = self.give(input);
        self.settle(&out);
    }

    fn append(&mut self, seq: u64, bytes: usize) -> Vec<Effect> {
        let mut builder = BatchBuilder::new(Compression::None, Some((ProducerId(5), 0, i32::try_from(seq).unwrap())));
        builder.push(1, None, Some(&vec![7; bytes]), &[]).unwrap();
        let batch = builder.build().unwrap();
        let header = BatchHeader::parse(&batch).unwrap();
        self.give(Input::Append { stream: StreamId(1), seq, header, batch, trace: None })
    }
}

/// The seal entry was written and sent after the last batch, on its own: it waited for a sync of its own, on every replica,
/// and the gate of the successor with it.
#[test]
fn a_seal_entry_shares_the_last_batchs_journal_write() {
    let mut rig =
        Rig { node: Node::new(P, Incarnation(1), Settings::default(), Some(SegmentId(0)), Vec::new()), now: 0 };
    rig.tell(1, view(N, None, [1, 2, 3], SegmentState::Planned));
    rig.hear(2, N, Peer::Opened);
    rig.hear(3, N, Peer::Opened);
    rig.tell(2, view(N, None, [1, 2, 3], SegmentState::Open { start: Offset(0) }));
    rig.tell(3, view(M, Some(N), [4, 5, 6], SegmentState::Ready { open_on: [4, 5, 6].map(NodeId).to_vec() }));
    rig.hear(4, M, Peer::Pong { nonce: N.0 });
    rig.give(Input::StreamOpen { stream: StreamId(1), segment: N });

    let early = rig.append(0, 1000);
    assert!(
        !early.is_empty()
            && !early.iter().any(|effect| matches!(effect, Effect::Persist { writes, .. }
        if writes.iter().any(|write| matches!(write, Write::Seal(_)))))
    );
    let last = rig.append(1, 16 << 10);

    let persists: Vec<&Vec<Write>> = last
        .iter()
        .filter_map(|effect| if let Effect::Persist { writes, .. } = effect { Some(writes) } else { None })
        .collect();
    let [writes] = persists[..] else { panic!("one journal write, not {persists:?}") };
    assert!(matches!(writes[..], [Write::Records { .. }, Write::Seal(_)]), "{writes:?}");
    for follower in [2, 3] {
        let sent: Vec<(Offset, Offset, bool)> = last
            .iter()
            .filter_map(|effect| match effect {
                Effect::Send { to, msg: Peer::Replicate { base, next, seal, .. }, .. } if *to == NodeId(follower) => {
                    Some((*base, *next, seal.is_some()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(sent.last(), Some(&(Offset(1), Offset(2), true)), "one message with both, to {follower}: {sent:?}");
    }
    let begin = last
        .iter()
        .any(|e| matches!(e, Effect::Send { to: NodeId(4), msg: Peer::Begin { end, .. }, .. } if *end == Offset(2)));
    assert!(begin, "the successor begins at once");
}

/// An ack left before what it acked was shown: whoever asked for the end right after it was told an older one, if the node was
/// slow in between.
#[test]
fn what_is_acked_is_shown_before() {
    let mut rig =
        Rig { node: Node::new(P, Incarnation(1), Settings::default(), Some(SegmentId(0)), Vec::new()), now: 0 };
    rig.tell(1, view(N, None, [1, 2, 3], SegmentState::Planned));
    rig.hear(2, N, Peer::Opened);
    rig.hear(3, N, Peer::Opened);
    rig.tell(2, view(N, None, [1, 2, 3], SegmentState::Open { start: Offset(0) }));
    rig.give(Input::StreamOpen { stream: StreamId(1), segment: N });
    let own = rig.append(0, 1000);
    rig.settle(&own);
    let msg = Peer::Stored { epoch: Epoch::PRIMARY, durable_end: Offset(1), sealed: false };
    let out = rig.give(Input::Peer { from: NodeId(2), segment: N, msg, payload: Bytes::new(), trace: None });
    let place = |wanted: fn(&Effect) -> bool| out.iter().position(wanted);
    let shown = place(|effect| matches!(effect, Effect::Publish { committed: Offset(1), .. }));
    let acked = place(|effect| matches!(effect, Effect::Reply { reply: FromSegd::AppendAck { .. }, .. }));
    assert!(shown.is_some() && shown < acked, "{out:?}");
}

/// The trace of a roll stands in the view of the segment that ends; whoever is told of the switch gets it along.
#[test]
fn what_leaves_at_the_switch_carries_the_rolls_trace() {
    let trace = Some(TraceContext { trace_id: 7, span_id: 8, flags: 1 });
    let traced = |item| match item {
        MetaItem::Segment(view) => MetaItem::Segment(SegmentView { trace, ..view }),
        other => other,
    };
    let mut rig =
        Rig { node: Node::new(P, Incarnation(1), Settings::default(), Some(SegmentId(0)), Vec::new()), now: 0 };
    rig.tell(1, view(N, None, [1, 2, 3], SegmentState::Planned));
    rig.hear(2, N, Peer::Opened);
    rig.hear(3, N, Peer::Opened);
    rig.tell(2, traced(view(N, None, [1, 2, 3], SegmentState::Open { start: Offset(0) })));
    rig.tell(3, view(M, Some(N), [4, 5, 6], SegmentState::Ready { open_on: [4, 5, 6].map(NodeId).to_vec() }));
    rig.hear(4, M, Peer::Pong { nonce: N.0 });
    rig.give(Input::StreamOpen { stream: StreamId(1), segment: N });

    let steady = rig.append(0, 1000);
    let is_replicate = |effect: &&Effect| matches!(effect, Effect::Send { msg: Peer::Replicate { .. }, .. });
    let untold = |effect: &Effect| matches!(effect, Effect::Send { trace: None, .. });
    assert!(steady.iter().filter(is_replicate).all(untold), "an append is no part of a roll: {steady:?}");

    let last = rig.append(1, 16 << 10);
    let carried: Vec<_> = last
        .iter()
        .filter_map(|effect| match effect {
            Effect::Send { msg: Peer::Begin { .. } | Peer::Replicate { .. }, trace, .. } => Some(*trace),
            Effect::Reply { reply: FromSegd::Moved { .. }, trace, .. } => Some(*trace),
            _ => None,
        })
        .collect();
    assert_eq!(carried, [trace; 4], "begin, both followers, and the stream: {last:?}");
    let steps: Vec<_> =
        last.iter().filter_map(|effect| if let Effect::Step(step) = effect { Some(step.name) } else { None }).collect();
    assert_eq!(steps, ["roll.slack", "roll.switch"]);
}
