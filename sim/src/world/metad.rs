//! metad's members: one linearizable command log that stands for `MetaLog`, the real `Meta` over it, and a real `Driver` at
//! each member. It can lose its leader, be slow, be out of reach, and leave proposals in doubt.
//!
//! The committed state is kept once (it is the same at every member, R11); a new leader builds its own from a snapshot and
//! the log after it, and the two are compared.

use super::World;
use super::event::{Act, Ask, Proc, What};
use super::net::{Frame, PipeId};
use super::sometimes::Sometimes;
use super::trace::trace;
use metad_core::{Command, Driver, Effect, Input, Limits, Meta, ReplyId, SessionId, Tick, Timing, Token};
use seam_wire::SegmentId;
use seam_wire::meta::{MetaItem, MetaUpdate};
use seam_wire::report::Report;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

pub struct Member {
    driver: Driver,
    /// A deposed leader that does not know it yet decides over the state it had.
    stale: Option<Box<Meta>>,
    applied: usize,
    pub watchers: BTreeMap<PipeId, u64>,
    /// Nodes' sessions that a heartbeat came on.
    pub sessions: BTreeSet<PipeId>,
    replies: BTreeMap<ReplyId, (Proc, u32, u64)>,
    next_reply: u64,
}

pub struct Metad {
    pub meta: Meta,
    log: Vec<Command>,
    history: Vec<Vec<MetaItem>>,
    /// Commands covered, and the bytes.
    snapshot: (usize, Vec<u8>),
    members: Vec<Member>,
    pub leader: Option<u8>,
    pub term: u64,
    inflight: VecDeque<(Token, Command)>,
    /// Committed in an earlier term, applied before the next one begins.
    in_doubt: Vec<Command>,
    last_commit_at: u64,
    pub slow_by_us: u64,
    /// Segments whose soft mark came to a leader.
    announced: BTreeSet<SegmentId>,
}

impl Metad {
    pub fn new(members: u8, timing: Timing, candidates: u32) -> Self {
        let meta = Meta::new(Limits { candidates, ..Limits::default() });
        let member = || Member {
            driver: Driver::new(timing),
            stale: None,
            applied: 0,
            watchers: BTreeMap::new(),
            sessions: BTreeSet::new(),
            replies: BTreeMap::new(),
            next_reply: 0,
        };
        Metad {
            snapshot: (0, meta.snapshot()),
            meta,
            log: Vec::new(),
            history: Vec::new(),
            members: (0..members).map(|_| member()).collect(),
            leader: None,
            term: 1,
            inflight: VecDeque::new(),
            in_doubt: Vec::new(),
            last_commit_at: 0,
            slow_by_us: 0,
            announced: BTreeSet::new(),
        }
    }

    /// Commands that moved the start of a log.
    pub fn trims(&self) -> u64 {
        self.log.iter().filter(|command| matches!(command, Command::Trim { .. })).count() as u64
    }

    pub fn waits(&self) -> metad_core::Waits {
        self.leader.map(|leader| self.members[usize::from(leader)].driver.waits()).unwrap_or_default()
    }
}

impl World {
    pub(super) fn member(&mut self, n: u8) -> &mut Member {
        &mut self.metad.members[usize::from(n)]
    }

    pub(super) fn start_metad(&mut self, n: u8) {
        let timing = self.plan.timing;
        let applied = self.metad.log.len();
        let member = self.member(n);
        member.driver = Driver::new(timing);
        member.applied = applied;
    }

    pub(super) fn crash_metad(&mut self, n: u8) {
        let member = self.member(n);
        member.watchers.clear();
        member.sessions.clear();
        member.replies.clear();
        member.stale = None;
        if self.metad.leader == Some(n) {
            let election_us = self.plan.metad.election_us;
            self.lose_leader(50, election_us);
        }
    }

    pub(super) fn leader_pauses(&mut self, n: u8) {
        if self.metad.leader == Some(n) {
            let election_us = self.plan.metad.election_us;
            self.depose(n, 50, election_us, 10_000);
        }
    }

