//! A cluster in one hand: a state, a driver, a clock, and nodes that say what real ones would. It fakes the network (none),
//! the log (a queue) and the data plane (a few lines of `Autopilot`); the decisions are all the driver's.
#![allow(dead_code, reason = "each test uses its part")]

use crate::common::{life, n, s};
use metad_core::{Admin, Answer, Command, Driver, Effect, Input, Meta, ReplyId, SessionId, Tick, Timing, Token};
use seam_wire::meta::{Binder, NodeState, SegmentState, SegmentView};
use seam_wire::report::{AgentStats, Report, RollStats};
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, Offset, RangeId, SegmentId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const STEP_MS: u64 = 50;
/// Of every segment that is sealed here.
pub const SEGMENT_BYTES: u64 = 1000;

fn agent_stats() -> AgentStats {
    AgentStats { bytes: SEGMENT_BYTES, ..AgentStats::default() }
}

fn stats() -> RollStats {
    RollStats { bytes: SEGMENT_BYTES, ..RollStats::default() }
}

pub struct World {
    pub meta: Meta,
    pub driver: Driver,
    pub now: Tick,
    /// Node to life, of those that run.
    pub lives: BTreeMap<u32, u64>,
    last_lives: BTreeMap<u32, u64>,
    /// Node to the session its heartbeats come on.
    sessions: BTreeMap<u32, u64>,
    last_session: u64,
    pub failed_disks: BTreeSet<u32>,
    /// Candidates do not open.
    pub mute_opens: bool,
    /// Primaries roll on their own, agents recover on their own.
    pub autopilot: bool,
    /// A command takes so long from proposal to applied.
    pub delay_us: u64,
    pub log: Vec<Command>,
    pub proposals: u64,
    /// After so many proposals of the autopilot's time, a new leader takes over; its queue is lost or committed after it.
    pub kill_leader_after: Option<(u64, bool)>,
    timing: Timing,
    queue: VecDeque<(Token, Command)>,
    answers: BTreeMap<ReplyId, Answer>,
    last_reply: u64,
    next_beat: Tick,
}

impl World {
    pub fn with_timing(nodes: u32, timing: Timing) -> World {
        let mut w = World {
            meta: Meta::default(),
            driver: Driver::new(timing),
            now: Tick(1_000_000),
            lives: BTreeMap::new(),
            last_lives: BTreeMap::new(),
            sessions: BTreeMap::new(),
            last_session: 0,
            failed_disks: BTreeSet::new(),
            mute_opens: false,
            autopilot: false,
            delay_us: 0,
            log: Vec::new(),
            proposals: 0,
            kill_leader_after: None,
            timing,
            queue: VecDeque::new(),
            answers: BTreeMap::new(),
            last_reply: 0,
            next_beat: Tick(0),
        };
        w.input(Input::BecameLeader);
        (1..=nodes).for_each(|id| w.start(id));
        w.settle();
        w.advance(STEP_MS);
        w
    }

    pub fn new(nodes: u32) -> World {
        World::with_timing(nodes, Timing::default())
    }

    /// With topic `t` of one range, open.
    pub fn with_topic(nodes: u32, config: TopicConfig) -> World {
        let mut w = World::new(nodes);
        w.admin(Admin::CreateTopic { name: "t".into(), config });
        w.settle();
        w.run_until(1000, |w| w.head(1).is_some());
        w
    }

    // -- what callers do

    fn reply(&mut self) -> ReplyId {
        self.last_reply += 1;
        ReplyId(self.last_reply)
    }

    pub fn admin(&mut self, request: Admin) -> ReplyId {
        let reply = self.reply();
        self.input(Input::Admin { request, reply });
        reply
    }

    pub fn report(&mut self, node: u32, report: Report) -> ReplyId {
        let reply = self.reply();
        let incarnation = life(self.lives.get(&node).copied().unwrap_or(0));
        self.input(Input::Report { node: n(node), incarnation, report, reply });
        reply
    }

