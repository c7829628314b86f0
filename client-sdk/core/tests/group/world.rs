//! Members that crash, pause, leave, come back and are added, over one log. At every step: a record is handed out by the
//! range's owner alone, never below what is committed, and never is more committed than was handed out.

use crate::node::{Node, RANGES};
use crate::random::Random;
use client_core::group::entry::Entry;
use client_core::group::member::{CommitFailure, Input};
use client_core::group::state::Group;
use proptest::prelude::*;
use seam_wire::{Offset, Tick};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Records of each range.
const END: u64 = 60;
const STEPS: u64 = 6_000;
const MAX_NODES: usize = 5;

struct World {
    random: Random,
    now: Tick,
    log: Vec<Vec<u8>>,
    /// Where the log begins.
    trimmed: u64,
    truth: Group,
    nodes: Vec<Node>,
    /// Appends of processes that are gone: they may land yet.
    ghosts: Vec<VecDeque<Vec<u8>>>,
    sessions: u64,
    delivered: BTreeMap<u32, BTreeSet<u64>>,
    /// All below it was handed out.
    prefix: BTreeMap<u32, u64>,
    repeats: u64,
    evictions: u64,
    fenced: u64,
    faults: bool,
}

impl World {
    fn new(seed: u64) -> World {
        World {
            random: Random(seed),
            now: Tick(1_000_000),
            log: Vec::new(),
            trimmed: 0,
            truth: Group::default(),
            nodes: Vec::new(),
            ghosts: Vec::new(),
            sessions: 0,
            delivered: BTreeMap::new(),
            prefix: BTreeMap::new(),
            repeats: 0,
            evictions: 0,
            fenced: 0,
            faults: true,
        }
    }

    fn committed(&self, range: u32) -> Option<Offset> {
        self.truth.topics().get("t").and_then(|topic| topic.shares[range as usize].committed)
    }

    fn append(&mut self, value: Vec<u8>) {
        let offset = Offset(self.log.len() as u64);
        self.truth.fold(offset, value.len(), Entry::decode(&value).ok().as_ref());
        self.truth.assert_invariants();
        self.log.push(value);
        for range in 0..RANGES {
            let handed = self.prefix.get(&range).copied().unwrap_or_default();
            let committed = self.committed(range).unwrap_or_default();
            assert!(committed.0 <= handed, "range {range}: {committed} is committed, {handed} were handed out");
        }
    }

    fn spawn(&mut self) {
        self.sessions += 1;
        let automatic = self.random.one_in(2);
        // Sessions are drawn at random: not in the order of arrival.
        let session = self.random.draw() << 16 | self.sessions;
        self.nodes.push(Node::start(session, automatic, self.trimmed, self.now));
    }

    fn take(&mut self, at: usize) {
        let Some((range, offset)) = self.nodes[at].take(self.now, END, &mut self.random) else {
            return;
        };
        let share = self.truth.topics()["t"].shares[range as usize];
        let id = self.nodes[at].member.id();
        assert_eq!(share.owner, Some(id), "range {range}, offset {offset}: handed out by another than its owner");
        assert!(Some(offset) >= share.committed, "range {range}: {offset} is handed out again: {:?}", share.committed);
        if !self.delivered.entry(range).or_default().insert(offset.0) {
            self.repeats += 1;
        }
        let prefix = self.prefix.entry(range).or_default();
        while self.delivered[&range].contains(prefix) {
            *prefix += 1;
        }
    }

    fn land(&mut self, at: usize) {
        if let Some(value) = self.nodes[at].appends.pop_front()
            && !(self.faults && self.random.one_in(100))
        {
            self.append(value);
        }
    }

    fn read(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(value) = self.log.get(node.cursor as usize) {
            let offset = Offset(node.cursor);
            node.cursor += 1;
            node.input(self.now, Input::Record { offset, value: Some(value) });
        }
        self.check_answers(at);
    }