    pub(super) fn at_metad(&mut self, n: u8, what: What) {
        let me = Proc::Metad(n);
        match what {
            What::Wake => {
                self.state_mut(me).wake_at = None;
                let clock = self.clock(me).0;
                match self.member(n).driver.next_deadline() {
                    Some(at) if at.0 <= clock => self.metad_input(n, Input::Tick),
                    due @ (Some(_) | None) => self.wake_at(me, due.map(|at| seam_wire::Tick(at.0))),
                }
            }
            What::Frame { pipe, number, frame } => match self.arrived(pipe, me, number, frame) {
                Some(Frame::Watch { after }) => {
                    self.member(n).watchers.insert(pipe, after);
                    self.push_updates(n);
                }
                Some(Frame::Fin) => self.metad_pipe_gone(n, pipe),
                Some(_) => unreachable!("not for metad"),
                None => {}
            },
            What::Broken { pipe } => self.metad_pipe_gone(n, pipe),
            What::Ask { from, from_life, call, ask } => {
                if let Ask::Heartbeat { session, .. } = &*ask {
                    if !self.net.pipes.contains_key(session) {
                        return; // It was on its way when its session broke.
                    }
                    self.metad.members[usize::from(n)].sessions.insert(*session);
                }
                if let Ask::Report { report: Report::SoftMark { segment, .. }, .. } = &*ask
                    && self.metad.leader == Some(n)
                {
                    let again = !self.metad.announced.insert(*segment);
                    self.stats.reached.hit_if(Sometimes::TwoSoftMarks, again);
                }
                let member = self.member(n);
                member.next_reply += 1;
                let reply = ReplyId(member.next_reply);
                member.replies.insert(reply, (from, from_life, call));
                self.metad_input(n, input_of(*ask, reply));
            }
            What::Peer { .. }
            | What::PeerUp(_)
            | What::Founded(_)
            | What::Synced { .. }
            | What::Received
            | What::JournalFailed
            | What::TailStep { .. }
            | What::ReadDone { .. }
            | What::Answer { .. }
            | What::Beat
            | What::Watch
            | What::Load => unreachable!("not for metad"),
        }
    }

    pub(super) fn metad_input(&mut self, n: u8, input: Input) {
        let me = Proc::Metad(n);
        let clock = Tick(self.clock(me).0);
        let mut effects = Vec::new();
        let member = &mut self.metad.members[usize::from(n)];
        let meta = member.stale.as_deref().unwrap_or(&self.metad.meta);
        member.driver.handle(clock, meta, input, &mut effects);
        let deadline = member.driver.next_deadline();
        for effect in effects {
            match effect {
                Effect::Propose { token, command } => self.propose(n, token, command),
                Effect::Step(_) => {}
                Effect::Reply { id, answer } => {
                    if let Some((to, life, call)) = self.member(n).replies.remove(&id)
                        && !self.net.is_cut(me, to)
                    {
                        let at = self.now + self.net.delay(me, to);
                        self.at_life(at, to, life, What::Answer { call, answer: Some(answer) });
                    }
                }
            }
        }
        self.wake_at(me, deadline.map(|at| seam_wire::Tick(at.0)));
    }

    // -- the log

    fn propose(&mut self, n: u8, token: Token, command: Command) {
        if self.metad.leader != Some(n) {
            self.stats.reached.hit(Sometimes::DeposedProposes);
            return; // A deposed leader's proposals go nowhere.
        }
        trace!(self, "metad-{} proposes {command:?}", n + 1);
        let plan = &self.plan.metad;
        let takes = self.log_rng.between(plan.commit_min_us, plan.commit_max_us) + self.metad.slow_by_us;
        let at = (self.now + takes).max(self.metad.last_commit_at + 1);
        self.metad.last_commit_at = at;
        self.metad.inflight.push_back((token, command));
        let term = self.metad.term;
        self.act_at(at, Act::Commit { term });
    }

    pub(super) fn commit_next(&mut self, term: u64) {
        if term != self.metad.term {
            return;
        }
        if let (Some((token, command)), Some(leader)) = (self.metad.inflight.pop_front(), self.metad.leader) {
            self.commit(command, Some((leader, token)));
        }
    }

