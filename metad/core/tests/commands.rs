//! Each command: what it does, that repeating it does nothing, and what it refuses.

mod common;

use common::*;
use metad_core::{Command, Counters, Limits, Meta, Outcome, Refusal};
use seam_wire::meta::{Binder, MetaItem, NodeState, RollReason, SegmentState};
use seam_wire::report::GateStats;
use seam_wire::topic::{Anticipation, TopicConfig};
use seam_wire::{Epoch, Offset, RangeId, TopicId, TraceContext};

fn open(start: u64) -> SegmentState {
    SegmentState::Open { start: Offset(start) }
}

fn sealed(start: u64, end: u64, next: u64) -> SegmentState {
    SegmentState::Sealed { start: Offset(start), end: Offset(end), next: s(next) }
}

fn set(id: u32, incarnation: u64, state: NodeState) -> Command {
    Command::SetNodeState { id: n(id), incarnation: life(incarnation), state }
}

fn node_state(meta: &Meta, id: u32) -> NodeState {
    meta.node(n(id)).expect("registered").state
}

#[test]
fn register_node() {
    let mut meta = cluster();
    again(&mut meta, &register(1, 1), &Outcome::Done);
    ok(&mut meta, &register(1, 4));
    assert!(matches!(no(&mut meta, &register(1, 3)), Refusal::StaleIncarnation { .. }));
    let named = |id: u32, name: &str| Command::RegisterNode {
        id: n(id),
        name: name.to_owned(),
        addr: "127.0.0.1:1".to_owned(),
        domain: "r".to_owned(),
        incarnation: life(9),
    };
    assert!(matches!(no(&mut meta, &named(1, "other")), Refusal::NodeName { .. }));
    assert!(matches!(no(&mut meta, &named(9, "segd-2")), Refusal::NodeName { .. }));
}

#[test]
fn a_dead_node_comes_back_by_registering_and_a_drain_outlives_both() {
    let mut meta = cluster();
    ok(&mut meta, &set(1, 1, NodeState::Draining));
    ok(&mut meta, &set(1, 1, NodeState::Dead));
    again(&mut meta, &set(1, 1, NodeState::Dead), &Outcome::Done);
    ok(&mut meta, &register(1, 1));
    assert_eq!(node_state(&meta, 1), NodeState::Draining);
    ok(&mut meta, &register(1, 2));
    assert_eq!(node_state(&meta, 1), NodeState::Draining);
    assert!(matches!(no(&mut meta, &set(1, 1, NodeState::Dead)), Refusal::StaleIncarnation { .. }));
    ok(&mut meta, &set(1, 2, NodeState::Dead));
    ok(&mut meta, &set(1, 2, NodeState::Live));
    assert_eq!(node_state(&meta, 1), NodeState::Dead, "an operator's wish does not raise the dead");
    ok(&mut meta, &register(1, 3));
    assert_eq!(node_state(&meta, 1), NodeState::Live);
    assert!(matches!(no(&mut meta, &set(9, 1, NodeState::Dead)), Refusal::UnknownNode(_)));
}

