//! The leader's decisions under a fake clock: what it proposes, when, and what it answers.

mod common;
mod world;

use common::*;
use metad_core::{Admin, Answer, Command, RecoveryCause, RollBy, Timing};
use seam_wire::meta::{Binder, NodeState, RollReason, SegmentState};
use seam_wire::report::{GateStats, Report};
use seam_wire::topic::{Placement, TopicConfig};
use seam_wire::{Epoch, NodeId, Offset, RangeId, SegmentId};
use world::*;

fn config(placement: Placement) -> TopicConfig {
    TopicConfig { placement, ..TopicConfig::default() }
}

#[test]
fn a_topic_is_placed_over_domains_and_opens() {
    let mut w = World::new(5);
    let reply = w.admin(Admin::CreateTopic {
        name: "t".into(),
        config: TopicConfig { ranges: 5, ..config(Placement::Balanced) },
    });
    w.settle();
    assert!(matches!(w.answer(reply), Answer::Topic(_)));
    for node in w.driver.nodes(w.now, &w.meta) {
        assert!(node.primaries == 1 && (2..=4).contains(&node.replicas), "{node:?}");
    }
    let again = w.admin(Admin::CreateTopic { name: "t".into(), config: config(Placement::Balanced) });
    assert!(matches!(w.answer(again), Answer::Failed(e) if !e.retryable));
    let wide = TopicConfig { replicas: 7, ack_quorum: 4, ..config(Placement::Balanced) };
    let too_wide = w.admin(Admin::CreateTopic { name: "u".into(), config: wide });
    assert!(
        matches!(w.answer(too_wide), Answer::Failed(e) if e.detail.contains("7 usable segd nodes are needed, 5 of 5"))
    );
}

#[test]
fn a_first_segment_that_does_not_open_is_tried_elsewhere() {
    let mut w = World::new(5);
    w.mute_opens = true;
    w.admin(Admin::CreateTopic { name: "t".into(), config: config(Placement::Balanced) });
    w.settle();
    w.run_until(4000, |w| w.segments().len() == 2);
    let primaries: Vec<_> = w.segments().iter().map(|s| s.spec.primary()).collect();
    assert_ne!(primaries[0], primaries[1], "not where it just failed");
    w.mute_opens = false;
    w.run_until(3000, |w| w.head(1).is_some());
    assert_eq!(w.meta.counters().used, 1);
}

#[test]
fn a_soft_mark_prepares_one_candidate_however_often_it_is_said() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.mute_opens = true;
    let first = w.soft_mark(1, 1);
    let second = w.soft_mark(1, 1);
    w.settle();
    assert_eq!((w.done(first), w.done(second)), (true, true));
    let third = w.soft_mark(1, 1);
    w.settle();
    assert!(w.done(third));
    assert_eq!(w.segments().len(), 2);
    assert_eq!(w.segments()[1].spec.binder, Binder::Primary);
    let stranger = w.report(
        5,
        Report::SoftMark {
            segment: s(1),
            bytes: 1,
            end: Offset(1),
            rate_bytes_per_s: 1,
            soft_mark_bytes: 1,
            attempt: 2,
            trace: None,
        },
    );
    w.settle();
    assert!(w.done(stranger) && w.segments().len() == 2, "only the primary's word counts");
}

#[test]
fn the_primary_may_ask_for_a_later_attempt() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.soft_mark(1, 1);
    w.run_until(1000, |w| w.ready(2));
    w.soft_mark(1, 2);
    w.run_until(1000, |w| w.ready(3));
    assert_eq!(w.segments()[2].spec.attempt, 2);
}

#[test]
fn a_candidate_that_does_not_get_ready_in_time_has_a_next_attempt_elsewhere() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.mute_opens = true;
    w.soft_mark(1, 1);
    w.settle();
    w.advance(1900);
    assert_eq!(w.segments().len(), 2, "within its time");
    w.advance(200);
    assert_eq!(w.segments().len(), 3);
    assert_ne!(w.segments()[1].spec.primary(), w.segments()[2].spec.primary());
}

