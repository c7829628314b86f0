//! A process with one member: its appends under way, its place in the log, and an application that takes, comes back and
//! commits.

use crate::random::Random;
use client_core::group::entry::Subscription;
use client_core::group::member::{Claim, CommitFailure, Effect, Input, Member, MemberSettings, Position, Positions};
use seam_wire::{Offset, RangeId, Tick};
use std::collections::{BTreeMap, VecDeque};

pub const RANGES: u32 = 6;
pub const TIMEOUT_US: u64 = 3_000_000;

pub fn settings(automatic: bool) -> MemberSettings {
    MemberSettings {
        subscription: Subscription { topic: "t".to_owned(), first_range: RangeId(1), ranges: RANGES },
        label: "member".to_owned(),
        session_timeout_us: TIMEOUT_US,
        auto_commit_us: automatic.then_some(500_000),
        release_patience_us: 2_000_000,
        commit_deadline_us: 10_000_000,
        snapshot_records: 40,
        snapshot_bytes: 1 << 20,
    }
}

/// A commit that was answered.
pub struct Answer {
    pub claims: Vec<Claim>,
    pub result: Result<(), CommitFailure>,
}

pub struct Node {
    pub member: Member,
    pub automatic: bool,
    pub cursor: u64,
    pub paused: bool,
    pub left: bool,
    /// Appends on their way, in order.
    pub appends: VecDeque<Vec<u8>>,
    /// The term of each range that is read, and whether it is held back.
    pub reading: BTreeMap<u32, (u64, bool)>,
    pub positions: Positions,
    last: Option<(u32, u64)>,
    /// Handed and not committed by the application.
    dirty: BTreeMap<u32, (u64, Offset)>,
    tickets: BTreeMap<u64, Vec<Claim>>,
    next_ticket: u64,
    pub answers: Vec<Answer>,
    pub evictions: u64,
    out: Vec<Effect>,
}

impl Node {
    pub fn start(session: u64, automatic: bool, cursor: u64, now: Tick) -> Node {
        let mut node = Node {
            member: Member::new(session, settings(automatic)),
            automatic,
            cursor,
            paused: false,
            left: false,
            appends: VecDeque::new(),
            reading: BTreeMap::new(),
            positions: BTreeMap::new(),
            last: None,
            dirty: BTreeMap::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            answers: Vec::new(),
            evictions: 0,
            out: Vec::new(),
        };
        node.input(now, Input::Start);
        node
    }

    pub fn input(&mut self, now: Tick, input: Input<'_>) {
        let mut out = std::mem::take(&mut self.out);
        self.member.handle(now, input, &self.positions, &mut out);
        for effect in out.drain(..) {
            match effect {
                Effect::Append(value) => self.appends.push_back(value),
                Effect::Begin { range, term, from } => {
                    let start = from.unwrap_or_default();
                    self.reading.insert(range, (term, false));
                    self.positions.insert(range, Position { term, start, handed: start, done: start });
                }
                Effect::Hold { range } => self.reading.get_mut(&range).expect("begun").1 = true,
                Effect::Resume { range } => self.reading.get_mut(&range).expect("begun").1 = false,
                Effect::End { range } => {
                    self.reading.remove(&range).expect("begun");
                    self.positions.remove(&range);
                }
                Effect::Answer { ticket, result } => {
                    let claims = self.tickets.remove(&ticket).expect("one answer to each commit");
                    if result == Err(CommitFailure::Unknown) {
                        for Claim { range, term, offset } in &claims {
                            self.dirty.entry(*range).or_insert((*term, *offset));
                        }
                    }
                    self.answers.push(Answer { claims, result });
                }
                Effect::Evicted => self.evictions += 1,
                Effect::Left { .. } => self.left = true,
                Effect::Failed(failure) => panic!("{failure}"),
            }
        }
        self.out = out;
    }

    /// The application asks for its next record: it is done with the last one.
    pub fn come_back(&mut self) {
        if let Some((range, term)) = self.last.take()
            && let Some(position) = self.positions.get_mut(&range).filter(|position| position.term == term)
        {
            position.done = position.handed;
        }
    }

    /// The record it is handed, if there is one it may have.
    pub fn take(&mut self, now: Tick, end: u64, random: &mut Random) -> Option<(u32, Offset)> {
        self.come_back();
        if self.member.lease_until().is_none_or(|until| now >= until) {
            return None;
        }
        let open = |range: &u32| !self.reading[range].1 && self.positions[range].handed.0 < end;
        let ranges: Vec<u32> = self.reading.keys().copied().filter(|range| open(range)).collect();
        let range = *random.pick(&ranges)?;
        let position = self.positions.get_mut(&range).expect("it is read");
        let offset = position.handed;
        position.handed = offset.plus(1);
        self.last = Some((range, position.term));
        self.dirty.insert(range, (position.term, position.handed));
        Some((range, offset))
    }

    pub fn commit(&mut self, now: Tick) {
        let claims: Vec<Claim> = std::mem::take(&mut self.dirty)
            .into_iter()
            .map(|(range, (term, offset))| Claim { range, term, offset })
            .collect();
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.tickets.insert(ticket, claims.clone());
        self.input(now, Input::Commit { ticket, claims });
    }
}
