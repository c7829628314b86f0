//! Random histories: the invariants hold after every command (the state asserts them itself), replaying a log gives the
//! same bytes (R11), what is decided stays decided (R3, R5), and a watcher that merges the pushed views sees the state.

mod common;

use common::*;
use metad_core::{Command, Meta, OpeningStats, Outcome, RollBy};
use proptest::prelude::*;
use seam_wire::meta::{MetaItem, NodeState, RollReason, SegmentState, SegmentView};
use seam_wire::report::GateStats;
use seam_wire::topic::{Placement, TopicConfig};
use seam_wire::{Epoch, Incarnation, NodeId, Offset, RangeId, SegmentId, TopicId, TraceContext};
use std::collections::BTreeMap;

/// Six numbers that become a command once the state is known: mostly a plausible one, at times nonsense.
type Dice = [u32; 6];

fn segments(meta: &Meta) -> Vec<SegmentView> {
    meta.segments().collect()
}

fn pick<T: Clone>(from: &[T], die: u32) -> Option<T> {
    if from.is_empty() { None } else { Some(from[die as usize % from.len()].clone()) }
}

fn replicas(die: u32, count: u32) -> Vec<NodeId> {
    (0..count).map(|i| NodeId(1 + (die + i * (1 + die / 7 % 2)) % 6)).collect()
}

fn life_of(meta: &Meta, node: NodeId, die: u32) -> Incarnation {
    let current = meta.node(node).map_or(1, |n| n.incarnation.0);
    if die.is_multiple_of(8) { Incarnation(current.saturating_sub(1)) } else { Incarnation(current) }
}

/// A segment of the wanted kind where there is one; one in eight times any.
fn target(meta: &Meta, die: u32, wanted: impl Fn(&SegmentView) -> bool) -> SegmentId {
    let all = segments(meta);
    let fitting: Vec<_> = all.iter().filter(|s| wanted(s)).cloned().collect();
    let from = if die.is_multiple_of(8) || fitting.is_empty() { &all } else { &fitting };
    pick(from, die / 8).map_or(SegmentId(u64::from(die % 40)), |s| s.spec.id)
}

fn is_open(s: &SegmentView) -> bool {
    matches!(s.state, SegmentState::Open { .. })
}

fn is_leaving(s: &SegmentView) -> bool {
    matches!(s.state, SegmentState::Trimmed { .. } | SegmentState::Reclaiming)
}

fn is_ready(s: &SegmentView) -> bool {
    matches!(s.state, SegmentState::Ready { .. })
}

fn is_candidate(s: &SegmentView) -> bool {
    is_ready(s) || s.state == SegmentState::Planned
}