    fn commit(&mut self, command: Command, by: Option<(u8, Token)>) {
        let applied = self.metad.meta.apply(&command);
        trace!(self, "v{} {command:?} -> {:?}", self.metad.meta.version(), applied.outcome);
        self.oracle.recorded(&applied.items);
        self.see_commit(&command, &applied.outcome, &applied.items);
        if let Command::Trim { range, .. } = &command
            && let Some(view) = self.metad.meta.range(*range)
        {
            self.oracle.log_starts(view.index, view.start);
        }
        self.metad.log.push(command.clone());
        self.metad.history.push(applied.items);
        let index = self.metad.log.len();
        if let Some((leader, token)) = by {
            self.member(leader).applied = index;
            self.metad_input(leader, Input::Applied { token: Some(token), command, outcome: applied.outcome });
            self.push_updates(leader);
        }
        for member in (0..self.plan.sizes.metads).filter(|member| by.is_none_or(|(leader, _)| leader != *member)) {
            let lag = self.log_rng.between(100, self.plan.metad.follower_lag_us.max(100));
            self.act_at(self.now + lag, Act::ApplyAt { member, index });
        }
    }

    pub(super) fn apply_at(&mut self, n: u8, index: usize) {
        if !self.runs(Proc::Metad(n)) {
            return; // It catches up when it is back.
        }
        let member = self.member(n);
        member.applied = member.applied.max(index);
        self.push_updates(n);
    }

    /// A member that was paused applies what it missed.
    pub(super) fn catch_up(&mut self, n: u8) {
        let index = self.metad.log.len();
        self.act_at(self.now + 1, Act::ApplyAt { member: n, index });
    }

    /// Sends every watcher of this member what it has not sent yet.
    fn push_updates(&mut self, n: u8) {
        let applied = self.member(n).applied as u64;
        let behind: Vec<(PipeId, u64)> = self
            .member(n)
            .watchers
            .iter()
            .filter(|(_, sent)| **sent < applied)
            .map(|(pipe, sent)| (*pipe, *sent))
            .collect();
        for (pipe, sent) in behind {
            let too_far = applied - sent > self.plan.metad.retained as u64;
            self.stats.reached.hit_if(Sometimes::WatchReset, sent > 0 && too_far);
            if sent == 0 || too_far {
                let (version, items) = (self.metad.meta.version(), self.metad.meta.all_items());
                self.send(pipe, Proc::Metad(n), Frame::Update(MetaUpdate { version, reset: true, items }));
                self.member(n).watchers.insert(pipe, version);
                continue;
            }
            if self.plan.metad.coalesce {
                let range = sent as usize..applied as usize;
                let items = self.metad.history[range].iter().flatten().cloned().collect();
                self.send(pipe, Proc::Metad(n), Frame::Update(MetaUpdate { version: applied, reset: false, items }));
            } else {
                for version in sent + 1..=applied {
                    let items = self.metad.history[version as usize - 1].clone();
                    if !items.is_empty() {
                        self.send(pipe, Proc::Metad(n), Frame::Update(MetaUpdate { version, reset: false, items }));
                    }
                }
            }
            self.member(n).watchers.insert(pipe, applied);
        }
    }

    // -- leadership

    /// Nobody leads any more. Of the proposals in flight a prefix is committed all the same.
    fn lose_leader(&mut self, kept_percent: u32, for_us: u64) {
        if self.metad.leader.take().is_none() {
            return;
        }
        self.stats.leaders_lost += 1;
        self.metad.term += 1;
        let inflight = std::mem::take(&mut self.metad.inflight);
        let kept = inflight.iter().take_while(|_| self.log_rng.percent(kept_percent)).count();
        self.metad.in_doubt = inflight.into_iter().take(kept).map(|(_, command)| command).collect();
        let term = self.metad.term;
        self.act_at(self.now + for_us.max(1), Act::Elect { term });
    }