#[test]
fn create_topic() {
    let mut meta = cluster();
    let config = TopicConfig { ranges: 2, ..TopicConfig::default() };
    let command = create(1, "t", &config, &[&[1, 2, 3], &[2, 3, 4]]);
    let applied = ok(&mut meta, &command);
    assert_eq!(applied.outcome, Outcome::Created { topic: TopicId(1) });
    assert_eq!(applied.items.len(), 3, "one topic, two first segments");
    again(&mut meta, &command, &applied.outcome);
    assert_eq!(state(&meta, 1), SegmentState::Planned);
    assert_eq!(view(&meta, 2).spec.binder, Binder::Root);

    assert!(matches!(no(&mut meta, &create(2, "t", &config, &[&[1, 2, 3]])), Refusal::TopicExists { .. }));
    assert!(matches!(no(&mut meta, &create(1, "u", &config, &[&[1, 2, 3]])), Refusal::StaleTopicId { .. }));
    assert!(matches!(no(&mut meta, &create(u64::MAX, "u", &config, &[&[1, 2, 3]])), Refusal::StaleTopicId { .. }));
    assert!(matches!(no(&mut meta, &create(2, "a b", &config, &[])), Refusal::BadConfig(_)));
    assert!(matches!(no(&mut meta, &create(2, "u", &config, &[&[1, 2, 3]])), Refusal::BadReplicas(_)));
    let one = TopicConfig::default();
    for bad in [&[1, 2][..], &[1, 2, 2], &[1, 2, 3, 4]] {
        assert!(matches!(no(&mut meta, &create(2, "u", &one, &[bad])), Refusal::BadReplicas(_)));
    }
    assert!(matches!(no(&mut meta, &create(2, "u", &one, &[&[1, 2, 9]])), Refusal::UnknownNode(_)));
    ok(&mut meta, &create(5, "u", &one, &[&[1, 2, 3]]));
    ok(&mut meta, &create(3, "v", &one, &[&[1, 2, 3]]));
}

#[test]
fn alter_topic_is_a_compare_and_set() {
    let mut meta = one_range();
    let expected = TopicConfig::default();
    let config = TopicConfig { anticipation: Anticipation::Off, ..expected.clone() };
    let alter = |expected: &TopicConfig, config: &TopicConfig| Command::AlterTopic {
        topic: TopicId(1),
        expected: expected.clone(),
        config: config.clone(),
    };
    ok(&mut meta, &alter(&expected, &config));
    again(&mut meta, &alter(&expected, &config), &Outcome::Done);
    let other = TopicConfig { max_age_ms: 1, ..expected.clone() };
    assert!(matches!(no(&mut meta, &alter(&expected, &other)), Refusal::StaleConfig { .. }));
    let wider = TopicConfig { ranges: 2, ..config.clone() };
    assert!(matches!(no(&mut meta, &alter(&config, &wider)), Refusal::RangesFixed(1)));
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    assert_eq!(view(&meta, 1).spec.config, expected, "a segment keeps what it was prepared with");
    assert_eq!(view(&meta, 2).spec.config, config);
}

#[test]
fn the_first_segment_opens_at_ready_and_the_others_are_taken_back() {
    let mut meta = cluster();
    ok(&mut meta, &create(1, "t", &TopicConfig::default(), &[&[1, 2, 3]]));
    let root = |attempt, replicas: &[u32]| Command::PrepareRoot { range: RangeId(1), attempt, replicas: ns(replicas) };
    assert!(matches!(no(&mut meta, &root(3, &[2, 3, 4])), Refusal::WrongAttempt { expected: 2, given: 3 }));
    let outcome = ok(&mut meta, &root(2, &[2, 3, 4])).outcome;
    again(&mut meta, &root(2, &[2, 3, 4]), &outcome);
    ok(&mut meta, &ready(2, &[2, 3], 1));
    assert_eq!((state(&meta, 1), state(&meta, 2)), (SegmentState::Reclaiming, open(0)));
    assert!(matches!(no(&mut meta, &ready(1, &[1, 2, 3], 1)), Refusal::WrongState { .. }));
    assert!(matches!(no(&mut meta, &root(3, &[1, 2, 3])), Refusal::RangeOpen { .. }));
    assert_eq!(meta.range(RangeId(1)).expect("it exists").head, Some(s(2)));
}

#[test]
fn more_first_segments_than_the_limit_push_out_the_oldest() {
    let mut meta = cluster();
    ok(&mut meta, &create(1, "t", &TopicConfig::default(), &[&[1, 2, 3]]));
    for attempt in 2..=6 {
        ok(&mut meta, &Command::PrepareRoot { range: RangeId(1), attempt, replicas: ns(&[2, 3, 4]) });
    }
    let waiting = (1..=6).filter(|id| state(&meta, *id) == SegmentState::Planned).collect::<Vec<_>>();
    assert_eq!(waiting, [3, 4, 5, 6]);
}