#[test]
fn a_candidate_whose_primary_restarts_or_dies_has_a_next_attempt() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.soft_mark(1, 1);
    w.run_until(1000, |w| w.ready(2));
    let first = w.segments()[1].spec.primary();
    w.restart(first.0);
    w.run_until(1000, |w| w.ready(3));
    let second = w.segments()[2].spec.primary();
    w.stop(second.0);
    w.run_until(5000, |w| w.segments().iter().any(|s| s.spec.id > SegmentId(3) && w.ready(s.spec.id.0)));
}

#[test]
fn l3_at_the_limit_the_oldest_is_released_and_the_range_goes_on() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.mute_opens = true;
    w.soft_mark(1, 1);
    w.settle();
    w.run_until(120_000, |w| w.segments().iter().any(|s| s.release_asked));
    let asked: Vec<_> = w.segments().iter().filter(|s| s.release_asked).map(|s| s.spec.attempt).collect();
    assert_eq!((asked, w.segments().len()), (vec![1], 5), "one at a time, the oldest");
    w.advance(60_000);
    assert_eq!(w.segments().len(), 5, "nothing is reclaimed before its binder says so");
    let reply = w.report(1, Report::Released { segment: s(2) });
    w.settle();
    assert!(w.done(reply));
    w.mute_opens = false;
    w.run_until(5000, |w| w.ready(6));
    assert!(w.is_gone(2));
}

#[test]
fn a_roll_is_recorded_in_chain_order_with_its_phases() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.delay_us = 3000;
    w.soft_mark(1, 1);
    w.run_until(1000, |w| w.ready(2));
    w.soft_mark(2, 1);
    w.run_until(1000, |w| w.ready(3));
    let early = w.sealed(2, 10, 20, 3);
    w.settle();
    assert!(!w.done(early), "the roll before it is not recorded: come again");
    let gate = w.report_of_primary(
        2,
        Report::GateOpened { segment: s(2), gate: GateStats { gate_us: 7, ..GateStats::default() } },
    );
    w.settle();
    let first = w.sealed(1, 0, 10, 2);
    w.settle();
    assert!(w.done(first) && w.done(gate));
    let again = w.sealed(1, 0, 10, 2);
    let late = w.sealed(2, 10, 20, 3);
    w.settle();
    assert!(w.done(again) && w.done(late));
    // The record's own duration travels with whatever is committed next, at the latest with the next sweep.
    w.run_until(2000, |w| w.meta.history(RangeId(1), 0).all(|record| record.record_us != 0));
    let record = *w.meta.history(RangeId(1), 0).next().expect("recorded");
    assert_eq!((record.segment, record.next, record.gate.gate_us), (s(1), s(2), 7));
    for (phase, us) in [("commit", record.opening.commit_us), ("ready", record.ready_us), ("record", record.record_us)]
    {
        assert_eq!(us, 3000, "{phase} took one round through the log");
    }
    let lie = w.sealed(1, 0, 11, 2);
    w.settle();
    assert!(w.done(lie), "it is decided: coming again is pointless");
    assert_eq!(w.meta.chain(RangeId(1)).count(), 3);
}

#[test]
fn an_end_that_was_fixed_before_the_candidate_was_ready_is_recorded_when_it_is() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.mute_opens = true;
    w.advance(1000);
    w.kill(w.segments()[0].spec.primary().0);
    w.run_until(1000, |w| w.segments()[0].recovery.is_some());
    let recovery = w.segments()[0].recovery.clone().expect("just seen");
    let report = w.recovered(1, 1, 4, recovery.candidate.0);
    let early = w.report(recovery.agent.0, report);
    w.settle();
    assert!(!w.done(early), "not ready yet: come again");
    w.mute_opens = false;
    w.run_until(1000, |w| w.head(1) == Some(recovery.candidate));
}

#[test]
fn a_dead_primary_is_recovered_by_another_replica() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    let primary = w.segments()[0].spec.primary();
    w.stop(primary.0);
    w.run_until(5000, |w| w.segments()[0].recovery.is_some());
    let recovery = w.segments()[0].recovery.clone().expect("just seen");
    assert!(recovery.agent != primary && w.segments()[0].spec.replicas.contains(&recovery.agent));
    assert_eq!((recovery.epoch, recovery.candidate), (Epoch(1), s(2)));
    assert!(!w.segments()[1].spec.replicas.contains(&primary), "the candidate lies on healthy nodes");
    let stranger = w.report(5, w.recovered(1, 1, 4, 2));
    w.settle();
    assert!(w.done(stranger));
    assert!(recovery.agent == n(5) || w.head(1) == Some(s(1)), "only the agent's word counts");
    w.advance(100);
    let agent = w.report(recovery.agent.0, w.recovered(1, 1, 4, 2));
    w.settle();
    assert!(w.done(agent));
    assert_eq!(w.head(1), Some(s(2)));
}

