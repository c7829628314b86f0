//! What a node does for a recovery, and to have its segments open, in cases that once went wrong.

#![allow(clippy::unwrap_used)]

mod rig;

use bytes::Bytes;
use rig::*;
use seam_wire::meta::{Binder, Recovery, SegmentState};
use seam_wire::msg::{Pace, Peer, ReplicaTail};
use seam_wire::table::TableSnapshot;
use seam_wire::{Epoch, NodeId, Offset};
use segd_core::node::RestoredReplica;
use segd_core::replica::RestoredState;
use segd_core::table::ProducerTable;

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
    open.recovery =
        Some(Recovery { epoch, agent: ME, agent_incarnation: LIFE, candidate: M, start: START, loss_accepted: false });
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