#[test]
fn a_candidate_is_prepared_once_per_attempt() {
    let mut meta = one_range();
    let first = prepare(1, 1, &[2, 3, 4]);
    assert!(matches!(no(&mut meta, &prepare(1, 2, &[2, 3, 4])), Refusal::WrongAttempt { expected: 1, .. }));
    let outcome = ok(&mut meta, &first).outcome;
    assert_eq!(outcome, Outcome::Prepared { segment: s(2) });
    again(&mut meta, &first, &outcome);
    assert!(matches!(no(&mut meta, &prepare(1, 1, &[3, 4, 5])), Refusal::WrongAttempt { .. }));
    assert!(matches!(no(&mut meta, &prepare(2, 1, &[3, 4, 5])), Refusal::WrongState { .. }), "planned prior");
    assert!(matches!(no(&mut meta, &prepare(9, 1, &[3, 4, 5])), Refusal::UnknownSegment(_)));
    assert!(matches!(no(&mut meta, &prepare(1, 2, &[3, 4, 4])), Refusal::BadReplicas(_)));
    ok(&mut meta, &ready(2, &[2, 3], 1));
    ok(&mut meta, &prepare(2, 1, &[3, 4, 5]));
    assert_eq!(view(&meta, 3).spec.prior, Some(s(2)), "while 1 is undecided");
    ok(&mut meta, &planned(1, 10, 2));
    assert!(matches!(no(&mut meta, &prepare(1, 2, &[3, 4, 5])), Refusal::Decided { .. }));
}

#[test]
fn prepare_takes_absent_followers_but_no_dead_primary_and_no_lost_quorum() {
    let mut meta = one_range();
    ok(&mut meta, &set(4, 1, NodeState::Dead));
    assert!(matches!(no(&mut meta, &prepare(1, 1, &[4, 2, 3])), Refusal::BadReplicas(_)));
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut meta, &set(5, 1, NodeState::Dead));
    assert!(matches!(no(&mut meta, &prepare(1, 2, &[2, 4, 5])), Refusal::BadReplicas(_)));
}

#[test]
fn the_limit_of_candidates_holds_until_one_is_released() {
    let mut meta = one_range();
    for attempt in 1..=4 {
        ok(&mut meta, &prepare(1, attempt, &[2, 3, 4]));
    }
    assert!(matches!(no(&mut meta, &prepare(1, 5, &[2, 3, 4])), Refusal::TooManyCandidates { .. }));
    ok(&mut meta, &recover(1, 2, 0, &[3, 4, 5]));
    ok(&mut meta, &Command::AskRelease { segment: s(2) });
    ok(&mut meta, &released(2, 1, 1));
    ok(&mut meta, &prepare(1, 6, &[2, 3, 4]));
}

#[test]
fn candidates_that_nobody_deletes_are_bounded_too() {
    let mut meta = Meta::new(Limits { candidates: 1, unreclaimed: 2, history: 2 });
    for id in 1..=4 {
        ok(&mut meta, &register(id, 1));
    }
    ok(&mut meta, &create(1, "t", &TopicConfig::default(), &[&[1, 2, 3]]));
    ok(&mut meta, &ready(1, &[1, 2], 1));
    for (attempt, id) in [(1, 2), (2, 3)] {
        ok(&mut meta, &prepare(1, attempt, &[2, 3, 4]));
        ok(&mut meta, &Command::AskRelease { segment: s(id) });
        ok(&mut meta, &released(id, 1, 1));
    }
    assert!(matches!(no(&mut meta, &prepare(1, 3, &[2, 3, 4])), Refusal::TooManyCandidates { limit: 2, .. }));
    for node in 2..=4 {
        ok(&mut meta, &confirm(2, node));
    }
    ok(&mut meta, &prepare(1, 3, &[2, 3, 4]));
}

