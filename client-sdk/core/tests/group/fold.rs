//! The fold under whatever is written: every entry may be sent by anybody, twice, late, with any generation.

use client_core::group::entry::{Act, Entry, MemberId, Place, Subscription};
use client_core::group::replay::Replay;
use client_core::group::state::{Group, Outcome, Share};
use proptest::prelude::*;
use seam_wire::{Offset, RangeId};

const RANGES: u32 = 5;

#[derive(Clone, Debug)]
enum Write {
    Join(u64, bool),
    Beat(u64),
    Leave(u64),
    /// Of the member's last entry, or of one before it.
    Evict(u64, bool),
    /// So many generations old.
    Commit(u64, u64, u32, u64),
    Release(u64, u64, u32, Option<u64>),
    Reset(bool, u32, u64),
    Snapshot,
    Foreign,
}

fn write() -> impl Strategy<Value = Write> {
    let member = || 0..6u64;
    prop_oneof![
        4 => (member(), any::<bool>()).prop_map(|(m, both)| Write::Join(m, both)),
        1 => member().prop_map(Write::Beat),
        2 => member().prop_map(Write::Leave),
        2 => (member(), any::<bool>()).prop_map(|(m, true_)| Write::Evict(m, true_)),
        6 => (member(), 0..3u64, 0..RANGES + 1, 0..100u64).prop_map(|(m, g, r, o)| Write::Commit(m, g, r, o)),
        6 => (member(), 0..3u64, 0..RANGES, prop::option::of(0..100u64)).prop_map(|(m, g, r, o)| Write::Release(m, g, r, o)),
        1 => (any::<bool>(), 0..RANGES, 0..100u64).prop_map(|(force, r, o)| Write::Reset(force, r, o)),
        1 => Just(Write::Snapshot),
        1 => Just(Write::Foreign),
    ]
}

fn id(session: u64) -> MemberId {
    MemberId { session, life: 0 }
}

fn subscription(topic: &str) -> Subscription {
    Subscription { topic: topic.to_owned(), first_range: RangeId(1), ranges: RANGES }
}

fn entry(write: &Write, group: &Group, seq: u64) -> Option<Entry> {
    let generation = |old: u64| group.generation().saturating_sub(old);
    let topic = || "t".to_owned();
    let act = |member: u64, act: Act| Some(Entry::Member { member: id(member), seq, act });
    match *write {
        Write::Join(member, both) => {
            let topics = if both { vec![subscription("t"), subscription("u")] } else { vec![subscription("t")] };
            act(member, Act::Join { label: "m".to_owned(), session_timeout_ms: 1_000, topics })
        }
        Write::Beat(member) => act(member, Act::Beat),
        Write::Leave(member) => act(member, Act::Leave),
        Write::Evict(member, last) => {
            let last_seen = group.members().get(&id(member)).map_or(Offset(0), |it| it.last_seen);
            Some(Entry::Evict { member: id(member), last_seen: if last { last_seen } else { Offset(0) } })
        }
        Write::Commit(member, old, range, offset) => {
            let places = vec![Place { topic: topic(), range, offset: Offset(offset) }];
            act(member, Act::Commit { generation: generation(old), places })
        }
        Write::Release(member, old, range, offset) => {
            let offset = offset.map(Offset);
            act(member, Act::Release { generation: generation(old), topic: topic(), range, offset })
        }
        Write::Reset(force, range, offset) => {
            let offsets = vec![(range, Offset(offset))];
            Some(Entry::Reset { ticket: seq, force, topic: subscription("t"), offsets })
        }
        Write::Snapshot => Some(Entry::Snapshot { at: group.next(), group: group.clone() }),
        Write::Foreign => None,
    }
}

fn shares(group: &Group) -> Vec<Share> {
    group.topics().get("t").map(|topic| topic.shares.clone()).unwrap_or_default()
}