    pub fn report_of_primary(&mut self, segment: u64, report: Report) -> ReplyId {
        self.report(self.view(segment).spec.primary().0, report)
    }

    pub fn soft_mark(&mut self, segment: u64, attempt: u32) -> ReplyId {
        let report = Report::SoftMark {
            segment: s(segment),
            bytes: 900,
            end: Offset(9),
            rate_bytes_per_s: 100,
            soft_mark_bytes: 900,
            attempt,
            trace: None,
        };
        self.report_of_primary(segment, report)
    }

    pub fn sealed(&mut self, segment: u64, start: u64, end: u64, next: u64) -> ReplyId {
        let (start, end, next) = (Offset(start), Offset(end), s(next));
        self.report_of_primary(segment, Report::Sealed { segment: s(segment), start, end, next, stats: stats() })
    }

    pub fn recovered(&self, segment: u64, epoch: u64, end: u64, next: u64) -> Report {
        let stats = agent_stats();
        Report::Recovered { segment: s(segment), epoch: Epoch(epoch), end: Offset(end), next: s(next), stats }
    }

    pub fn heartbeat(&mut self, node: u32) -> bool {
        let reply = self.reply();
        let next = &mut self.last_session;
        let session = *self.sessions.entry(node).or_insert_with(|| {
            *next += 1;
            *next
        });
        let input = Input::Heartbeat {
            node: n(node),
            incarnation: life(self.lives.get(&node).copied().unwrap_or(0)),
            free_bytes: 1 << 40,
            write_bytes_per_s: 0,
            open_segments: 0,
            disk_failed: self.failed_disks.contains(&node),
            session: SessionId(session),
            round_trip_us: 500,
            reply,
        };
        self.input(input);
        matches!(self.answer(reply), Answer::Heartbeat { known: true })
    }

    pub fn start(&mut self, node: u32) {
        let life = self.last_lives.get(&node).copied().unwrap_or(0) + 1;
        self.last_lives.insert(node, life);
        self.sessions.remove(&node);
        self.lives.insert(node, life);
        self.register(node);
    }

    /// Falls silent; its session stands.
    pub fn stop(&mut self, node: u32) {
        self.lives.remove(&node);
    }

    /// Is killed: its session breaks.
    pub fn kill(&mut self, node: u32) {
        self.stop(node);
        self.break_session(node);
    }

    /// The next heartbeat comes on a session of its own.
    pub fn break_session(&mut self, node: u32) {
        if let Some(session) = self.sessions.remove(&node) {
            self.input(Input::SessionBroken { session: SessionId(session) });
        }
    }

    pub fn restart(&mut self, node: u32) {
        self.start(node);
    }

    fn register(&mut self, node: u32) {
        let reply = self.reply();
        let input = Input::Register {
            id: n(node),
            name: format!("segd-{node}"),
            addr: format!("127.0.0.1:{}", 7200 + node),
            domain: format!("rack-{node}"),
            incarnation: life(self.lives[&node]),
            reply,
        };
        self.input(input);
    }

    // -- the answer side

    pub fn answer(&self, reply: ReplyId) -> Answer {
        self.answers.get(&reply).unwrap_or_else(|| panic!("{reply:?} has no answer")).clone()
    }

    pub fn done(&self, reply: ReplyId) -> bool {
        match self.answer(reply) {
            Answer::Report { done, .. } => done,
            other => panic!("{reply:?} is no report but {other:?}"),
        }
    }

    // -- time and the log

    fn input(&mut self, input: Input) {
        let mut out = Vec::new();
        self.driver.handle(self.now, &self.meta, input, &mut out);
        for effect in out {
            match effect {
                Effect::Propose { token, command } => self.queue.push_back((token, command)),
                Effect::Step(_) => {}
                Effect::Reply { id, answer } => {
                    let earlier = self.answers.insert(id, answer);
                    assert!(earlier.is_none(), "{id:?} is answered twice");
                }
            }
        }
    }

