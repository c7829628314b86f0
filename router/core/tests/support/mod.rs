//! Pieces both models build on: views of segments, updates, batches.

#![allow(dead_code, clippy::unwrap_used)]

use bytes::Bytes;
use router_core::Chains;
use seam_wire::batch::{BatchBuilder, Compression, stamped};
use seam_wire::meta::{
    Binder, MetaItem, MetaUpdate, NodeState, NodeView, Recovery, SegmentSpec, SegmentState, SegmentView, TopicView,
};
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, TopicId};

pub const RANGE: RangeId = RangeId(7);
pub const TOPIC: TopicId = TopicId(1);

pub fn view(id: u64, prior: Option<u64>, state: SegmentState) -> SegmentView {
    let replicas = (0..3).map(|n| NodeId(id as u32 * 10 + n)).collect();
    SegmentView {
        spec: SegmentSpec {
            id: SegmentId(id),
            topic: TOPIC,
            range: RANGE,
            prior: prior.map(SegmentId),
            attempt: 1,
            replicas,
            ack_quorum: 2,
            binder: Binder::Primary,
            config: TopicConfig::default(),
        },
        state,
        primary_incarnation: Some(Incarnation(1)),
        recovery: None,
        release_asked: false,
        roll_requested: 0,
        roll_reason: None,
        trace: None,
    }
}

pub fn recovered(mut view: SegmentView, candidate: u64) -> SegmentView {
    view.recovery = Some(Recovery {
        epoch: Epoch(1),
        agent: NodeId(1),
        agent_incarnation: Incarnation(1),
        candidate: SegmentId(candidate),
        start: Offset(0),
        loss_accepted: false,
    });
    view
}

pub fn ready() -> SegmentState {
    SegmentState::Ready { open_on: Vec::new() }
}

pub fn open(start: u64) -> SegmentState {
    SegmentState::Open { start: Offset(start) }
}

pub fn sealed(start: u64, end: u64, next: u64) -> SegmentState {
    SegmentState::Sealed { start: Offset(start), end: Offset(end), next: SegmentId(next) }
}

pub fn topic() -> MetaItem {
    MetaItem::Topic(TopicView {
        id: TOPIC,
        name: "t".to_owned(),
        config: TopicConfig::default(),
        ranges: vec![RANGE],
        deleted: false,
    })
}

pub fn node(id: u32, state: NodeState) -> MetaItem {
    MetaItem::Node(NodeView {
        id: NodeId(id),
        name: format!("segd-{id}"),
        addr: format!("127.0.0.1:{id}"),
        domain: "d".to_owned(),
        incarnation: Incarnation(1),
        state,
    })
}

/// The nodes `view` places segment `id` on.
pub fn nodes_of(id: u64) -> impl Iterator<Item = MetaItem> {
    (0..3).map(move |n| node(id as u32 * 10 + n, NodeState::Live))
}

pub fn apply(chains: &mut Chains, items: Vec<MetaItem>) {
    let version = chains.version() + 1;
    assert!(!chains.apply(MetaUpdate { version, reset: false, items }).stale);
}

/// One batch of `records` records at `base`.
pub fn batch(base: u64, records: u64) -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for n in 0..records {
        builder.push(1, None, Some(&(base + n).to_be_bytes()), &[]).unwrap();
    }
    stamped(builder.build().unwrap(), Offset(base)).unwrap()
}

/// Batches of 1, 2, 3, 1, 2 ... records from `base` to `end` exactly.
pub fn batches(mut base: u64, end: u64) -> Vec<Bytes> {
    let mut out = Vec::new();
    for size in (1..=3).cycle() {
        if base == end {
            return out;
        }
        let records = size.min(end - base);
        out.push(batch(base, records));
        base += records;
    }
    unreachable!("the sizes never end")
}