#[test]
fn mark_ready() {
    let mut meta = one_range();
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    assert!(matches!(no(&mut meta, &ready(2, &[2], 1)), Refusal::BadReplicas(_)), "below the quorum");
    assert!(matches!(no(&mut meta, &ready(2, &[3, 4], 1)), Refusal::BadReplicas(_)), "without the primary");
    assert!(matches!(no(&mut meta, &ready(2, &[2, 5], 1)), Refusal::BadReplicas(_)), "a stranger does not count");
    let unknown_life = no(&mut meta, &ready(2, &[2, 3], 2));
    assert!(unknown_life.is_retryable(), "its registration may be on the way: {unknown_life}");
    ok(&mut meta, &ready(2, &[3, 2], 1));
    assert_eq!(state(&meta, 2), SegmentState::Ready { open_on: ns(&[2, 3]) });
    again(&mut meta, &ready(2, &[2, 3], 1), &Outcome::Done);
    ok(&mut meta, &ready(2, &[2, 4], 1));
    assert_eq!(state(&meta, 2), SegmentState::Ready { open_on: ns(&[2, 3, 4]) });
    ok(&mut meta, &register(2, 2));
    assert!(matches!(no(&mut meta, &ready(2, &[2, 3], 2)), Refusal::StaleIncarnation { .. }), "V4: another life");
}

#[test]
fn mark_ready_of_an_older_life_is_refused() {
    let mut meta = one_range();
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut meta, &register(2, 2));
    let why = no(&mut meta, &ready(2, &[2, 3], 1));
    assert!(matches!(why, Refusal::StaleIncarnation { .. }) && !why.is_retryable());
    ok(&mut meta, &ready(2, &[2, 3], 2));
    ok(&mut meta, &set(2, 2, NodeState::Dead));
    assert!(matches!(no(&mut meta, &ready(2, &[2, 3, 4], 2)), Refusal::NodeDead { .. }));
}

/// Found by the world simulation: a candidate chosen while planned, whose replicas lost their headers in a crash, could
/// never be recovered, since none of them may answer for it.
#[test]
fn a_candidate_is_chosen_only_when_it_is_ready() {
    let mut meta = one_range();
    ok(&mut meta, &recover(1, 2, 0, &[3, 4, 5]));
    let early = no(&mut meta, &by_agent(1, 7, 2, 1));
    assert!(early == Refusal::NotReady { next: s(2) } && early.is_retryable());
    ok(&mut meta, &ready(2, &[3, 4], 1));
    ok(&mut meta, &by_agent(1, 7, 2, 1));
    assert_eq!((state(&meta, 2), view(&meta, 2).primary_incarnation), (open(7), Some(life(1))));
    again(&mut meta, &ready(2, &[3, 4, 5], 1), &Outcome::Done);
    ok(&mut meta, &register(3, 2));
    assert!(matches!(no(&mut meta, &ready(2, &[3, 4], 2)), Refusal::StaleIncarnation { .. }));
}

#[test]
fn commit_roll_goes_in_chain_order_and_the_first_one_wins() {
    let mut meta = one_range();
    for (attempt, replicas) in [(1, &[2, 3, 4]), (2, &[3, 4, 5])] {
        ok(&mut meta, &prepare(1, attempt, replicas));
    }
    ok(&mut meta, &ready(2, &[2, 3], 1));
    ok(&mut meta, &ready(3, &[3, 4], 1));
    ok(&mut meta, &prepare(2, 1, &[1, 2, 3]));
    ok(&mut meta, &ready(4, &[1, 2], 1));
    let early = no(&mut meta, &planned(2, 20, 4));
    assert!(matches!(early, Refusal::NotInChain { .. }) && early.is_retryable());
    assert!(matches!(no(&mut meta, &planned(1, 10, 4)), Refusal::NotACandidate { .. }));
    assert!(matches!(no(&mut meta, &planned(1, 10, 9)), Refusal::UnknownSegment(_)));

    ok(&mut meta, &planned(1, 10, 2));
    again(&mut meta, &planned(1, 10, 2), &Outcome::Done);
    for other in [planned(1, 11, 2), planned(1, 10, 3)] {
        let decided = Refusal::Decided { segment: s(1), end: Offset(10), next: s(2) };
        assert_eq!(no(&mut meta, &other), decided);
    }
    assert_eq!((state(&meta, 1), state(&meta, 2)), (sealed(0, 10, 2), open(10)));
    assert_eq!(state(&meta, 3), SegmentState::Reclaiming);
    assert!(matches!(no(&mut meta, &planned(2, 9, 4)), Refusal::EndBelowStart { .. }));
    ok(&mut meta, &planned(2, 10, 4));
    assert_eq!((state(&meta, 2), state(&meta, 4)), (sealed(10, 10, 4), open(10)), "an empty segment is legal");
    assert_eq!(meta.chain(RangeId(1)).collect::<Vec<_>>(), [s(1), s(2), s(4)]);
}

