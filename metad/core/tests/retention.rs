//! Retention as the leader's driver sees to it: by bytes and by age, at once when the settings change, over leaders, and only
//! what the settings say.

mod common;
mod world;

use common::*;
use metad_core::{Admin, Answer, Command, TopicPatch};
use seam_wire::meta::SegmentState;
use seam_wire::topic::TopicConfig;
use seam_wire::{Offset, RangeId};
use world::{SEGMENT_BYTES, World};

const RANGE: RangeId = RangeId(1);

fn sealed(w: &World) -> usize {
    w.meta.chain(RANGE).count() - 1
}

fn start(w: &World) -> Offset {
    w.meta.range(RANGE).expect("it exists").start
}

/// The autopilot rolls until so many segments were ever sealed, then rests.
fn roll(w: &mut World, rolls: usize) {
    let done = w.meta.history(RANGE, 0).count() + rolls;
    w.autopilot = true;
    w.run_until(120_000, |w| w.meta.history(RANGE, 0).count() >= done);
    w.autopilot = false;
    w.settle();
}

fn alter(w: &mut World, patch: TopicPatch) {
    let reply = w.admin(Admin::AlterTopic { name: "t".into(), patch });
    w.settle();
    assert!(matches!(w.answer(reply), Answer::Topic(_)));
}

fn trims(w: &World) -> usize {
    w.log.iter().filter(|c| matches!(c, Command::Trim { .. })).count()
}

#[test]
fn without_limits_everything_stays() {
    let mut w = World::with_topic(5, TopicConfig::default());
    roll(&mut w, 8);
    w.advance(60_000);
    assert_eq!((sealed(&w), start(&w), trims(&w)), (8, Offset(0), 0));
}

#[test]
fn by_bytes_the_newest_segments_that_make_up_the_limit_stay() {
    let config = TopicConfig { retention_bytes: 3 * SEGMENT_BYTES, ..TopicConfig::default() };
    let mut w = World::with_topic(5, config);
    roll(&mut w, 8);
    w.run_until(5000, |w| sealed(w) == 3 && w.meta.reclaiming().next().is_none());
    assert_eq!(start(&w), Offset(15), "each holds three records");
    assert_eq!(w.meta.range(RANGE).expect("it exists").sealed_bytes, 3 * SEGMENT_BYTES);
    assert!(w.is_gone(1), "every replica confirmed");
    // A limit between two segments keeps at least so much.
    alter(&mut w, TopicPatch { retention_bytes: Some(SEGMENT_BYTES + 1), ..TopicPatch::default() });
    assert_eq!(sealed(&w), 2, "and an alteration holds at once");
    alter(&mut w, TopicPatch { retention_bytes: Some(1), ..TopicPatch::default() });
    assert_eq!(sealed(&w), 1);
    w.advance(60_000);
    assert_eq!(sealed(&w), 1, "the newest that has records stays, and the open one");
}

#[test]
fn by_age_each_segment_goes_when_its_time_has_come() {
    let mut w = World::with_topic(5, TopicConfig { retention_ms: 60_000, ..TopicConfig::default() });
    w.driver.set_wall_clock(w.now, 1_700_000_000_000);
    roll(&mut w, 2);
    w.advance(30_000);
    roll(&mut w, 2);
    assert_eq!(sealed(&w), 4);
    w.advance(29_000);
    assert_eq!(sealed(&w), 4, "the first is not a minute old");
    w.run_until(5000, |w| sealed(w) == 2);
    w.advance(20_000);
    assert_eq!(sealed(&w), 2);
    w.run_until(15_000, |w| sealed(w) == 1);
    w.advance(120_000);
    assert_eq!(sealed(&w), 1, "the newest that has records stays, and the open one");
    let kept = w.meta.kept(w.meta.chain(RANGE).next().expect("one")).expect("it is there");
    assert!(kept.sealed_at_ms > 1_700_000_000_000 && kept.bytes == SEGMENT_BYTES, "{kept:?}");
}

/// Found in review: a recovery's report carried no size, and its segment would have counted for nothing.
#[test]
fn a_recovered_segment_counts_its_bytes() {
    let mut w = World::with_topic(5, TopicConfig::default());
    w.autopilot = true;
    w.stop(w.segments()[0].spec.primary().0);
    w.run_until(60_000, |w| w.meta.history(RANGE, 0).any(|r| r.by_recovery));
    w.autopilot = false;
    assert_eq!(w.meta.kept(s(1)).expect("sealed").bytes, SEGMENT_BYTES);
}

#[test]
fn a_new_leader_goes_on_and_a_node_that_is_away_is_not_waited_for_once_it_is_dead() {
    let config = TopicConfig { retention_bytes: 2 * SEGMENT_BYTES, ..TopicConfig::default() };
    let mut w = World::with_topic(5, config);
    roll(&mut w, 1);
    let away = w.view(1).spec.replicas[2].0;
    w.stop(away);
    w.new_leader();
    // The node is silent, not dead: what it holds stays on the list.
    w.delay_us = 0;
    roll(&mut w, 6);
    w.run_until(10_000, |w| w.node_state(away) == seam_wire::meta::NodeState::Dead);
    w.run_until(10_000, |w| w.meta.reclaiming().next().is_none() && sealed(w) == 2);
    assert!(w.is_gone(1));
    w.new_leader();
    roll(&mut w, 3);
    w.run_until(10_000, |w| sealed(w) == 2);
    w.meta.assert_invariants();
}

#[test]
fn reports_about_what_is_gone_are_answered_once_and_for_all() {
    let config = TopicConfig { retention_bytes: SEGMENT_BYTES, ..TopicConfig::default() };
    let mut w = World::with_topic(5, config);
    let primary = w.view(1).spec.primary().0;
    roll(&mut w, 4);
    w.run_until(10_000, |w| w.is_gone(1));
    let late = w.report(primary, seam_wire::report::Report::Stalled { segment: s(1) });
    let sealed = seam_wire::report::Report::Sealed {
        segment: s(1),
        start: Offset(0),
        end: Offset(3),
        next: s(2),
        stats: Default::default(),
    };
    let again = w.report(primary, sealed);
    w.settle();
    assert!(w.done(late) && w.done(again), "a report that is repeated for ever would say so for ever");
    assert!(!w.segments().iter().any(|v| v.state == SegmentState::Reclaimed));
}
