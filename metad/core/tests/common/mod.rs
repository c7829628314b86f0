//! Short words for building states by hand. Not a model: every step is a real command.
#![allow(dead_code, reason = "each test file uses its part")]

use metad_core::{Applied, Command, Meta, OpeningStats, Outcome, Refusal, RollBy};
use seam_wire::meta::{SegmentState, SegmentView};
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, TopicId};

pub fn n(id: u32) -> NodeId {
    NodeId(id)
}

pub fn ns(ids: &[u32]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

pub fn s(id: u64) -> SegmentId {
    SegmentId(id)
}

pub fn life(i: u64) -> Incarnation {
    Incarnation(i)
}

pub fn register(id: u32, incarnation: u64) -> Command {
    Command::RegisterNode {
        id: n(id),
        name: format!("segd-{id}"),
        addr: format!("127.0.0.1:{}", 7200 + id),
        domain: format!("rack-{id}"),
        incarnation: life(incarnation),
    }
}

pub fn create(id: u64, name: &str, config: &TopicConfig, placements: &[&[u32]]) -> Command {
    let placements = placements.iter().map(|p| ns(p)).collect();
    Command::CreateTopic { id: TopicId(id), name: name.to_owned(), config: config.clone(), placements }
}

pub fn prepare(prior: u64, attempt: u32, replicas: &[u32]) -> Command {
    Command::Prepare { prior: s(prior), attempt, replicas: ns(replicas), trace: None }
}

pub fn ready(segment: u64, open_on: &[u32], incarnation: u64) -> Command {
    Command::MarkReady {
        segment: s(segment),
        open_on: ns(open_on),
        incarnation: life(incarnation),
        opening: OpeningStats { placement_us: 1, commit_us: 11, open_us: 22 },
    }
}

pub fn recover(segment: u64, agent: u32, expected_epoch: u64, replicas: &[u32]) -> Command {
    Command::Recover {
        segment: s(segment),
        agent: n(agent),
        agent_incarnation: life(1),
        expected_epoch: Epoch(expected_epoch),
        replicas: ns(replicas),
        trace: None,
        loss_accepted: false,
    }
}

pub fn roll(segment: u64, end: u64, next: u64, by: RollBy) -> Command {
    Command::CommitRoll {
        segment: s(segment),
        end: Offset(end),
        next: s(next),
        by,
        stats: Box::default(),
        ready_us: 33,
        recovery: None,
        bytes: 100,
        sealed_at_ms: 1_000,
    }
}

pub fn planned(segment: u64, end: u64, next: u64) -> Command {
    roll(segment, end, next, RollBy::Planned)
}

pub fn by_agent(segment: u64, end: u64, next: u64, epoch: u64) -> Command {
    roll(segment, end, next, RollBy::Recovery(Epoch(epoch)))
}

pub fn released(segment: u64, node: u32, incarnation: u64) -> Command {
    Command::Released { segment: s(segment), node: n(node), incarnation: life(incarnation) }
}

pub fn trim(first: u64, keep: u64) -> Command {
    Command::Trim { range: RangeId(1), first: s(first), keep: s(keep) }
}

pub fn confirm(segment: u64, node: u32) -> Command {
    Command::ConfirmReclaimed { segment: s(segment), node: n(node) }
}

/// Five registered nodes.
pub fn cluster() -> Meta {
    let mut meta = Meta::default();
    for id in 1..=5 {
        ok(&mut meta, &register(id, 1));
    }
    meta
}

/// And a topic of one range, whose segment 1 on nodes 1, 2, 3 is open.
pub fn one_range() -> Meta {
    let mut meta = cluster();
    ok(&mut meta, &create(1, "t", &TopicConfig::default(), &[&[1, 2, 3]]));
    ok(&mut meta, &ready(1, &[1, 2, 3], 1));
    meta
}

pub fn ok(meta: &mut Meta, command: &Command) -> Applied {
    let applied = meta.apply(command);
    if let Outcome::Refused { why } = &applied.outcome {
        panic!("{command:?} is refused: {why}");
    }
    applied
}

/// It took effect before: the same answer, and nothing changes.
pub fn again(meta: &mut Meta, command: &Command, outcome: &Outcome) {
    let (mut before, applied) = (meta.clone(), meta.apply(command));
    assert_eq!((&applied.outcome, applied.items.len()), (outcome, 0), "{command:?} repeated");
    assert_unchanged(&mut before, meta);
}

/// It is refused and changes nothing.
pub fn no(meta: &mut Meta, command: &Command) -> Refusal {
    let (mut before, applied) = (meta.clone(), meta.apply(command));
    assert_unchanged(&mut before, meta);
    assert!(applied.items.is_empty());
    match applied.outcome {
        Outcome::Refused { why } => why,
        other => panic!("{command:?} is not refused but {other:?}"),
    }
}

fn assert_unchanged(before: &mut Meta, after: &Meta) {
    let mut after = after.clone();
    assert_eq!(after.version(), before.version() + 1);
    before.forget_version();
    after.forget_version();
    assert_eq!(*before, after);
}

/// Left the state for good: not there, and never to be there again.
pub fn is_gone(meta: &Meta, segment: u64) -> bool {
    meta.segment(s(segment)).is_none() && meta.has_left(s(segment))
}

pub fn view(meta: &Meta, segment: u64) -> SegmentView {
    meta.segment(s(segment)).unwrap_or_else(|| panic!("segment {segment} exists"))
}

pub fn state(meta: &Meta, segment: u64) -> SegmentState {
    view(meta, segment).state
}