#[test]
fn a_restarted_primary_is_recovered_at_once() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.restart(w.segments()[0].spec.primary().0);
    w.settle();
    assert!(w.segments()[0].recovery.is_some());
}

#[test]
fn an_agent_that_takes_too_long_or_restarts_is_replaced_in_a_new_epoch() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    let primary = w.segments()[0].spec.primary();
    w.stop(primary.0);
    w.run_until(5000, |w| w.segments()[0].recovery.is_some());
    let first = w.segments()[0].recovery.clone().expect("just seen");
    w.advance(2800);
    assert_eq!(w.segments()[0].recovery.as_ref().map(|r| r.epoch), Some(Epoch(1)), "within its patience");
    w.run_until(500, |w| w.segments()[0].recovery.as_ref().is_some_and(|r| r.epoch == Epoch(2)));
    let second = w.segments()[0].recovery.clone().expect("just seen");
    assert!(second.agent != first.agent && second.agent != primary);
    assert!(w.is_leaving(first.candidate));
    w.restart(second.agent.0);
    w.run_until(600, |w| w.segments()[0].recovery.as_ref().is_some_and(|r| r.epoch > Epoch(2)));
    let third = w.segments()[0].recovery.clone().expect("still");
    assert_eq!(third.epoch, Epoch(3), "V5: an epoch ends with its agent's process");
    w.restart(w.view(third.candidate.0).spec.primary().0);
    w.run_until(600, |w| w.segments()[0].recovery.as_ref().is_some_and(|r| r.epoch > Epoch(3)));
    assert_eq!(w.segments()[0].recovery.as_ref().map(|r| r.epoch), Some(Epoch(4)), "and with its candidate's primary");
}

#[test]
fn a_recovery_waits_for_its_quorum() {
    let mut w = World::with_topic(6, config(Placement::Balanced));
    let replicas = w.segments()[0].spec.replicas.clone();
    w.stop(replicas[0].0);
    w.stop(replicas[1].0);
    w.run_until(5000, |w| replicas[..2].iter().all(|n| w.node_state(n.0) == NodeState::Dead));
    w.advance(10_000);
    assert!(w.segments()[0].recovery.is_none(), "R - A + 1 = 2 answers are needed, one is to be had");
    let complaint = w.report(replicas[2].0, Report::Stalled { segment: s(1) });
    assert!(!w.done(complaint));
    w.start(replicas[1].0);
    w.run_until(2000, |w| w.segments()[0].recovery.is_some());
}

