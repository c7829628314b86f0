//! One node under a fake clock, told what metad and its peers say.

#![allow(dead_code, reason = "each test file uses a part")]

use bytes::Bytes;
use seam_wire::batch::{BatchBuilder, Compression, stamped};
use seam_wire::meta::{Binder, MetaItem, MetaUpdate, NodeState, NodeView, SegmentSpec, SegmentState, SegmentView};
use seam_wire::msg::Peer;
use seam_wire::topic::TopicConfig;
use seam_wire::{Incarnation, NodeId, Offset, RangeId, SegmentId, Tick, TopicId};
use segd_core::io::{Effect, Input, Token};
use segd_core::node::{Node, RestoredReplica, Settings};

pub const ME: NodeId = NodeId(2);
pub const LIFE: Incarnation = Incarnation(7);
pub const N: SegmentId = SegmentId(1);
pub const M: SegmentId = SegmentId(2);
pub const START: Offset = Offset(10);
pub const END: Offset = Offset(14);

pub fn spec(id: SegmentId, prior: Option<SegmentId>, replicas: [u32; 3], binder: Binder) -> SegmentSpec {
    SegmentSpec {
        id,
        topic: TopicId(1),
        range: RangeId(1),
        prior,
        attempt: 1,
        replicas: replicas.map(NodeId).to_vec(),
        ack_quorum: 2,
        binder,
        config: TopicConfig::default(),
    }
}

pub fn view(spec: SegmentSpec, state: SegmentState) -> SegmentView {
    let primary_incarnation = Some(Incarnation(u64::from(spec.primary().0)));
    SegmentView {
        spec,
        state,
        primary_incarnation,
        recovery: None,
        release_asked: false,
        roll_requested: 0,
        roll_reason: None,
        trace: None,
    }
}

pub fn nodes() -> Vec<MetaItem> {
    let node = |id: u32| {
        MetaItem::Node(NodeView {
            id: NodeId(id),
            name: format!("segd-{id}"),
            addr: String::new(),
            domain: String::new(),
            incarnation: Incarnation(u64::from(id)),
            state: NodeState::Live,
        })
    };
    (1..=4).map(node).collect()
}

pub struct Rig {
    pub node: Node,
    pub out: Vec<Effect>,
    version: u64,
    now: Tick,
}

impl Rig {
    pub fn new(restored: Vec<RestoredReplica>) -> Rig {
        Rig {
            node: Node::new(ME, LIFE, Settings::default(), Some(SegmentId(0)), restored),
            out: Vec::new(),
            version: 0,
            now: Tick(1),
        }
    }

    pub fn take(&mut self, input: Input) {
        self.node.handle(self.now, input, &mut self.out);
        self.node.assert_invariants();
    }

    pub fn views(&mut self, views: Vec<SegmentView>) {
        self.version += 1;
        let items = nodes().into_iter().chain(views.into_iter().map(MetaItem::Segment)).collect();
        self.take(Input::Meta(MetaUpdate { version: self.version, reset: self.version == 1, items }));
    }

    pub fn hear(&mut self, from: u32, segment: SegmentId, msg: Peer, payload: Bytes) {
        self.take(Input::Peer { from: NodeId(from), segment, msg, payload, trace: None });
    }

    /// Until the node wants to be called.
    pub fn wait(&mut self) {
        if let Some(due) = self.node.next_deadline() {
            self.now = self.now.max(due);
        }
        self.take(Input::Tick);
    }

    /// The last thing given to the journal, which has not said yet that it is durable.
    pub fn last_token(&self) -> Token {
        let token = |effect: &Effect| if let Effect::Persist { token, .. } = effect { Some(*token) } else { None };
        self.out.iter().rev().find_map(token).unwrap()
    }

    pub fn durable(&mut self) {
        let token = self.last_token();
        self.take(Input::Persisted { token });
    }

    pub fn sent(&self, wanted: impl Fn(NodeId, &Peer) -> bool) -> usize {
        let fits = |effect: &&Effect| matches!(effect, Effect::Send { to, msg, .. } if wanted(*to, msg));
        self.out.iter().filter(fits).count()
    }
}

pub fn records() -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for n in START.0..END.0 {
        builder.push(1, None, Some(&n.to_be_bytes()), &[]).unwrap();
    }
    stamped(builder.build().unwrap(), START).unwrap()
}
