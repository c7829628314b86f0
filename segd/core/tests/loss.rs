//! Accepted losses at a node: agents decide by those that answer, successors write a gap entry first, and what nodes that were
//! cut off had decided among themselves is overruled.

#![allow(clippy::unwrap_used)]

mod rig;

use bytes::Bytes;
use rig::*;
use seam_wire::batch::{self, LOSS_GAP};
use seam_wire::meta::{Binder, Recovery, SegmentState, SegmentView};
use seam_wire::msg::{Decision, Pace, Peer, SealEntry};
use seam_wire::report::Report;
use seam_wire::table::TableSnapshot;
use seam_wire::{Epoch, NodeId, Offset, SegmentId};
use segd_core::io::{Effect, Write};
use segd_core::node::RestoredReplica;
use segd_core::primary::Phase;
use segd_core::replica::RestoredState;
use segd_core::table::ProducerTable;

const X: SegmentId = SegmentId(3);
const EPOCH: Epoch = Epoch(1);

fn recovery(loss_accepted: bool) -> Option<Recovery> {
    Some(Recovery { epoch: EPOCH, agent: ME, agent_incarnation: LIFE, candidate: X, start: START, loss_accepted })
}

fn restored(id: SegmentId, end: Offset, decision: Option<Decision>) -> RestoredReplica {
    RestoredReplica {
        bytes: 0,
        spec: spec(id, None, [1, 2, 3], Binder::Root),
        state: RestoredState {
            start: Some(START),
            durable_end: end,
            seal: None,
            promised: Epoch::PRIMARY,
            decision,
            tail_known: true,
        },
        start_table: TableSnapshot::default(),
        table: ProducerTable::default(),
    }
}

fn open(recovery: Option<Recovery>) -> SegmentView {
    SegmentView { recovery, ..view(spec(N, None, [1, 2, 3], Binder::Root), SegmentState::Open { start: START }) }
}

fn lost_to(end: Offset) -> SegmentView {
    let state = SegmentState::Sealed { start: START, end, next: X };
    SegmentView { recovery: recovery(true), ..view(spec(N, None, [1, 2, 3], Binder::Root), state) }
}

fn reported(rig: &Rig, wanted: impl Fn(&Report) -> bool) -> bool {
    rig.out.iter().any(|effect| matches!(effect, Effect::Report { report, .. } if wanted(report)))
}

/// The ends of batches written to a segment, gap entries included.
fn written(rig: &Rig, of: SegmentId) -> Vec<(Option<u64>, Offset)> {
    let payload = |write: &Write| if let Write::Records { payload, .. } = write { Some(payload.clone()) } else { None };
    let writes = rig.out.iter().filter_map(|effect| match effect {
        Effect::Persist { segment, writes, .. } if *segment == of => Some(writes),
        _ => None,
    });
    let payloads = writes.flatten().filter_map(payload);
    let headers = payloads.flat_map(|payload| batch::headers(&payload).collect::<Vec<_>>());
    headers.map(|header| header.unwrap()).map(|header| (header.gap, header.next_offset())).collect()
}

#[test]
fn an_agent_says_that_no_answer_can_decide_and_goes_on_asking() {
    let mut rig = Rig::new(vec![restored(N, END, None)]);
    rig.views(vec![open(recovery(false))]);
    rig.durable();
    rig.hear(1, N, Peer::CannotAnswer { epoch: EPOCH }, Bytes::new());
    assert!(!reported(&rig, |report| matches!(report, Report::Undecidable { .. })), "two can answer yet");
    rig.hear(3, N, Peer::CannotAnswer { epoch: EPOCH }, Bytes::new());
    let mute = vec![NodeId(1), NodeId(3)];
    assert!(reported(&rig, |report| *report == Report::Undecidable { segment: N, epoch: EPOCH, mute: mute.clone() }));
    assert!(!reported(&rig, |report| matches!(report, Report::Recovered { .. })));
}

#[test]
fn an_agent_of_an_accepted_loss_fixes_the_end_by_those_that_answer() {
    let mut rig = Rig::new(vec![restored(N, END, None)]);
    rig.views(vec![open(recovery(true))]);
    rig.durable();
    let told = |to, msg: &Peer| to == NodeId(3) && matches!(msg, Peer::Fence { loss_accepted: true, .. });
    assert_eq!(rig.sent(told), 1, "a replica that does not know its end answers too");
    rig.hear(1, N, Peer::CannotAnswer { epoch: EPOCH }, Bytes::new());
    rig.hear(3, N, Peer::CannotAnswer { epoch: EPOCH }, Bytes::new());
    assert!(reported(&rig, |it| matches!(it, Report::Recovered { segment: N, end: END, next: X, .. })));
}

/// The successor of an accepted loss, ready here.
fn successor(rig: &mut Rig, prior: SegmentView, id: SegmentId, binder: Binder) {
    let of = prior.spec.id;
    rig.views(vec![prior, view(spec(id, Some(of), [2, 3, 4], binder), SegmentState::Planned)]);
    rig.durable();
    rig.hear(4, id, Peer::Opened, Bytes::new());
}