    fn commit(&mut self, token: Option<Token>, command: Command) {
        let applied = self.meta.apply(&command);
        self.log.push(command.clone());
        self.input(Input::Applied { token, command, outcome: applied.outcome });
    }

    /// Until nothing is on its way.
    pub fn settle(&mut self) {
        for _ in 0..100_000 {
            let Some((token, command)) = self.queue.pop_front() else { return };
            if self.autopilot && !matches!(command, Command::RegisterNode { .. }) {
                self.proposals += 1;
                if let Some((_, is_lost)) = self.kill_leader_after.filter(|(after, _)| self.proposals > *after) {
                    self.kill_leader_after = None;
                    self.queue.push_front((token, command));
                    let rest = std::mem::take(&mut self.queue);
                    self.lose_leadership();
                    self.input(Input::BecameLeader);
                    for (_, command) in rest.into_iter().filter(|_| !is_lost) {
                        self.commit(None, command);
                    }
                    continue;
                }
            }
            self.now.0 += self.delay_us;
            self.commit(Some(token), command);
        }
        panic!("the driver never comes to rest: {:?}", self.log.iter().rev().take(5).collect::<Vec<_>>());
    }

    /// Time passes, running nodes beat, open what they are given and confirm what they are to delete.
    pub fn advance(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(STEP_MS) {
            self.now = self.now.plus_ms(STEP_MS);
            self.nodes_speak();
            self.tick_if_due();
            self.settle();
        }
    }

    /// Time passes and the log answers nothing.
    pub fn advance_silently(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(STEP_MS) {
            self.now = self.now.plus_ms(STEP_MS);
            self.tick_if_due();
        }
        self.queue.clear();
    }

    fn tick_if_due(&mut self) {
        if self.driver.next_deadline().is_some_and(|at| at <= self.now) {
            self.input(Input::Tick);
            assert!(self.driver.next_deadline().is_none_or(|at| at > self.now), "a deadline that stays in the past");
        }
    }

    /// The whole process sleeps; the nodes go on, but nobody hears them.
    pub fn pause_leader(&mut self, ms: u64) {
        self.now = self.now.plus_ms(ms);
        self.input(Input::Tick);
    }

    pub fn run_until(&mut self, ms: u64, wanted: impl Fn(&World) -> bool) {
        self.settle();
        for _ in 0..=ms.div_ceil(STEP_MS) {
            if wanted(self) {
                return;
            }
            self.advance(STEP_MS);
        }
        panic!("not within {ms} ms: {:#?}", self.segments());
    }

    pub fn lose_leadership(&mut self) {
        self.queue.clear();
        self.input(Input::LostLeadership);
    }

    /// Another member takes over and knows nothing but the state.
    pub fn new_leader(&mut self) {
        self.lose_leadership();
        self.driver = Driver::new(self.timing);
        self.input(Input::BecameLeader);
    }

    // -- the nodes

    fn nodes_speak(&mut self) {
        if self.now >= self.next_beat {
            self.next_beat = self.now.plus_ms(500);
            for node in self.lives.keys().copied().collect::<Vec<_>>() {
                if !self.heartbeat(node) && self.driver.leads() {
                    self.register(node);
                }
            }
        }
        for view in self.segments() {
            match &view.state {
                SegmentState::Planned => self.open(&view),
                SegmentState::Open { .. } if view.primary_incarnation.is_none() => self.open(&view),
                SegmentState::Ready { .. } | SegmentState::Sealed { .. } | SegmentState::Reclaimed => {}
                SegmentState::Open { start } if self.autopilot => self.fly(&view, *start),
                SegmentState::Open { .. } => {}
                SegmentState::Trimmed { .. } | SegmentState::Reclaiming => self.confirm(&view),
            }
            let asked = view.release_asked && self.autopilot;
            if let Some(prior) = view.spec.prior.filter(|_| asked).map(|p| self.view(p.0)) {
                self.say(prior.spec.primary().0, Report::Released { segment: view.spec.id });
            }
        }
    }