fn command(meta: &Meta, d: Dice) -> Command {
    let attempt = |prior: SegmentId, die: u32| {
        let made = segments(meta).iter().filter(|s| s.spec.prior == Some(prior)).count() as u32;
        if die.is_multiple_of(8) { made } else { made + 1 }
    };
    match d[0] % 22 {
        0 => register(1 + d[1] % 6, 1 + u64::from(d[2] % 4)),
        1 => {
            let id = NodeId(1 + d[1] % 6);
            let state = [NodeState::Live, NodeState::Draining, NodeState::Dead][d[2] as usize % 3];
            Command::SetNodeState { id, incarnation: life_of(meta, id, d[3]), state }
        }
        2 => {
            let (r, a) = [(3, 2), (3, 3), (1, 1), (2, 2)][d[1] as usize % 4];
            let config = TopicConfig { ranges: 1 + d[2] % 2, replicas: r, ack_quorum: a, ..TopicConfig::default() };
            let placements = (0..config.ranges).map(|i| replicas(d[3] + i, r.into())).collect();
            let id = TopicId(1 + u64::from(d[4] % 5));
            Command::CreateTopic { id, name: format!("t{}", d[5] % 4), config, placements }
        }
        3 => {
            let topic = TopicId(1 + u64::from(d[1] % 4));
            let expected = meta.topic(topic).map_or_else(TopicConfig::default, |t| t.config);
            let placement = [Placement::Sticky, Placement::RoundRobin][d[2] as usize % 2];
            let config = TopicConfig { placement, ..expected.clone() };
            Command::AlterTopic { topic, expected, config }
        }
        4 if d[1].is_multiple_of(8) => Command::DeleteTopic { topic: TopicId(1 + u64::from(d[2] % 4)) },
        4 => {
            let range = RangeId(1 + u64::from(d[1] % 6));
            Command::PrepareRoot { range, attempt: 1 + d[2] % 5, replicas: replicas(d[3], 1 + d[4] % 3) }
        }
        5..=7 => {
            let prior = target(meta, d[1], |s| is_open(s) || is_ready(s));
            let count = meta.segment(prior).map_or(3, |s| s.spec.replicas.len() as u32);
            let replicas = replicas(d[3], count);
            Command::Prepare { prior, attempt: attempt(prior, d[2]), replicas, trace: trace(d[4]) }
        }
        8..=11 => {
            let segment = target(meta, d[1], is_candidate);
            let open_on = meta.segment(segment).map_or_else(Vec::new, |s| s.spec.replicas);
            let keep = if d[2].is_multiple_of(3) { open_on.len().saturating_sub(1) } else { open_on.len() };
            let incarnation = open_on.first().map_or(Incarnation(1), |p| life_of(meta, *p, d[3]));
            let opening = OpeningStats { placement_us: 0, commit_us: 1, open_us: 2 };
            Command::MarkReady { segment, open_on: open_on[..keep].to_vec(), incarnation, opening }
        }
        12 => Command::AskRelease { segment: target(meta, d[1], is_candidate) },
        13 => {
            let segment = target(meta, d[1], |s| s.release_asked);
            let prior = meta.segment(segment).and_then(|s| s.spec.prior).and_then(|p| meta.segment(p));
            let node = prior.as_ref().map_or(NodeId(1), |p| p.spec.primary());
            let incarnation = prior.and_then(|p| p.primary_incarnation).unwrap_or(Incarnation(u64::from(d[2] % 3)));
            Command::Released { segment, node, incarnation }
        }
        14 => {
            let segment = target(meta, d[1], is_open);
            let view = meta.segment(segment);
            let (agent, epoch) = view.as_ref().map_or((NodeId(1), Epoch(0)), |s| {
                let agent = pick(&s.spec.replicas, d[2]).expect("never empty");
                (agent, s.recovery.as_ref().map_or(Epoch(0), |r| r.epoch))
            });
            let count = view.map_or(3, |s| s.spec.replicas.len() as u32);
            Command::Recover {
                segment,
                agent,
                agent_incarnation: life_of(meta, agent, d[3]),
                expected_epoch: epoch,
                replicas: replicas(d[4], count),
                trace: trace(d[5]),
                loss_accepted: d[3] % 4 == 3,
            }
        }
        15..=16 => {
            let segment = target(meta, d[1], is_open);
            let next = target(meta, d[2], |s| s.spec.prior == Some(segment) && is_candidate(s));
            let start = match meta.segment(segment).map(|s| s.state) {
                Some(SegmentState::Open { start } | SegmentState::Sealed { start, .. }) => start.0,
                _ => 0,
            };
            let end = (start + u64::from(d[3] % 9)).saturating_sub(u64::from(d[4].is_multiple_of(8)));
            let epoch = Epoch(u64::from(d[5] / 2 % 4));
            let by = if d[5].is_multiple_of(2) { RollBy::Planned } else { RollBy::Recovery(epoch) };
            let mut command = roll(segment.0, end, next.0, by);
            if let Command::CommitRoll { bytes, .. } = &mut command {
                *bytes = u64::from(d[3] % 900);
            }
            command
        }
        17 => {
            let segment = target(meta, d[1], is_leaving);
            let node = meta.segment(segment).and_then(|s| pick(&s.spec.replicas, d[2])).unwrap_or(NodeId(d[3]));
            Command::ConfirmReclaimed { segment, node }
        }
        18 => {
            let (segment, expected) = (target(meta, d[1], is_open), d[2] % 3);
            Command::RequestRoll { segment, expected, reason: RollReason::Operator, trace: trace(d[3]) }
        }
        20..=21 => {
            let range = RangeId(1 + u64::from(d[1] % 6));
            let chain: Vec<SegmentId> = meta.chain(range).collect();
            let first = if d[2].is_multiple_of(8) { pick(&chain, d[2] / 8) } else { chain.first().copied() };
            let keep = pick(&chain, d[3]).unwrap_or(SegmentId(d[3].into()));
            Command::Trim { range, first: first.unwrap_or(SegmentId(1)), keep }
        }
        _ => {
            let segment = target(meta, d[1], |s| is_ready(s) || is_open(s));
            if d[2].is_multiple_of(2) {
                let gate = GateStats { gate_us: d[3].into(), ..GateStats::default() };
                Command::GateOpened { segment, gate }
            } else {
                Command::RollRecorded { segment, record_us: d[3].into() }
            }
        }
    }
}