#[test]
fn a_decision_takes_back_all_other_candidates_and_theirs() {
    let mut meta = one_range();
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut meta, &ready(2, &[2, 3], 1));
    ok(&mut meta, &prepare(2, 1, &[3, 4, 5]));
    ok(&mut meta, &ready(3, &[3, 4], 1));
    ok(&mut meta, &prepare(3, 1, &[3, 4, 5]));
    ok(&mut meta, &prepare(1, 2, &[1, 2, 3]));
    ok(&mut meta, &ready(5, &[1, 2], 1));
    let applied = ok(&mut meta, &planned(1, 10, 5));
    for gone in [2, 3, 4] {
        assert_eq!(state(&meta, gone), SegmentState::Reclaiming, "segment {gone}");
    }
    assert_eq!(applied.items.len(), 5, "every change is pushed");
    assert_eq!(meta.counters(), Counters { made: 5, used: 2, reclaimed: 0, open: 3 });
    for (segment, nodes) in [(4, [3, 4, 5]), (3, [3, 4, 5]), (2, [2, 3, 4])] {
        for node in nodes {
            ok(&mut meta, &confirm(segment, node));
        }
    }
    assert_eq!(meta.counters(), Counters { made: 5, used: 2, reclaimed: 3, open: 0 });
    assert!(meta.reclaiming().next().is_none());
}

#[test]
fn reclaimed_when_all_confirmed_and_the_dead_count() {
    let mut meta = one_range();
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut meta, &prepare(1, 2, &[3, 4, 5]));
    ok(&mut meta, &ready(3, &[3, 4], 1));
    assert!(matches!(no(&mut meta, &confirm(2, 2)), Refusal::WrongState { .. }), "it may still be chosen");
    ok(&mut meta, &set(4, 1, NodeState::Dead));
    ok(&mut meta, &planned(1, 1, 3));
    assert!(matches!(no(&mut meta, &confirm(3, 3)), Refusal::WrongState { .. }), "it is in the chain");
    ok(&mut meta, &confirm(2, 2));
    again(&mut meta, &confirm(2, 2), &Outcome::Done);
    assert_eq!(state(&meta, 2), SegmentState::Reclaiming);
    ok(&mut meta, &set(3, 1, NodeState::Dead));
    assert!(is_gone(&meta, 2));
    again(&mut meta, &confirm(2, 4), &Outcome::Done);
    assert!(matches!(no(&mut meta, &ready(2, &[2, 3], 1)), Refusal::UnknownSegment(_)), "refused for ever");
}

#[test]
fn v8_released_then_chosen_is_refused_and_chosen_then_released_too() {
    let mut base = one_range();
    ok(&mut base, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut base, &ready(2, &[2, 3], 1));
    assert!(matches!(no(&mut base, &released(2, 1, 1)), Refusal::NotAsked { .. }));
    ok(&mut base, &Command::AskRelease { segment: s(2) });
    again(&mut base, &Command::AskRelease { segment: s(2) }, &Outcome::Done);
    assert!(view(&base, 2).release_asked);
    assert!(matches!(no(&mut base, &released(2, 2, 1)), Refusal::WrongBinder { .. }), "not the binder");
    assert!(matches!(no(&mut base, &released(2, 1, 2)), Refusal::StaleIncarnation { .. }), "not in that life");

    let mut meta = base.clone();
    ok(&mut meta, &released(2, 1, 1));
    again(&mut meta, &released(2, 1, 1), &Outcome::Done);
    assert!(matches!(no(&mut meta, &planned(1, 5, 2)), Refusal::WrongState { .. }));

    let mut meta = base;
    ok(&mut meta, &planned(1, 5, 2));
    assert!(!view(&meta, 2).release_asked);
    assert!(matches!(no(&mut meta, &released(2, 1, 1)), Refusal::WrongState { .. }));
    assert!(matches!(no(&mut meta, &Command::AskRelease { segment: s(2) }), Refusal::WrongState { .. }));
}