#[test]
fn an_end_that_no_answer_can_decide_waits_for_an_operator() {
    let mut w = World::with_topic(6, config(Placement::Balanced));
    let replicas = w.segments()[0].spec.replicas.clone();
    let accept = |w: &mut World, segment: u64| {
        let request = Admin::AcceptLoss { name: "t".into(), range_index: 0, segment: s(segment) };
        let reply = w.admin(request);
        w.settle();
        w.answer(reply)
    };
    let stuck = |w: &World| w.driver.stuck(w.now, &w.meta, RangeId(1));
    let refused =
        |answer: Answer, why: &str| matches!(&answer, Answer::Failed(e) if !e.retryable && e.detail.contains(why));
    assert!(refused(accept(&mut w, 1), "nothing has to be given up"), "its primary writes");
    w.stop(replicas[0].0);
    w.run_until(5000, |w| w.segments()[0].recovery.is_some());
    assert!(stuck(&w).is_none() && refused(accept(&mut w, 1), "nothing has to be given up"), "two are left");
    w.stop(replicas[1].0);
    w.run_until(8000, |w| stuck(w).is_some());
    let why = stuck(&w).expect("just seen");
    assert!(why.contains("segd-") && why.contains("accept-loss"), "{why}");
    assert!(refused(accept(&mut w, 9), "not seg-9"), "the operator names what he gives up");
    let Answer::LossAccepted { epoch, candidate } = accept(&mut w, 1) else { panic!("it is stuck") };
    let recovery = w.segments()[0].recovery.clone().expect("appointed");
    assert_eq!((recovery.epoch, recovery.candidate, recovery.agent), (epoch, candidate, replicas[2]));
    assert!(recovery.loss_accepted && w.view(candidate.0).spec.binder == Binder::Loss(epoch));
    // Its agent goes too: another is appointed, and the loss stays accepted, though nobody is left who holds a copy.
    w.stop(replicas[2].0);
    w.run_until(8000, |w| w.segments()[0].recovery.as_ref().is_some_and(|r| r.epoch > epoch));
    let recovery = w.segments()[0].recovery.clone().expect("appointed again");
    assert!(recovery.loss_accepted && !replicas.contains(&recovery.agent));
    w.run_until(2000, |w| w.ready(recovery.candidate.0));
    let report = w.recovered(1, recovery.epoch.0, 0, recovery.candidate.0);
    let told = w.report(recovery.agent.0, report);
    w.settle();
    assert!(w.done(told) && w.head(1) == Some(recovery.candidate) && w.view(1).lost());
    assert_eq!(stuck(&w), None);
}

#[test]
fn replicas_that_say_they_cannot_answer_make_a_range_stuck() {
    let mut w = World::with_topic(6, config(Placement::Balanced));
    let replicas = w.segments()[0].spec.replicas.clone();
    w.restart(replicas[0].0);
    w.run_until(1000, |w| w.segments()[0].recovery.is_some());
    let recovery = w.segments()[0].recovery.clone().expect("just seen");
    let mute: Vec<NodeId> = replicas.iter().copied().filter(|node| *node != recovery.agent).collect();
    let stuck = |w: &World| w.driver.stuck(w.now, &w.meta, RangeId(1));
    let report = Report::Undecidable { segment: s(1), epoch: recovery.epoch, mute: mute.clone() };
    w.report(mute[0].0, report.clone());
    w.settle();
    assert_eq!(stuck(&w), None, "only the agent's word counts");
    w.report(recovery.agent.0, report);
    w.settle();
    assert!(stuck(&w).is_some_and(|why| why.contains("lost its copy")));
}

#[test]
fn a_complaint_has_the_segment_recovered_through_another_replica() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    let stranger = w.segments()[0].spec.replicas.iter().map(|n| n.0).fold(15, |left, n| left - n);
    let other =
        (1..=5).find(|id| !w.segments()[0].spec.replicas.contains(&n(*id))).expect("five nodes, three replicas");
    assert!(stranger > 0);
    let ignored = w.report(other, Report::Stalled { segment: s(1) });
    w.settle();
    assert!(w.done(ignored) && w.segments()[0].recovery.is_none());
    // The successor's primary complains that its gate stays shut: what it hangs from is recovered.
    w.soft_mark(1, 1);
    w.run_until(1000, |w| w.ready(2));
    let reply = w.report_of_primary(2, Report::Stalled { segment: s(2) });
    w.settle();
    assert!(w.done(reply));
    let recovery = w.segments()[0].recovery.clone().expect("appointed");
    assert_ne!(recovery.agent, w.segments()[0].spec.primary());
}

#[test]
fn recoveries_are_paced() {
    let timing = Timing { recoveries: 4, ..Timing::default() };
    let mut w = World::with_timing(5, timing);
    w.admin(Admin::CreateTopic { name: "t".into(), config: TopicConfig { ranges: 40, ..config(Placement::Balanced) } });
    w.settle();
    w.run_until(2000, |w| (1..=40).all(|r| w.head(r).is_some()));
    w.restart(1);
    w.settle();
    let running = |w: &World| {
        w.segments().iter().filter(|s| matches!(s.state, SegmentState::Open { .. }) && s.recovery.is_some()).count()
    };
    let waiting = |w: &World| {
        w.segments()
            .iter()
            .filter(|s| {
                matches!(s.state, SegmentState::Open { .. })
                    && s.spec.primary() == n(1)
                    && s.primary_incarnation == Some(life(1))
            })
            .count()
    };
    let of_node_1 = waiting(&w);
    assert!(of_node_1 > 4, "{of_node_1}");
    while waiting(&w) > 0 {
        assert!((1..=4).contains(&running(&w)), "{} run at once", running(&w));
        let (segment, recovery) = w
            .segments()
            .iter()
            .filter(|s| matches!(s.state, SegmentState::Open { .. }))
            .find_map(|s| s.recovery.clone().map(|r| (s.spec.id, r)))
            .expect("some run");
        w.advance(50);
        let report = w.recovered(segment.0, recovery.epoch.0, 0, recovery.candidate.0);
        w.report(recovery.agent.0, report);
        w.settle();
    }
}