/// What one entry may change of one range.
fn check_step(before: &Group, after: &Group, entry: Option<&Entry>, outcome: &Outcome) {
    let author = match entry {
        Some(Entry::Member { member, act, .. }) => Some((*member, act)),
        _ => None,
    };
    let reset = matches!(entry, Some(Entry::Reset { .. })) && *outcome == Outcome::Counted;
    for (was, is) in shares(before).iter().zip(shares(after)) {
        if was.committed != is.committed && !reset {
            let (member, act) = author.expect("only members and resets commit");
            let generation = match act {
                Act::Commit { generation, .. } | Act::Release { generation, .. } => *generation,
                other => panic!("{other:?} commits"),
            };
            assert!(was.owner == Some(member) && generation >= was.term, "G1: {was:?} to {is:?} by {entry:?}");
            assert!(was.committed < is.committed, "G4: {was:?} to {is:?}");
        }
        if let Some(owner) = was.owner.filter(|owner| was.owner != is.owner && after.members().contains_key(owner)) {
            let released = matches!(author, Some((member, Act::Release { .. })) if member == owner);
            assert!(released && was.heir == is.owner, "G3: {was:?} to {is:?} by {entry:?}");
        }
        assert!(is.term >= was.term, "a term goes back");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn only_owners_commit_and_only_owners_hand_over(writes in prop::collection::vec(write(), 1..150)) {
        let mut group = Group::default();
        for (n, write) in (0u64..).zip(&writes) {
            let entry = entry(write, &group, n);
            let before = group.clone();
            let outcome = group.fold(Offset(n), 10, entry.as_ref());
            group.assert_invariants();
            check_step(&before, &group, entry.as_ref(), &outcome);
        }
    }

    #[test]
    fn all_members_agree_wherever_in_the_log_they_began(
        writes in prop::collection::vec(write(), 1..150),
        trims in prop::collection::vec(0..150usize, 4),
    ) {
        let mut group = Group::default();
        let mut log: Vec<Vec<u8>> = Vec::new();
        let mut late: Option<Vec<u8>> = None;
        for (n, write) in (0u64..).zip(&writes) {
            let entry = entry(write, &group, n);
            let mut value = entry.as_ref().map_or_else(|| b"\x01\xffnonsense".to_vec(), Entry::encode);
            // A snapshot lands later than it was taken.
            if let Write::Snapshot = write {
                late = Some(value.clone());
            } else if let Some(snapshot) = late.take_if(|_| n % 3 == 0) {
                value = snapshot;
            }
            group.fold(Offset(n), value.len(), Entry::decode(&value).ok().as_ref());
            log.push(value);
        }
        for trim in trims.into_iter().filter(|trim| *trim < log.len()) {
            let mut replay = Replay::new();
            for (n, value) in log.iter().enumerate().skip(trim) {
                replay.take(Offset(n as u64), Some(value)).unwrap();
            }
            let usable = |(n, value): (usize, &Vec<u8>)| match Entry::decode(value) {
                Ok(Entry::Snapshot { at, .. }) => n >= trim && at.0 >= trim as u64,
                _ => false,
            };
            if trim == 0 || log.iter().enumerate().any(usable) {
                prop_assert_eq!(replay.group(), Some(&group));
            } else {
                prop_assert!(replay.at_end().is_err());
            }
        }
    }
}

#[test]
fn whoever_showed_life_is_not_evicted_and_an_evicted_member_commits_nothing() {
    let mut group = Group::default();
    let join = entry(&Write::Join(0, false), &group, 0);
    group.fold(Offset(0), 1, join.as_ref());
    let evict = Entry::Evict { member: id(0), last_seen: Offset(0) };
    group.fold(Offset(1), 1, entry(&Write::Beat(0), &group, 1).as_ref());
    assert_eq!(group.fold(Offset(2), 1, Some(&evict)), Outcome::Stale);
    let evict = Entry::Evict { member: id(0), last_seen: Offset(1) };
    assert_eq!(group.fold(Offset(3), 1, Some(&evict)), Outcome::Counted);
    let late = entry(&Write::Commit(0, 0, 0, 7), &group, 4);
    assert_eq!(group.fold(Offset(4), 1, late.as_ref()), Outcome::NotAMember);
    assert_eq!(shares(&group)[0].committed, None);
}

#[test]
fn a_release_of_a_hand_over_that_was_called_off_moves_nothing() {
    let mut group = Group::default();
    for (n, write) in (0..).zip([Write::Join(0, false), Write::Join(1, false)]) {
        let entry = entry(&write, &group, n);
        group.fold(Offset(n), 1, entry.as_ref());
    }
    let moving = (0u32..).zip(shares(&group)).find(|(_, share)| share.heir.is_some()).unwrap().0;
    let late = entry(&Write::Release(0, 0, moving, Some(9)), &group, 9);
    for (n, write) in (2..).zip([Write::Leave(1), Write::Join(2, false)]) {
        let entry = entry(&write, &group, n);
        group.fold(Offset(n), 1, entry.as_ref());
    }
    assert_eq!(shares(&group)[moving as usize].heir, Some(id(2)));
    assert_eq!(group.fold(Offset(4), 1, late.as_ref()), Outcome::Stale);
    assert_eq!(shares(&group)[moving as usize].owner, Some(id(0)));
}

#[test]
fn a_reset_waits_for_the_group_to_be_idle_unless_forced() {
    let mut group = Group::default();
    group.fold(Offset(0), 1, entry(&Write::Join(0, false), &group, 0).as_ref());
    assert_eq!(group.fold(Offset(1), 1, entry(&Write::Reset(false, 0, 5), &group, 1).as_ref()), Outcome::InUse(1));
    let under_way = entry(&Write::Commit(0, 0, 0, 90), &group, 2);
    assert_eq!(group.fold(Offset(2), 1, entry(&Write::Reset(true, 0, 5), &group, 2).as_ref()), Outcome::Counted);
    assert!(matches!(group.fold(Offset(3), 1, under_way.as_ref()), Outcome::Fenced(_)), "it was sent before the reset");
    assert_eq!(shares(&group)[0].committed, Some(Offset(5)));
}

#[test]
fn a_topic_made_anew_begins_with_no_offsets() {
    let mut group = Group::default();
    group.fold(Offset(0), 1, entry(&Write::Join(0, false), &group, 0).as_ref());
    group.fold(Offset(1), 1, entry(&Write::Commit(0, 0, 0, 7), &group, 1).as_ref());
    let found = Subscription { topic: "t".to_owned(), first_range: RangeId(50), ranges: 2 };
    let join = Act::Join { label: "m".to_owned(), session_timeout_ms: 1_000, topics: vec![found] };
    group.fold(Offset(2), 1, Some(&Entry::Member { member: id(1), seq: 1, act: join }));
    let shares = shares(&group);
    assert_eq!(shares.len(), 2);
    assert!(shares.iter().all(|share| share.committed.is_none()));
}