#[test]
fn an_agents_candidate_is_not_the_primarys_to_release_or_choose() {
    let mut meta = one_range();
    ok(&mut meta, &recover(1, 2, 0, &[3, 4, 5]));
    assert!(matches!(no(&mut meta, &Command::AskRelease { segment: s(2) }), Refusal::WrongBinder { .. }));
    assert!(matches!(no(&mut meta, &planned(1, 5, 2)), Refusal::WrongBinder { .. }));
}

#[test]
fn recover_appoints_once_per_epoch() {
    let mut meta = one_range();
    assert!(matches!(no(&mut meta, &recover(1, 4, 0, &[3, 4, 5])), Refusal::NotAReplica { .. }));
    assert!(matches!(no(&mut meta, &recover(1, 2, 1, &[3, 4, 5])), Refusal::WrongEpoch { .. }));
    let command = recover(1, 2, 0, &[3, 4, 5]);
    let outcome = ok(&mut meta, &command).outcome;
    assert_eq!(outcome, Outcome::Appointed { epoch: Epoch(1), candidate: s(2) });
    again(&mut meta, &command, &outcome);
    assert!(matches!(no(&mut meta, &recover(1, 3, 0, &[3, 4, 5])), Refusal::WrongEpoch { .. }));
    assert!(matches!(no(&mut meta, &recover(2, 3, 0, &[3, 4, 5])), Refusal::NotInChain { .. }));
    ok(&mut meta, &register(3, 2));
    assert!(matches!(no(&mut meta, &recover(1, 3, 1, &[3, 4, 5])), Refusal::StaleIncarnation { .. }));
    assert!(matches!(no(&mut meta, &recover(1, 2, u64::MAX, &[3, 4, 5])), Refusal::WrongEpoch { .. }));
}

#[test]
fn a_new_epoch_takes_back_the_candidate_of_the_one_before() {
    let mut meta = one_range();
    ok(&mut meta, &recover(1, 2, 0, &[3, 4, 5]));
    ok(&mut meta, &ready(2, &[3, 4], 1));
    ok(&mut meta, &prepare(2, 1, &[1, 2, 3]));
    ok(&mut meta, &recover(1, 3, 1, &[3, 4, 5]));
    for gone in [2, 3] {
        assert_eq!(state(&meta, gone), SegmentState::Reclaiming, "segment {gone}");
    }
    assert!(matches!(no(&mut meta, &by_agent(1, 5, 2, 1)), Refusal::WrongState { .. }), "V5: an old epoch's choice");
    assert!(matches!(no(&mut meta, &by_agent(1, 5, 4, 1)), Refusal::WrongBinder { .. }), "V1: another's candidate");
    assert!(matches!(no(&mut meta, &by_agent(1, 5, 4, 3)), Refusal::WrongBinder { .. }), "an epoch never appointed");
    ok(&mut meta, &ready(4, &[3, 4], 1));
    ok(&mut meta, &by_agent(1, 6, 4, 2));
    assert_eq!(state(&meta, 4), open(6));
}