#[test]
fn a_recovery_waits_for_its_candidate_to_be_ready() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.mute_opens = true;
    w.restart(w.segments()[0].spec.primary().0);
    w.settle();
    let recovery = w.segments()[0].recovery.clone().expect("appointed");
    let report = w.recovered(1, 1, 4, recovery.candidate.0);
    let early = w.report(recovery.agent.0, report.clone());
    w.settle();
    assert_eq!((w.done(early), w.head(1)), (false, Some(s(1))), "nobody could recover it in its turn");
    w.mute_opens = false;
    w.advance(100);
    let again = w.report(recovery.agent.0, report);
    w.settle();
    assert_eq!((w.done(again), w.head(1)), (true, Some(s(2))));
}

#[test]
fn a_drain_rolls_primaries_and_followers_away() {
    let mut w = World::with_topic(6, config(Placement::Balanced));
    for index in [0, 2] {
        let (head, old) = w.head_view(1);
        let leaving = old.spec.replicas[index];
        let reply = w.admin(Admin::DrainNode { node: leaving, drain: true });
        w.settle();
        assert_eq!(w.answer(reply), Answer::Drained);
        w.run_until(1000, |w| w.view(head.0).roll_requested == 1);
        w.run_until(1000, |w| w.candidate_of(head.0).is_some_and(|c| w.ready(c.0)));
        let next = w.candidate_of(head.0).expect("just seen");
        assert!(!w.view(next.0).spec.replicas.contains(&leaving));
        w.advance(5000);
        assert_eq!(w.view(head.0).roll_requested, 1, "asked once");
        w.sealed(head.0, index as u64, index as u64, next.0);
        w.settle();
        let back = w.admin(Admin::DrainNode { node: leaving, drain: false });
        w.settle();
        assert_eq!(w.answer(back), Answer::Drained);
        assert_eq!(w.node_state(leaving.0), NodeState::Live);
    }
}

#[test]
fn a_dead_follower_or_a_failed_disk_moves_the_segment_if_there_is_a_healthy_set() {
    let mut w = World::with_topic(3, config(Placement::Balanced));
    let follower = w.segments()[0].spec.replicas[2];
    w.stop(follower.0);
    w.run_until(5000, |w| w.node_state(follower.0) == NodeState::Dead);
    w.advance(5000);
    assert_eq!(w.view(1).roll_requested, 0, "nowhere better to go");
    w.soft_mark(1, 1);
    w.run_until(1000, |w| w.candidate_of(1).is_some_and(|c| w.ready(c.0)));
    assert_eq!(w.view(2).spec.replicas[2], follower, "a roll needs a quorum; the third joins when it is back");
    w.advance(20_000);
    assert_eq!(w.segments().len(), 2, "and no attempt after attempt meanwhile");
    w.start(4);
    w.run_until(2000, |w| w.view(1).roll_requested == 1);
    w.run_until(2000, |w| w.segments().iter().any(|s| s.spec.attempt == 2 && !s.spec.replicas.contains(&follower)));

    let mut w = World::with_topic(5, config(Placement::Balanced));
    let primary = w.segments()[0].spec.primary();
    w.failed_disks.insert(primary.0);
    w.run_until(2000, |w| w.segments()[0].recovery.is_some());
    assert_ne!(w.segments()[0].recovery.as_ref().map(|r| r.agent), Some(primary));
}

