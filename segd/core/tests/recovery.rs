//! What a node does for a recovery, and to have its segments open, in cases that once went wrong.

#![allow(clippy::unwrap_used)]

use bytes::Bytes;
use seam_wire::batch::{BatchBuilder, Compression, stamped};
use seam_wire::meta::{
    Binder, MetaItem, MetaUpdate, NodeState, NodeView, Recovery, SegmentSpec, SegmentState, SegmentView,
};
use seam_wire::msg::{Pace, Peer, ReplicaTail};
use seam_wire::table::TableSnapshot;
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, Tick, TopicId};
use segd_core::io::{Effect, Input, Token};
use segd_core::node::{Node, RestoredReplica, Settings};
use segd_core::replica::RestoredState;
use segd_core::table::ProducerTable;

const ME: NodeId = NodeId(2);
const LIFE: Incarnation = Incarnation(7);
const N: SegmentId = SegmentId(1);
const M: SegmentId = SegmentId(2);
const START: Offset = Offset(10);
const END: Offset = Offset(14);

fn spec(id: SegmentId, prior: Option<SegmentId>, replicas: [u32; 3], binder: Binder) -> SegmentSpec {
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

fn view(spec: SegmentSpec, state: SegmentState) -> SegmentView {
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

fn nodes() -> Vec<MetaItem> {
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

struct Rig {
    node: Node,
    out: Vec<Effect>,
    version: u64,
}

impl Rig {
    fn new(restored: Vec<RestoredReplica>) -> Rig {
        Rig {
            node: Node::new(ME, LIFE, Settings::default(), Some(SegmentId(0)), restored),
            out: Vec::new(),
            version: 0,
        }
    }

    fn take(&mut self, input: Input) {
        self.node.handle(Tick(1), input, &mut self.out);
        self.node.assert_invariants();
    }

    fn views(&mut self, views: Vec<SegmentView>) {
        self.version += 1;
        let items = nodes().into_iter().chain(views.into_iter().map(MetaItem::Segment)).collect();
        self.take(Input::Meta(MetaUpdate { version: self.version, reset: self.version == 1, items }));
    }

    fn hear(&mut self, from: u32, segment: SegmentId, msg: Peer, payload: Bytes) {
        self.take(Input::Peer { from: NodeId(from), segment, msg, payload, trace: None });
    }

    /// The last thing given to the journal, which has not said yet that it is durable.
    fn last_token(&self) -> Token {
        let token = |effect: &Effect| if let Effect::Persist { token, .. } = effect { Some(*token) } else { None };
        self.out.iter().rev().find_map(token).unwrap()
    }

    fn durable(&mut self) {
        let token = self.last_token();
        self.take(Input::Persisted { token });
    }

    fn sent(&self, wanted: impl Fn(NodeId, &Peer) -> bool) -> usize {
        let fits = |effect: &&Effect| matches!(effect, Effect::Send { to, msg, .. } if wanted(*to, msg));
        self.out.iter().filter(fits).count()
    }
}

fn records() -> Bytes {
    let mut builder = BatchBuilder::new(Compression::None, None);
    for n in START.0..END.0 {
        builder.push(1, None, Some(&n.to_be_bytes()), &[]).unwrap();
    }
    stamped(builder.build().unwrap(), START).unwrap()
}

/// An agent whose own replica lacks records asked for the same ones at every word it heard, for as long as its disk took.
#[test]
fn what_is_on_its_way_to_the_agents_disk_is_not_fetched_again() {
    let restored = RestoredReplica {
        bytes: 0,
        spec: spec(N, None, [1, 2, 3], Binder::Root),
        state: RestoredState {
            start: Some(START),
            durable_end: START,
            seal: None,
            promised: Epoch::PRIMARY,
            decision: None,
            tail_known: true,
        },
        start_table: TableSnapshot::default(),
        table: ProducerTable::default(),
    };
    let mut rig = Rig::new(vec![restored]);
    let mut open = view(spec(N, None, [1, 2, 3], Binder::Root), SegmentState::Open { start: START });
    let epoch = Epoch(1);
    open.recovery = Some(Recovery { epoch, agent: ME, agent_incarnation: LIFE, candidate: M, start: START });
    rig.views(vec![open]);
    rig.durable();
    let fetches = |rig: &Rig| rig.sent(|to, msg| to == NodeId(3) && matches!(msg, Peer::RecoveryFetch { .. }));
    let promised = || Peer::Promised { epoch, tail: ReplicaTail { start: Some(START), durable_end: END, seal: None } };
    rig.hear(3, N, promised(), Bytes::new());
    assert_eq!(fetches(&rig), 1);
    let data = Peer::RecoveryData { epoch, base: START, next: END, table: None, start: START };
    rig.hear(3, N, data, records());
    for _ in 0..5 {
        rig.hear(3, N, promised(), Bytes::new());
    }
    assert_eq!(fetches(&rig), 1, "it is in the journal's hands");
    rig.durable();
    assert_eq!(rig.node.replica(N).unwrap().durable_end(), END);
    assert_eq!(fetches(&rig), 1);
}

/// An agent fixes the end while its candidate is still being opened: that `Begin` was lost, and came again a quarter of a
/// second later.
#[test]
fn a_begin_that_comes_before_the_segment_is_ready_is_taken_when_it_is() {
    let mut rig = Rig::new(Vec::new());
    let binder = Binder::Recovery(Epoch(1));
    let prior = view(spec(N, None, [1, 3, 4], Binder::Root), SegmentState::Open { start: Offset(0) });
    rig.views(vec![prior, view(spec(M, Some(N), [2, 3, 4], binder), SegmentState::Planned)]);
    let begin = Peer::Begin {
        prior: N,
        binder,
        end: START,
        delta: TableSnapshot::default(),
        removed: Vec::new(),
        table_hash: ProducerTable::default().stable_hash(),
        pace: Pace::default(),
    };
    rig.hear(3, M, begin, Bytes::new());
    let begun = |rig: &Rig| rig.sent(|to, msg| to == NodeId(3) && matches!(msg, Peer::Begun { start: START }));
    rig.durable();
    assert_eq!(begun(&rig), 0, "open here alone");
    rig.hear(4, M, Peer::Opened, Bytes::new());
    assert_eq!(begun(&rig), 1);
    assert_eq!(rig.node.primary(M).unwrap().start(), Some(START));
}