#[test]
fn the_seal_entry_of_the_primary_and_the_agent_race_and_one_wins() {
    let mut base = one_range();
    ok(&mut base, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut base, &ready(2, &[2, 3], 1));
    ok(&mut base, &recover(1, 2, 0, &[3, 4, 5]));
    ok(&mut base, &ready(3, &[3, 4], 1));

    let mut meta = base.clone();
    ok(&mut meta, &planned(1, 5, 2));
    assert!(matches!(no(&mut meta, &by_agent(1, 5, 3, 1)), Refusal::Decided { .. }));
    assert_eq!(state(&meta, 3), SegmentState::Reclaiming);
    assert!(matches!(no(&mut meta, &recover(1, 3, 1, &[3, 4, 5])), Refusal::Decided { .. }));

    let mut meta = base.clone();
    ok(&mut meta, &by_agent(1, 5, 3, 1));
    assert!(matches!(no(&mut meta, &planned(1, 5, 2)), Refusal::Decided { .. }));
    assert_eq!(state(&meta, 2), SegmentState::Reclaiming);

    let mut meta = base;
    ok(&mut meta, &by_agent(1, 5, 2, 1));
    again(&mut meta, &planned(1, 5, 2), &Outcome::Done);
    assert!(meta.history(RangeId(1), 0).all(|r| r.by_recovery), "the agent found the seal entry");
}

#[test]
fn an_earlier_agent_that_found_the_seal_entry_may_still_be_the_first() {
    let mut meta = one_range();
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut meta, &ready(2, &[2, 3], 1));
    ok(&mut meta, &recover(1, 2, 0, &[3, 4, 5]));
    ok(&mut meta, &recover(1, 3, 1, &[3, 4, 5]));
    ok(&mut meta, &by_agent(1, 5, 2, 1));
    assert!(matches!(no(&mut meta, &by_agent(1, 6, 4, 2)), Refusal::Decided { .. }));
    assert_eq!((state(&meta, 3), state(&meta, 4)), (SegmentState::Reclaiming, SegmentState::Reclaiming));
}

#[test]
fn delete_topic_takes_everything_back_and_frees_the_name() {
    let mut meta = one_range();
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    ok(&mut meta, &ready(2, &[2, 3], 1));
    ok(&mut meta, &planned(1, 5, 2));
    ok(&mut meta, &prepare(2, 1, &[3, 4, 5]));
    let delete = Command::DeleteTopic { topic: TopicId(1) };
    ok(&mut meta, &delete);
    again(&mut meta, &delete, &Outcome::Done);
    for id in 1..=3 {
        assert_eq!(state(&meta, id), SegmentState::Reclaiming, "segment {id}");
    }
    assert!(meta.topic_named("t").is_none() && meta.topic(TopicId(1)).expect("a tombstone").deleted);
    assert!(matches!(no(&mut meta, &prepare(2, 2, &[3, 4, 5])), Refusal::TopicDeleted { .. }));
    assert!(matches!(no(&mut meta, &planned(2, 9, 3)), Refusal::WrongState { .. }));
    let config = TopicConfig::default();
    assert!(matches!(no(&mut meta, &create(1, "t", &config, &[&[1, 2, 3]])), Refusal::StaleTopicId { .. }));
    ok(&mut meta, &create(2, "t", &config, &[&[1, 2, 3]]));
    assert_eq!(view(&meta, 4).spec.topic, TopicId(2), "ids are never used twice");
    for (segment, nodes) in [(1, [1, 2, 3]), (2, [2, 3, 4]), (3, [3, 4, 5])] {
        for node in nodes {
            ok(&mut meta, &confirm(segment, node));
        }
    }
    assert_eq!(meta.counters(), Counters { made: 4, used: 2, reclaimed: 1, open: 1 });
}

#[test]
fn request_roll_raises_a_nonce() {
    let mut meta = one_range();
    let request = |segment, expected| Command::RequestRoll {
        segment: s(segment),
        expected,
        reason: RollReason::Operator,
        trace: None,
    };
    ok(&mut meta, &request(1, 0));
    again(&mut meta, &request(1, 0), &Outcome::Done);
    assert_eq!(view(&meta, 1).roll_requested, 1);
    assert!(matches!(no(&mut meta, &request(1, 5)), Refusal::WrongNonce { current: 1, .. }));
    ok(&mut meta, &request(1, 1));
    ok(&mut meta, &prepare(1, 1, &[2, 3, 4]));
    assert!(matches!(no(&mut meta, &request(2, 0)), Refusal::WrongState { .. }));
}