    fn check_answers(&mut self, at: usize) {
        for answer in std::mem::take(&mut self.nodes[at].answers) {
            let fenced = match answer.result {
                Ok(()) => Vec::new(),
                Err(CommitFailure::Fenced { ranges }) => ranges,
                Err(CommitFailure::Unknown) => continue,
            };
            self.fenced += fenced.len() as u64;
            for claim in answer.claims.iter().filter(|claim| !fenced.contains(&claim.range)) {
                assert!(self.committed(claim.range) >= Some(claim.offset), "{claim:?} was confirmed");
            }
        }
    }

    fn tick(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if node.member.next_deadline().is_some_and(|due| due <= self.now) {
            node.input(self.now, Input::Tick);
        }
        self.check_answers(at);
    }

    /// The log's beginning goes, up to the last snapshot, as far as nobody reads there.
    fn trim(&mut self) {
        let base = |value: &Vec<u8>| match Entry::decode(value) {
            Ok(Entry::Snapshot { at, .. }) => Some(at.0),
            _ => None,
        };
        let snapshot = self.log.iter().rev().find_map(base).unwrap_or_default();
        let read = self.nodes.iter().map(|node| node.cursor).min().unwrap_or(u64::MAX);
        self.trimmed = self.trimmed.max(snapshot.min(read));
    }

    fn step(&mut self) {
        self.now = self.now.after_us(self.random.below(20_000));
        if self.nodes.is_empty() {
            return self.spawn();
        }
        let at = self.random.below(self.nodes.len() as u64) as usize;
        if self.faults {
            match self.random.below(400) {
                0 if self.nodes.len() < MAX_NODES => self.spawn(),
                1 => self.nodes[at].paused = true,
                2 | 3 => self.nodes.iter_mut().for_each(|node| node.paused = false),
                4 if self.random.one_in(2) => {
                    let dead = self.nodes.swap_remove(at);
                    self.evictions += dead.evictions;
                    self.ghosts.push(dead.appends);
                    return;
                }
                5 if self.random.one_in(2) => {
                    self.nodes[at].come_back();
                    self.nodes[at].input(self.now, Input::Close { handed: true });
                }
                6 => self.now = self.now.after_us(self.random.below(5_000_000)),
                7 => self.trim(),
                8 | 9 => {
                    if let Some(value) = self.ghosts.iter_mut().find_map(VecDeque::pop_front) {
                        self.append(value);
                    }
                }
                _ => {}
            }
        }
        if self.nodes[at].paused {
            // Its connections are its kernel's, and what it sent is under way.
            return self.land(at);
        }
        match self.random.below(20) {
            0..5 => self.land(at),
            5..12 => self.read(at),
            12..15 => self.tick(at),
            15..19 => self.take(at),
            _ if !self.nodes[at].automatic => {
                self.nodes[at].commit(self.now);
                self.check_answers(at);
            }
            _ => {}
        }
        if self.nodes[at].left {
            let gone = self.nodes.swap_remove(at);
            self.evictions += gone.evictions;
        }
    }

    /// No more faults: everything must be handed out and committed.
    fn heal(&mut self) {
        self.faults = false;
        self.nodes.iter_mut().for_each(|node| node.paused = false);
        let done = |world: &World| (0..RANGES).all(|range| world.committed(range) == Some(Offset(END)));
        for _ in 0..200_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("it never ends: {:#?}", self.truth);
    }
}

/// What must have happened over all seeds, or the rules above were kept by doing nothing.
fn run(seed: u64) -> World {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    world.heal();
    let everything: BTreeSet<u64> = (0..END).collect();
    for range in 0..RANGES {
        assert_eq!(world.delivered[&range], everything, "range {range}");
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn every_record_is_handed_out_and_only_what_is_not_committed_again(seed in any::<u64>()) {
        run(seed);
    }
}

#[test]
fn the_world_is_not_idle() {
    let worlds: Vec<World> = (0..20).map(run).collect();
    let sum = |of: fn(&World) -> u64| worlds.iter().map(of).sum::<u64>();
    assert!(sum(|world| world.repeats) > 0);
    assert!(sum(|world| world.evictions + world.nodes.iter().map(|node| node.evictions).sum::<u64>()) > 0);
    assert!(sum(|world| world.fenced) > 0);
    assert!(sum(|world| world.trimmed) > 0);
}
