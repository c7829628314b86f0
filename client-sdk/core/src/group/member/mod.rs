//! One member of a group: a machine between the group's log, which it writes and reads back, and the application's positions.
//!
//! It believes nothing it wrote before it has read it: a join, a commit, a release is what the fold says it is. What it may
//! hand out is bounded by its lease: from the sending of its last entry that it read back, for less than its session
//! timeout. Nobody can have evicted it before, so no two members hand out one range at one time.

mod duties;
mod io;
mod settle;

pub use io::{Claim, CommitFailure, Effect, Input, MemberFailure, MemberSettings, Position, Positions};

use super::entry::{Act, Entry, MemberId, Place};
use super::replay::{Folded, Replay};
use super::state::{Group, Outcome};
use super::watch::Watch;
use seam_wire::{Offset, Tick};
use std::collections::{BTreeMap, VecDeque};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    New,
    /// `Join` is written and not read back.
    Joining,
    Joined,
    /// `Leave` is written and not read back.
    Leaving,
    Over,
}

/// A range that is ours.
#[derive(Clone, Copy, Debug)]
struct Held {
    term: u64,
    /// Since when nothing more of it is handed out, because it is to go to another.
    holding: Option<Holding>,
    pinned_at: Option<Tick>,
}

#[derive(Clone, Copy, Debug)]
struct Holding {
    since: Tick,
    /// The call that said so. Positions are final from the next one on.
    call: u64,
    released_at: Option<Tick>,
}

/// An entry of ours that we have not read back.
#[derive(Clone, Copy, Debug)]
struct Sent {
    member: MemberId,
    seq: u64,
    at: Tick,
}

#[derive(Clone, Debug)]
struct Pending {
    ticket: u64,
    member: MemberId,
    seq: u64,
    lost: Vec<u32>,
    deadline: Tick,
}

/// A member.
#[derive(Clone, Debug)]
pub struct Member {
    settings: MemberSettings,
    id: MemberId,
    seq: u64,
    phase: Phase,
    replay: Replay,
    watch: Watch,
    held: BTreeMap<u32, Held>,
    sent: VecDeque<Sent>,
    last_sent: Tick,
    /// When the newest entry of ours that we read back was sent.
    proof: Option<Tick>,
    commits: Vec<Pending>,
    auto_due: Tick,
    auto_seq: Option<u64>,
    /// Sequence of the last commit before leaving, and what of it did not count.
    last_commit: Option<u64>,
    fenced: Vec<u32>,
    snapshot_at: Option<Offset>,
    calls: u64,
    last_call: Option<Tick>,
}

impl Member {
    /// `session` is drawn at random: no other member of the group may have it, ever.
    pub fn new(session: u64, settings: MemberSettings) -> Self {
        Member {
            settings,
            id: MemberId { session, life: 0 },
            seq: 0,
            phase: Phase::New,
            replay: Replay::new(),
            watch: Watch::default(),
            held: BTreeMap::new(),
            sent: VecDeque::new(),
            last_sent: Tick(0),
            proof: None,
            commits: Vec::new(),
            auto_due: Tick(0),
            auto_seq: None,
            last_commit: None,
            fenced: Vec::new(),
            snapshot_at: None,
            calls: 0,
            last_call: None,
        }
    }

    pub fn id(&self) -> MemberId {
        self.id
    }

    /// The group as far as its log was read.
    pub fn group(&self) -> Option<&Group> {
        self.replay.group()
    }

    /// Whether it is a member as far as it has read.
    pub fn joined(&self) -> bool {
        self.phase == Phase::Joined
    }

    /// Until when records may be handed out.
    pub fn lease_until(&self) -> Option<Tick> {
        let timeout_us = self.settings.session_timeout_us;
        self.proof.filter(|_| self.joined()).map(|proof| proof.after_us(timeout_us - timeout_us / 8))
    }