#[test]
fn the_first_trace_of_a_roll_holds_and_a_recovery_has_its_own() {
    let mut meta = one_range();
    let trace = |id| Some(TraceContext { trace_id: id, span_id: 1, flags: 1 });
    let prepare = |attempt, trace| Command::Prepare { prior: s(1), attempt, replicas: ns(&[2, 3, 4]), trace };
    ok(&mut meta, &prepare(1, None));
    assert_eq!(view(&meta, 1).trace, None);
    let told = ok(&mut meta, &prepare(2, trace(7)));
    assert_eq!(view(&meta, 1).trace, trace(7));
    assert_eq!(told.items.len(), 2, "watchers hear of the candidate and of the trace: {told:?}");
    ok(&mut meta, &prepare(3, trace(8)));
    assert_eq!(view(&meta, 1).trace, trace(7));
    let Command::Recover { segment, agent, agent_incarnation, expected_epoch, replicas, .. } =
        recover(1, 2, 0, &[2, 3, 4])
    else {
        unreachable!("it is one")
    };
    let trace = trace(9);
    ok(
        &mut meta,
        &Command::Recover { segment, agent, agent_incarnation, expected_epoch, replicas, trace, loss_accepted: false },
    );
    assert_eq!(view(&meta, 1).trace, trace);
}

#[test]
fn history_keeps_the_phases_and_the_newest_rolls() {
    let mut meta = Meta::new(Limits { history: 2, ..Limits::default() });
    for id in 1..=5 {
        ok(&mut meta, &register(id, 1));
    }
    ok(&mut meta, &create(1, "t", &TopicConfig::default(), &[&[1, 2, 3]]));
    ok(&mut meta, &ready(1, &[1, 2], 1));
    for segment in 1..=3 {
        ok(&mut meta, &prepare(segment, 1, &[1, 2, 3]));
        ok(&mut meta, &ready(segment + 1, &[1, 2], 1));
        let gate = Command::GateOpened {
            segment: s(segment + 1),
            gate: GateStats { gate_us: segment, first_commit_us: Some(9), ..GateStats::default() },
        };
        if segment == 2 {
            ok(&mut meta, &gate);
        }
        ok(&mut meta, &planned(segment, segment * 10, segment + 1));
        ok(&mut meta, &gate);
        ok(&mut meta, &Command::RollRecorded { segment: s(segment + 1), record_us: 44 });
    }
    let kept: Vec<_> = meta.history(RangeId(1), 0).copied().collect();
    assert_eq!(kept.iter().map(|r| (r.segment, r.next)).collect::<Vec<_>>(), [(s(2), s(3)), (s(3), s(4))]);
    let last = kept[1];
    let phases = (last.opening.commit_us, last.opening.open_us, last.ready_us, last.record_us, last.gate.gate_us);
    assert_eq!((phases, last.gate.first_commit_us), ((11, 22, 33, 44, 3), Some(9)));
    assert_eq!(meta.history(RangeId(1), 1).count(), 1);
}

#[test]
fn a_snapshot_of_another_format_or_with_damage_is_refused() {
    let meta = one_range();
    let bytes = meta.snapshot();
    assert_eq!(Meta::restore(&bytes).expect("its own snapshot"), meta);
    Meta::restore(&[]).expect_err("empty");
    Meta::restore(&[&[99], &bytes[1..]].concat()).expect_err("another format");
    Meta::restore(&bytes[..bytes.len() - 1]).expect_err("cut short");
    Meta::restore(&[&bytes[..], &[0]].concat()).expect_err("something after its end");
}

#[test]
fn all_items_holds_nodes_topics_segments_and_the_ids_given_out() {
    let meta = one_range();
    let items = meta.all_items();
    let kinds = items.iter().map(|i| match i {
        MetaItem::Node(_) => 0,
        MetaItem::Topic(_) => 1,
        MetaItem::Segment(_) => 2,
        MetaItem::Ids { .. } => 3,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), [0, 0, 0, 0, 0, 1, 2, 3]);
}