fn begin(rig: &mut Rig, prior: SegmentId, id: SegmentId, binder: Binder, end: Offset) {
    let begin = Peer::Begin {
        prior,
        binder,
        end,
        delta: TableSnapshot::default(),
        removed: Vec::new(),
        table_hash: ProducerTable::default().stable_hash(),
        pace: Pace::default(),
    };
    rig.hear(3, id, begin, Bytes::new());
}

#[test]
fn the_successor_of_an_accepted_loss_begins_with_a_gap_entry() {
    let mut rig = Rig::new(Vec::new());
    let binder = Binder::Loss(EPOCH);
    successor(&mut rig, open(recovery(true)), X, binder);
    begin(&mut rig, N, X, Binder::Recovery(EPOCH), END);
    assert_eq!(rig.node.primary(X).unwrap().start(), None, "R13: not its binder");
    begin(&mut rig, N, X, binder, END);
    let behind = END.plus(LOSS_GAP);
    assert_eq!(written(&rig, X), [(Some(LOSS_GAP), behind)]);
    assert_eq!(rig.node.primary(X).unwrap().assigned(), behind, "what comes next lies above");
    begin(&mut rig, N, X, binder, END);
    assert_eq!(written(&rig, X).len(), 1, "once");
}

/// The successor died before its gap entry was anywhere: whoever comes behind the empty segment still owes it.
#[test]
fn a_gap_entry_that_was_lost_with_its_segment_is_written_by_the_next() {
    const Y: SegmentId = SegmentId(4);
    let mut rig = Rig::new(Vec::new());
    let of_loss = view(spec(X, Some(N), [3, 4, 1], Binder::Loss(EPOCH)), SegmentState::Open { start: END });
    let binder = Binder::Recovery(EPOCH);
    successor(&mut rig, of_loss.clone(), Y, binder);
    begin(&mut rig, X, Y, binder, END);
    assert_eq!(written(&rig, Y), [(Some(LOSS_GAP), END.plus(LOSS_GAP))]);

    let mut rig = Rig::new(Vec::new());
    successor(&mut rig, of_loss, Y, binder);
    begin(&mut rig, X, Y, binder, END.plus(LOSS_GAP));
    assert_eq!(written(&rig, Y), [], "it stands in the segment before");
}

/// Nobody is left who has the producer table: it is asked for, for a while.
#[test]
fn a_successor_begins_without_a_table_when_nobody_has_one() {
    let mut rig = Rig::new(Vec::new());
    successor(&mut rig, open(recovery(true)), X, Binder::Loss(EPOCH));
    rig.views(vec![lost_to(START)]);
    assert!(rig.sent(|_, msg| matches!(msg, Peer::TableRequest { prior: N })) > 0);
    assert_eq!(rig.node.primary(X).unwrap().start(), None, "somebody may have it");
    for _ in 0..100 {
        rig.wait();
    }
    assert_eq!(rig.node.primary(X).unwrap().start(), Some(START));
    assert_eq!(written(&rig, X), [(Some(LOSS_GAP), START.plus(LOSS_GAP))]);
}

/// A replica that was cut off comes back with a decision of its own: metad's word stands, nothing panics, and the successor it
/// had, though decided and chosen in its eyes, goes.
#[test]
fn nodes_that_were_cut_off_are_overruled_when_they_come_back() {
    let own = Decision { end: END, next: M };
    let mut zombie = restored(M, END.plus(5), Some(Decision { end: END.plus(5), next: SegmentId(9) }));
    zombie.spec.prior = Some(N);
    zombie.state.start = Some(END);
    let mut rig = Rig::new(vec![restored(N, END, Some(own)), zombie]);
    let end = Offset(END.0 - 1);
    let m = spec(M, Some(N), [1, 2, 3], Binder::Primary);
    rig.views(vec![lost_to(end), view(m, SegmentState::Reclaiming)]);
    assert_eq!(rig.node.replica(N).unwrap().decision(), Some(Decision { end, next: X }));
    assert_eq!(rig.node.replica(N).unwrap().complete(), Some((START, end)), "it serves what is left");
    assert!(rig.node.replica(M).is_none());
    // Its old primary, still cut off from metad, repeats itself.
    rig.hear(1, N, Peer::Decided { decision: own }, Bytes::new());
    assert_eq!(rig.node.replica(N).unwrap().decision(), Some(Decision { end, next: X }));
}

/// The successor's primary had opened its gate by its prior's own seal entry, which a decided loss overrules.
#[test]
fn an_open_gate_is_overruled_too() {
    let mut rig = Rig::new(Vec::new());
    let prior = SegmentView { recovery: None, ..open(None) };
    successor(&mut rig, prior, M, Binder::Primary);
    begin(&mut rig, N, M, Binder::Primary, END);
    let seal = SealEntry { end: END, next: M, table_hash: ProducerTable::default().stable_hash() };
    for voter in [1, 3] {
        rig.hear(voter, N, Peer::SealHeld { seal }, Bytes::new());
    }
    assert!(rig.node.primary(M).unwrap().gate().is_open());
    rig.views(vec![lost_to(START)]);
    assert_eq!(rig.node.primary(M).map(|primary| primary.phase()), Some(Phase::Over));
}