fn trace(d: u32) -> Option<TraceContext> {
    d.is_multiple_of(2).then(|| TraceContext { trace_id: u128::from(d) + 1, span_id: 7, flags: 1 })
}

/// A watcher: keeps the newest view of everything.
#[derive(Default)]
struct Watcher {
    items: BTreeMap<(u8, u64), MetaItem>,
}

impl Watcher {
    fn take(&mut self, items: Vec<MetaItem>) {
        for item in items {
            let key = match &item {
                MetaItem::Node(n) => (0, u64::from(n.id.0)),
                MetaItem::Topic(t) => (1, t.id.0),
                MetaItem::Segment(s) => (2, s.spec.id.0),
                MetaItem::Ids { .. } => unreachable!("only in a snapshot"),
            };
            match &item {
                MetaItem::Segment(s) if s.state == SegmentState::Reclaimed => self.items.remove(&key),
                MetaItem::Node(_) | MetaItem::Topic(_) | MetaItem::Segment(_) | MetaItem::Ids { .. } => {
                    self.items.insert(key, item)
                }
            };
        }
    }
}

fn start_and_end(s: &SegmentState) -> (Option<Offset>, Option<(Offset, SegmentId)>) {
    match s {
        SegmentState::Open { start } => (Some(*start), None),
        SegmentState::Sealed { start, end, next } | SegmentState::Trimmed { start, end, next, .. } => {
            (Some(*start), Some((*end, *next)))
        }
        SegmentState::Planned | SegmentState::Ready { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed => {
            (None, None)
        }
    }
}

/// It was given up and left in one command: nobody alive held it, or it was a candidate with no replica to ask.
fn was_given_up(s: &SegmentView, meta: &Meta) -> bool {
    s.spec.replicas.iter().all(|n| meta.node(*n).is_none_or(|n| n.state == NodeState::Dead))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn random_histories(dice in prop::collection::vec(prop::array::uniform6(0u32..10_000), 1..220)) {
        let mut meta = Meta::default();
        let mut log: Vec<Command> = (1..=6).map(|id| register(id, 1)).collect();
        log.push(create(1, "t0", &TopicConfig::default(), &[&[1, 2, 3]]));
        let mut watcher = Watcher::default();
        for command in &log {
            watcher.take(meta.apply(command).items);
        }
        let cut = dice.len() / 2;
        let mut saved = Vec::new();
        for (i, d) in dice.into_iter().enumerate() {
            if i == cut {
                saved = meta.snapshot();
            }
            let command = command(&meta, d);
            let mut before = meta.clone();
            let applied = meta.apply(&command);
            watcher.take(applied.items);
            if matches!(applied.outcome, Outcome::Refused { .. }) {
                before.forget_version();
                let mut after = meta.clone();
                after.forget_version();
                prop_assert_eq!(before, after, "refused, but changed: {:?}", command);
            } else {
                for old in segments(&before) {
                    let Some(new) = meta.segment(old.spec.id) else {
                        prop_assert!(is_leaving(&old) || was_given_up(&old, &meta), "{:?} left while it was needed", old);
                        prop_assert!(meta.has_left(old.spec.id));
                        continue;
                    };
                    let deleted = meta.topic(old.spec.topic).expect("topics stay").deleted;
                    prop_assert_eq!(&old.spec, &new.spec);
                    let ((old_start, old_end), (new_start, new_end)) = (start_and_end(&old.state), start_and_end(&new.state));
                    prop_assert!(deleted || old_start.is_none() || old_start == new_start, "R3: {:?} {:?}", old, new);
                    prop_assert!(deleted || old_end.is_none() || old_end == new_end, "R5: {:?} {:?}", old, new);
                    prop_assert!(!is_leaving(&old) || is_leaving(&new), "{:?} comes back as {:?}", old, new);
                }
                for id in (1..=6).map(RangeId) {
                    let starts = (before.range(id).map(|r| r.start), meta.range(id).map(|r| r.start));
                    prop_assert!(starts.0 <= starts.1, "the log's start moves back: {:?}", starts);
                    let trims = matches!(command, Command::Trim { .. });
                    prop_assert!(trims || starts.0.is_none() || starts.0 == starts.1, "only a trim moves it: {:?}", command);
                }
                // Repeating what took effect changes nothing, unless others have moved meanwhile.
                let mut twice = meta.clone();
                let again = twice.apply(&command);
                prop_assert!(again.items.is_empty() || matches!(command, Command::RequestRoll { .. }), "{:?}", command);
            }
            log.push(command);
        }
        meta.assert_invariants();
        let mut items = meta.all_items();
        items.retain(|item| !matches!(item, MetaItem::Ids { .. }));
        prop_assert_eq!(watcher.items.into_values().collect::<Vec<_>>(), items);

        let mut replayed = Meta::default();
        log.iter().for_each(|c| { replayed.apply(c); });
        prop_assert_eq!(replayed.hash(), meta.hash(), "R11: replay");
        prop_assert_eq!(&replayed, &meta);

        if !saved.is_empty() {
            let mut restored = Meta::restore(&saved).expect("its own snapshot");
            let done = restored.version() as usize;
            log[done..].iter().for_each(|c| { restored.apply(c); });
            prop_assert_eq!(restored.snapshot(), meta.snapshot(), "R11: snapshot and the rest of the log");
        }
    }
}

/// The dice above must reach deep states, or the property proves nothing.
#[test]
fn random_histories_reach_rolls_recoveries_and_reclaims() {
    let mut seed = 7u64;
    let mut die = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as u32 % 10_000
    };
    let mut meta = Meta::default();
    (1..=6).for_each(|id| {
        ok(&mut meta, &register(id, 1));
    });
    ok(&mut meta, &create(1, "t0", &TopicConfig::default(), &[&[1, 2, 3]]));
    let (mut planned, mut recovered, mut trimmed) = (0, 0, 0);
    for _ in 0..6000 {
        let command = command(&meta, std::array::from_fn(|_| die()));
        let applied = meta.apply(&command);
        trimmed += u32::from(matches!(command, Command::Trim { .. }) && !applied.items.is_empty());
        if let (Command::CommitRoll { by, .. }, Outcome::Done) = (&command, &applied.outcome) {
            match by {
                RollBy::Planned => planned += 1,
                RollBy::Recovery(_) => recovered += 1,
            }
        }
    }
    let c = meta.counters();
    let reached = planned >= 10 && recovered >= 3 && trimmed >= 3 && c.reclaimed >= 10;
    assert!(reached, "{planned} {recovered} {trimmed} {c:?}");
}