    fn say(&mut self, node: u32, report: Report) {
        if self.lives.contains_key(&node) {
            self.report(node, report);
        }
    }

    fn open(&mut self, view: &SegmentView) {
        let open_on: Vec<_> = view.spec.replicas.iter().copied().filter(|n| self.lives.contains_key(&n.0)).collect();
        let primary = view.spec.primary();
        let opens = open_on.contains(&primary) && open_on.len() >= view.spec.open_quorum();
        if opens && !self.mute_opens {
            let incarnation = life(self.lives[&primary.0]);
            self.say(primary.0, Report::Ready { segment: view.spec.id, open_on, incarnation });
        }
    }

    fn confirm(&mut self, view: &SegmentView) {
        for node in view.spec.replicas.iter().filter(|n| self.lives.contains_key(&n.0)).copied().collect::<Vec<_>>() {
            self.say(node.0, Report::Reclaimed { segment: view.spec.id, node });
        }
    }

    /// A primary that announces, and switches to the newest ready candidate; an agent that recovers.
    fn fly(&mut self, view: &SegmentView, start: Offset) {
        let id = view.spec.id;
        let end = start.plus(3);
        if let Some(r) = &view.recovery {
            if self.lives.get(&r.agent.0) == Some(&r.agent_incarnation.0) {
                let next = r.candidate;
                let (epoch, stats) = (r.epoch, agent_stats());
                self.say(r.agent.0, Report::Recovered { segment: id, epoch, end, next, stats });
            }
            return;
        }
        let primary = view.spec.primary().0;
        if self.lives.get(&primary).copied().map(life) != view.primary_incarnation {
            return;
        }
        let ready = self.segments().into_iter().rev().find(|c| {
            c.spec.prior == Some(id)
                && c.spec.binder == Binder::Primary
                && matches!(c.state, SegmentState::Ready { .. })
        });
        match ready {
            Some(next) => {
                let (next, stats) = (next.spec.id, stats());
                self.say(primary, Report::Sealed { segment: id, start, end, next, stats });
            }
            None => {
                let (bytes, rate_bytes_per_s, soft_mark_bytes, attempt, trace) = (9, 9, 9, 1, None);
                let report =
                    Report::SoftMark { segment: id, bytes, end, rate_bytes_per_s, soft_mark_bytes, attempt, trace };
                self.say(primary, report);
            }
        }
    }

    // -- looking

    pub fn segments(&self) -> Vec<SegmentView> {
        self.meta.segments().collect()
    }

    /// It left the state for good.
    pub fn is_gone(&self, segment: u64) -> bool {
        self.meta.has_left(s(segment))
    }

    /// Being deleted by its replicas, or gone.
    pub fn is_leaving(&self, segment: SegmentId) -> bool {
        let is_leaving = |v: SegmentView| {
            matches!(v.state, SegmentState::Trimmed { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed)
        };
        self.meta.segment(segment).map_or(self.meta.has_left(segment), is_leaving)
    }

    pub fn view(&self, segment: u64) -> SegmentView {
        self.meta.segment(s(segment)).unwrap_or_else(|| panic!("segment {segment} exists"))
    }

    pub fn ready(&self, segment: u64) -> bool {
        self.meta.segment(s(segment)).is_some_and(|v| matches!(v.state, SegmentState::Ready { .. }))
    }

    pub fn head(&self, range: u64) -> Option<SegmentId> {
        self.meta.range(RangeId(range)).and_then(|r| r.head)
    }

    pub fn head_view(&self, range: u64) -> (SegmentId, SegmentView) {
        let head = self.head(range).expect("the range is open");
        (head, self.view(head.0))
    }

    /// The newest candidate to follow this segment.
    pub fn candidate_of(&self, segment: u64) -> Option<SegmentId> {
        self.segments().into_iter().rev().find(|c| c.spec.prior == Some(s(segment))).map(|c| c.spec.id)
    }

    pub fn node_state(&self, node: u32) -> NodeState {
        self.meta.node(n(node)).expect("registered").state
    }
}