    /// `n` leads no more, and learns of it only `zombie_us` later.
    pub(super) fn depose(&mut self, n: u8, kept_percent: u32, for_us: u64, zombie_us: u64) {
        let stale = self.metad.meta.clone();
        self.member(n).stale = Some(Box::new(stale));
        self.lose_leader(kept_percent, for_us);
        let term = self.metad.term;
        self.act_at(self.now + zombie_us.max(1), Act::StepDown { member: n, term });
    }

    pub(super) fn step_down(&mut self, n: u8, term: u64) {
        if self.metad.leader == Some(n) || self.member(n).stale.is_none() {
            return;
        }
        if !self.runs(Proc::Metad(n)) {
            return self.act_at(self.now + 5_000, Act::StepDown { member: n, term });
        }
        self.metad_input(n, Input::LostLeadership);
        self.member(n).stale = None;
        self.end_sessions(n);
    }

    pub(super) fn elect(&mut self, term: u64) {
        if term != self.metad.term || self.metad.leader.is_some() {
            return;
        }
        let fit: Vec<u8> = (0..self.plan.sizes.metads).filter(|n| self.runs(Proc::Metad(*n))).collect();
        if fit.len() * 2 <= usize::from(self.plan.sizes.metads) {
            return self.act_at(self.now + 10_000, Act::Elect { term });
        }
        let leader = self.log_rng.pick(&fit);
        trace!(self, "metad-{} leads", leader + 1);
        for command in std::mem::take(&mut self.metad.in_doubt) {
            self.commit(command, None);
        }
        self.check_replay();
        if self.member(leader).stale.is_some() {
            self.metad_input(leader, Input::LostLeadership);
            self.member(leader).stale = None;
            self.end_sessions(leader);
        }
        self.metad.leader = Some(leader);
        self.metad.last_commit_at = self.now;
        self.member(leader).applied = self.metad.log.len();
        self.metad_input(leader, Input::BecameLeader);
        self.push_updates(leader);
    }

    /// R11: the last snapshot and the commands after it give the same state, bit for bit.
    pub(super) fn check_replay(&mut self) {
        let (covered, bytes) = &self.metad.snapshot;
        let mut own = Meta::restore(bytes).expect("R11: a snapshot of ours restores");
        for command in &self.metad.log[*covered..] {
            own.apply(command);
        }
        assert_eq!(own.hash(), self.metad.meta.hash(), "R11: the same log gives the same state");
        self.metad.snapshot = (self.metad.log.len(), own.snapshot());
        self.stats.snapshots_restored += 1;
    }

    // -- callers

    /// Asks a member of metad; the answer, or `None` after a while, comes back under the number returned.
    pub(super) fn ask(&mut self, from: Proc, member: u8, ask: Ask) -> u64 {
        let call = self.next_call;
        self.next_call += 1;
        let to = Proc::Metad(member);
        let from_life = self.state(from).life;
        if !self.net.is_cut(from, to) {
            let at = self.now + self.net.delay(from, to);
            self.at(at, to, What::Ask { from, from_life, call, ask: Box::new(ask) });
        }
        let patience_us = self.plan.net.idle_us + 60_000;
        self.at(self.now + patience_us, from, What::Answer { call, answer: None });
        call
    }
}

fn input_of(ask: Ask, reply: ReplyId) -> Input {
    match ask {
        Ask::Register { node, incarnation } => Input::Register {
            id: node,
            name: format!("segd-{}", node.0),
            addr: format!("10.0.0.{}:7000", node.0),
            domain: format!("rack-{}", node.0 % 4),
            incarnation,
            reply,
        },
        Ask::Heartbeat { session, node, incarnation, write_bytes_per_s, open_segments, disk_failed } => {
            Input::Heartbeat {
                session: SessionId(session.0),
                round_trip_us: 0,
                node,
                incarnation,
                free_bytes: 1 << 40,
                write_bytes_per_s,
                open_segments,
                disk_failed,
                reply,
            }
        }
        Ask::Report { node, incarnation, report } => Input::Report { node, incarnation, report, reply },
        Ask::Admin(request) => Input::Admin { request, reply },
    }
}
