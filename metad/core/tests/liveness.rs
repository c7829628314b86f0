//! Whom the leader takes for dead, and when it has no right to.

mod common;
mod world;

use seam_wire::meta::NodeState;
use seam_wire::topic::TopicConfig;
use world::World;

#[test]
fn a_broken_session_is_death_after_the_grace_and_nothing_if_another_is_opened_within_it() {
    let mut w = World::with_topic(5, TopicConfig::default());
    w.advance(1000);
    let primary = w.segments()[0].spec.primary().0;
    w.break_session(primary);
    w.advance(100);
    assert!(w.heartbeat(primary), "back within the grace");
    w.advance(1000);
    assert!(w.segments()[0].recovery.is_none() && w.node_state(primary) == NodeState::Live);

    w.kill(primary);
    w.advance(100);
    assert!(w.segments()[0].recovery.is_none(), "suspicion is not yet death");
    w.advance(100);
    assert!(w.segments()[0].recovery.is_some() && w.node_state(primary) == NodeState::Dead);
}

#[test]
fn a_session_that_broke_while_we_were_paused_or_before_we_led_is_no_sign() {
    let mut w = World::with_topic(5, TopicConfig::default());
    w.advance(1000);
    w.pause_leader(60_000);
    // All of them gave this leader up and come again, each when it will.
    (1..=5).for_each(|node| w.break_session(node));
    w.advance(400);
    assert!((1..=5).all(|id| w.node_state(id) == NodeState::Live), "we were paused, not they");
    w.new_leader();
    (1..=5).for_each(|node| w.break_session(node));
    w.advance(400);
    assert!((1..=5).all(|id| w.node_state(id) == NodeState::Live), "sessions with another leader end with it");
    w.advance(1000);
    w.kill(3);
    w.advance(400);
    assert_eq!(w.node_state(3), NodeState::Dead, "and then it counts again");
}

#[test]
fn a_leader_that_hears_nobody_takes_nobody_for_dead() {
    let mut w = World::with_topic(5, TopicConfig::default());
    w.new_leader();
    let lives = std::mem::take(&mut w.lives);
    w.advance(20_000);
    assert!((1..=5).all(|id| w.node_state(id) == NodeState::Live), "cut off from all of them");
    w.lives = lives;
    w.stop(4);
    w.advance(2500);
    assert!((1..=5).all(|id| w.node_state(id) == NodeState::Live), "it hears again: a full period from here");
    w.run_until(2000, |w| w.node_state(4) == NodeState::Dead);
    assert!([1, 2, 3, 5].into_iter().all(|id| w.node_state(id) == NodeState::Live));
}

#[test]
fn silence_is_death_only_after_a_full_period_of_our_own_watch() {
    let mut w = World::with_topic(5, TopicConfig::default());
    w.stop(4);
    w.advance(2900);
    assert_eq!(w.node_state(4), NodeState::Live);
    w.run_until(1000, |w| w.node_state(4) == NodeState::Dead);

    w.start(4);
    w.run_until(1000, |w| w.node_state(4) == NodeState::Live);
    w.pause_leader(60_000);
    w.settle();
    w.advance(2000);
    assert!((1..=5).all(|id| w.node_state(id) == NodeState::Live), "we were paused, not they");
    w.stop(4);
    w.run_until(4000, |w| w.node_state(4) == NodeState::Dead);
}

#[test]
fn a_new_leader_starts_to_count_anew() {
    let mut w = World::with_topic(5, TopicConfig::default());
    w.stop(4);
    w.advance(2500);
    w.new_leader();
    w.advance(2500);
    assert_eq!(w.node_state(4), NodeState::Live, "its silence before us proves nothing to us");
    w.run_until(1500, |w| w.node_state(4) == NodeState::Dead);
}

#[test]
fn a_node_taken_for_dead_is_told_to_register_again() {
    let mut w = World::with_topic(5, TopicConfig::default());
    w.stop(4);
    w.run_until(5000, |w| w.node_state(4) == NodeState::Dead);
    assert!(!w.heartbeat(4));
    w.start(4);
    w.run_until(1000, |w| w.node_state(4) == NodeState::Live);
    assert!(w.heartbeat(4));
    w.lives.insert(4, 0);
    assert!(!w.heartbeat(4), "an older life");
}