#[test]
fn an_operators_roll_is_asked_of_every_head_and_prepared_for() {
    let mut w = World::new(5);
    w.admin(Admin::CreateTopic { name: "t".into(), config: TopicConfig { ranges: 3, ..config(Placement::Balanced) } });
    w.settle();
    w.run_until(1000, |w| (1..=3).all(|r| w.head(r).is_some()));
    let all = w.admin(Admin::RollTopic { name: "t".into(), range_index: None });
    w.settle();
    assert_eq!(w.answer(all), Answer::Rolling(vec![s(1), s(2), s(3)]));
    let one = w.admin(Admin::RollTopic { name: "t".into(), range_index: Some(1) });
    w.settle();
    assert_eq!(w.answer(one), Answer::Rolling(vec![s(2)]));
    assert_eq!(w.view(2).roll_requested, 2);
    w.run_until(1000, |w| (1..=3).all(|id| w.candidate_of(id).is_some_and(|c| w.ready(c.0))));
    let none = w.admin(Admin::RollTopic { name: "t".into(), range_index: Some(7) });
    assert!(matches!(w.answer(none), Answer::Failed(e) if !e.retryable));
}

#[test]
fn sticky_and_round_robin_successors() {
    for (placement, expected) in [(Placement::Sticky, n(1)), (Placement::RoundRobin, n(2))] {
        let mut w = World::with_topic(5, config(placement));
        assert_eq!(w.segments()[0].spec.primary(), n(1));
        w.soft_mark(1, 1);
        w.run_until(1000, |w| w.ready(2));
        assert_eq!(w.view(2).spec.primary(), expected, "{placement:?}");
    }
}

#[test]
fn callers_are_answered_when_leadership_is_lost_or_the_log_is_silent() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    let admin = w.admin(Admin::DeleteTopic { name: "t".into() });
    let mark = w.soft_mark(1, 1);
    w.advance_silently(5100);
    assert!(matches!(w.answer(admin), Answer::Failed(e) if e.retryable));
    assert!(!w.done(mark));
    let roll = w.admin(Admin::RollTopic { name: "t".into(), range_index: None });
    w.lose_leadership();
    assert_eq!(w.answer(roll), Answer::NotLeader);
    let late = w.admin(Admin::DeleteTopic { name: "t".into() });
    assert_eq!(w.answer(late), Answer::NotLeader);
    assert_eq!(w.driver.next_deadline(), None);
}

#[test]
fn a_deleted_topic_is_left_alone() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.soft_mark(1, 1);
    w.settle();
    let reply = w.admin(Admin::DeleteTopic { name: "t".into() });
    w.settle();
    assert_eq!(w.answer(reply), Answer::Deleted);
    w.run_until(2000, |w| w.segments().is_empty());
    w.restart(1);
    w.advance(5000);
    assert!(w.segments().is_empty() && w.is_gone(1) && w.is_gone(2));
}

/// Field report 3: the leader dies at each step of a roll, with its proposals lost or committed after it. Whatever the
/// step, the roll ends under the next leader, nothing is orphaned, and every wait is bounded.
#[test]
fn the_leader_dies_at_each_step_of_a_roll() {
    for is_lost in [true, false] {
        for primary_dies in [false, true] {
            let mut steps = 0;
            loop {
                let mut w = World::with_topic(6, config(Placement::Balanced));
                w.autopilot = true;
                w.kill_leader_after = Some((steps, is_lost));
                w.run_until(1000, |w| w.proposals >= 1);
                if primary_dies {
                    w.stop(w.segments()[0].spec.primary().0);
                }
                let rolled = |w: &World| w.meta.chain(RangeId(1)).count() >= 4;
                w.run_until(60_000, rolled);
                w.autopilot = false;
                let killed = w.kill_leader_after.is_none();
                w.run_until(30_000, |w| w.meta.reclaiming().next().is_none());
                w.meta.assert_invariants();
                let c = w.meta.counters();
                let waiting = w
                    .segments()
                    .iter()
                    .filter(|s| matches!(s.state, SegmentState::Planned | SegmentState::Ready { .. }))
                    .count() as u64;
                assert_eq!(c.made, c.used + c.reclaimed + waiting, "step {steps}");
                if !killed {
                    // Three rolls, each at least prepared, made ready and recorded.
                    assert!(steps >= 9, "only {steps} steps: these rolls are too short to prove anything");
                    break;
                }
                steps += 1;
            }
        }
    }
}