    /// Takes one input; effects are appended to `out`, to be carried out in order before the next input.
    pub fn handle(&mut self, now: Tick, input: Input<'_>, positions: &Positions, out: &mut Vec<Effect>) {
        if self.phase == Phase::Over {
            return;
        }
        self.calls += 1;
        self.forgive(now);
        match input {
            Input::Start => self.join(now, out),
            Input::Record { offset, value } => self.on_record(now, offset, value, out),
            Input::Commit { ticket, claims } => self.on_commit(now, ticket, &claims, out),
            Input::Close { handed } => self.close(now, handed, positions, out),
            Input::Tick => {}
        }
        self.settle(now, out);
        self.duties(now, positions, out);
    }

    /// Everybody gets a full period again when the silence may be our own.
    fn forgive(&mut self, now: Tick) {
        let timeout_us = self.settings.session_timeout_us;
        let paused = self.last_call.is_some_and(|last| now.since(last) > timeout_us / 2);
        let at_tail = self.proof.is_some_and(|proof| now.since(proof) <= timeout_us / 4 * 3);
        if paused || !at_tail {
            self.watch.grace(now);
        }
        self.last_call = Some(now);
    }

    /// As [`Replay::skip`]. False: this member is over; another begins anew.
    #[must_use]
    pub fn skip(&mut self, from: Offset, next: Offset) -> bool {
        self.replay.skip(from, next)
    }

    fn append(&mut self, now: Tick, act: Act, out: &mut Vec<Effect>) -> u64 {
        self.seq += 1;
        self.last_sent = now;
        self.sent.push_back(Sent { member: self.id, seq: self.seq, at: now });
        out.push(Effect::Append(Entry::Member { member: self.id, seq: self.seq, act }.encode()));
        self.seq
    }

    fn join(&mut self, now: Tick, out: &mut Vec<Effect>) {
        self.phase = Phase::Joining;
        let MemberSettings { label, subscription, session_timeout_us, .. } = &self.settings;
        let (label, topics) = (label.clone(), vec![subscription.clone()]);
        let act = Act::Join { label, session_timeout_ms: session_timeout_us.div_ceil(1_000), topics };
        self.append(now, act, out);
    }

    fn on_record(&mut self, now: Tick, offset: Offset, value: Option<&[u8]>, out: &mut Vec<Effect>) {
        let mut folded = self.replay.take(offset, value);
        if self.replay.group().is_none() && self.is_own_join(value) {
            // What we wrote ourselves is at the end: no base will come.
            folded = self.replay.at_end().map(|_| Vec::new());
        }
        match folded {
            Ok(folded) => folded.iter().for_each(|it| self.on_folded(now, it, out)),
            Err(error) => return self.fail(error.into(), out),
        }
        if let Some(group) = self.replay.group() {
            self.watch.look(now, group);
        }
    }

    fn is_own_join(&self, value: Option<&[u8]>) -> bool {
        let entry = Entry::decode(value.unwrap_or_default());
        matches!(entry, Ok(Entry::Member { member, act: Act::Join { .. }, .. }) if member == self.id)
    }

    fn on_folded(&mut self, now: Tick, folded: &Folded, out: &mut Vec<Effect>) {
        let Some(Entry::Member { member, seq, act }) = &folded.entry else {
            return;
        };
        if member.session != self.id.session {
            return;
        }
        self.read_back(now, *member, *seq);
        match (act, &folded.outcome) {
            (Act::Join { .. }, Outcome::Full(what)) => self.fail(MemberFailure::Full(what), out),
            (Act::Join { .. }, _) if *member == self.id && self.phase == Phase::Joining => self.phase = Phase::Joined,
            (Act::Leave, _) if *member == self.id && self.phase == Phase::Leaving => {
                self.phase = Phase::Over;
                self.held.clear();
                out.push(Effect::Left { fenced: std::mem::take(&mut self.fenced) });
            }
            (Act::Commit { places, .. }, outcome) => self.on_commit_folded(*member, *seq, places, outcome, out),
            (Act::Join { .. } | Act::Beat | Act::Leave | Act::Release { .. }, _) => {}
        }
    }