/// Field reports: a recovery was "some seconds", and nobody knew which.
#[test]
fn the_record_of_a_recovery_says_how_long_each_step_took_and_why_it_was() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.delay_us = 3000;
    w.autopilot = true;
    let primary = w.segments()[0].spec.primary();
    w.stop(primary.0);
    w.run_until(10_000, |w| w.meta.history(RangeId(1), 0).any(|r| r.by_recovery && r.record_us > 0));
    let record = *w.meta.history(RangeId(1), 0).find(|r| r.by_recovery).expect("recovered");
    let recovery = record.recovery.expect("with its figures");
    assert_eq!(recovery.cause, Some(RecoveryCause::Silent));
    assert!((3_000_000..5_000_000).contains(&recovery.detect_us), "the leader's patience: {recovery:?}");
    // Behind the death of its node, which was proposed in the same breath; this log takes one after the other.
    assert_eq!((recovery.epoch, recovery.wait_us, recovery.appoint_us), (Epoch(1), 0, 6000), "{recovery:?}");
    assert_eq!(record.record_us, 3000);

    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.autopilot = true;
    w.advance(100);
    w.kill(w.segments()[0].spec.primary().0);
    w.run_until(10_000, |w| w.meta.history(RangeId(1), 0).any(|r| r.by_recovery));
    let record = *w.meta.history(RangeId(1), 0).find(|r| r.by_recovery).expect("recovered");
    assert_eq!(record.recovery.and_then(|r| r.cause), Some(RecoveryCause::SessionBroken));

    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.autopilot = true;
    w.restart(w.segments()[0].spec.primary().0);
    w.run_until(10_000, |w| w.meta.history(RangeId(1), 0).any(|r| r.by_recovery));
    let record = *w.meta.history(RangeId(1), 0).find(|r| r.by_recovery).expect("recovered");
    assert_eq!(record.recovery.and_then(|r| r.cause), Some(RecoveryCause::Restarted));
}

#[test]
fn a_primary_is_told_why_it_is_asked_to_roll() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    let follower = w.segments()[0].spec.replicas[2];
    w.admin(Admin::RollTopic { name: "t".into(), range_index: None });
    w.settle();
    assert_eq!(w.view(1).roll_reason, Some(RollReason::Operator));

    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.admin(Admin::DrainNode { node: follower, drain: true });
    w.run_until(2000, |w| w.view(1).roll_reason == Some(RollReason::Drain));

    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.stop(follower.0);
    w.run_until(10_000, |w| w.view(1).roll_reason == Some(RollReason::ReplicaLost));
}

#[test]
fn the_same_inputs_give_the_same_log() {
    let run = || {
        let mut w = World::with_topic(6, config(Placement::Balanced));
        w.autopilot = true;
        w.run_until(60_000, |w| w.meta.chain(RangeId(1)).count() >= 5);
        w.restart(3);
        w.advance(10_000);
        w.meta.hash()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_repeated_recovered_report_by_seal_entry_is_fine() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    w.soft_mark(1, 1);
    w.run_until(1000, |w| w.ready(2));
    w.restart(w.segments()[0].spec.primary().0);
    w.settle();
    let recovery = w.segments()[0].recovery.clone().expect("appointed");
    for _ in 0..2 {
        let report = w.recovered(1, 1, 9, 2);
        let reply = w.report(recovery.agent.0, report);
        w.settle();
        assert!(w.done(reply));
    }
    assert_eq!(w.view(1).state, SegmentState::Sealed { start: Offset(0), end: Offset(9), next: s(2) });
    assert!(w.log.iter().any(|c| matches!(c, Command::CommitRoll { by: RollBy::Recovery(Epoch(1)), .. })));
}

/// Found by the world simulation: a deposed leader that had not seen the segment made its primary drop the report.
#[test]
fn a_report_about_a_segment_that_is_not_known_here_comes_again() {
    let mut w = World::with_topic(5, config(Placement::Balanced));
    let unknown = Report::Sealed {
        segment: SegmentId(99),
        start: Offset(0),
        end: Offset(3),
        next: SegmentId(100),
        stats: Default::default(),
    };
    let reply = w.report(1, unknown);
    w.settle();
    assert!(!w.done(reply), "a later leader knows it");
}