    /// What of ours was written before this one was read, or is lost.
    fn read_back(&mut self, now: Tick, member: MemberId, seq: u64) {
        while let Some(first) = self.sent.front().copied().filter(|sent| sent.seq <= seq) {
            self.sent.pop_front();
            if (first.member, first.seq) == (member, seq) {
                if member == self.id {
                    self.proof = self.proof.max(Some(first.at));
                }
                if now.since(first.at) > self.settings.session_timeout_us / 3 {
                    // The log stood still, and others' entries with it.
                    self.watch.grace(now);
                }
            }
        }
    }

    fn on_commit(&mut self, now: Tick, ticket: u64, claims: &[Claim], out: &mut Vec<Effect>) {
        let ours = |claim: &&Claim| self.held.get(&claim.range).is_some_and(|held| held.term == claim.term);
        let news = || claims.iter().filter(|claim| self.committed(claim.range) < Some(claim.offset));
        let lost: Vec<u32> = news().filter(|claim| !ours(claim)).map(|claim| claim.range).collect();
        let news = news().filter(ours);
        let places: Vec<Place> = news.map(|claim| self.place(claim.range, claim.offset)).collect();
        if places.is_empty() {
            return out.push(Effect::Answer { ticket, result: verdict(lost) });
        }
        let deadline = now.after_us(self.settings.commit_deadline_us);
        let seq = self.append(now, Act::Commit { generation: self.generation(), places }, out);
        self.commits.push(Pending { ticket, member: self.id, seq, lost, deadline });
    }

    fn on_commit_folded(
        &mut self,
        member: MemberId,
        seq: u64,
        places: &[Place],
        outcome: &Outcome,
        out: &mut Vec<Effect>,
    ) {
        let fenced: Vec<u32> = match outcome {
            Outcome::Counted => Vec::new(),
            Outcome::Fenced(places) => places.iter().map(|place| place.range).collect(),
            Outcome::NotAMember | Outcome::Stale | Outcome::InUse(_) | Outcome::Full(_) => {
                places.iter().map(|place| place.range).collect()
            }
        };
        if self.last_commit == Some(seq) {
            self.fenced = fenced;
        } else if let Some(at) = self.commits.iter().position(|it| (it.member, it.seq) == (member, seq)) {
            let Pending { ticket, lost, .. } = self.commits.remove(at);
            out.push(Effect::Answer { ticket, result: verdict([lost, fenced].concat()) });
        }
    }

    fn close(&mut self, now: Tick, handed: bool, positions: &Positions, out: &mut Vec<Effect>) {
        if self.phase == Phase::Leaving {
            return;
        }
        if self.settings.auto_commit_us.is_some() {
            let reached = |position: &Position| if handed { position.handed } else { position.done };
            let places = self.news(positions, reached);
            if !places.is_empty() {
                let act = Act::Commit { generation: self.generation(), places };
                self.last_commit = Some(self.append(now, act, out));
            }
        }
        self.append(now, Act::Leave, out);
        self.phase = Phase::Leaving;
    }

    fn fail(&mut self, failure: MemberFailure, out: &mut Vec<Effect>) {
        self.phase = Phase::Over;
        out.push(Effect::Failed(failure));
    }

    fn generation(&self) -> u64 {
        self.replay.group().map_or(0, Group::generation)
    }

    fn place(&self, range: u32, offset: Offset) -> Place {
        Place { topic: self.settings.subscription.topic.clone(), range, offset }
    }

    fn committed(&self, range: u32) -> Option<Offset> {
        let topic = self.replay.group()?.topics().get(&self.settings.subscription.topic)?;
        topic.shares.get(range as usize)?.committed
    }

    /// What is ours, was reached and is not committed.
    fn news(&self, positions: &Positions, reached: impl Fn(&Position) -> Offset) -> Vec<Place> {
        let ours = positions.iter().filter(|(range, position)| {
            self.held.get(range).is_some_and(|held| held.term == position.term)
                && self.committed(**range) < Some(reached(position))
        });
        ours.map(|(range, position)| self.place(*range, reached(position))).collect()
    }
}

fn verdict(mut lost: Vec<u32>) -> Result<(), CommitFailure> {
    lost.sort_unstable();
    lost.dedup();
    if lost.is_empty() { Ok(()) } else { Err(CommitFailure::Fenced { ranges: lost }) }
}
