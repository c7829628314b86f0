//! The leader's decisions. What it knows here is soft: when a node was heard, who asked for what, what is on its way. A new
//! leader starts empty and finds everything that is pending in [`Meta`], or is told again, since every report is repeated
//! until answered.
//!
//! It is driven by levels, not by events: an input marks ranges as worth a look, and each is then compared with what it
//! should be (`range`, `recovery`). An event that got lost costs one sweep, never a stuck roll.
//!
//! | file | idea |
//! | --- | --- |
//! | `io` | inputs, effects, answers |
//! | `pending` | proposals on their way, who waits |
//! | `nodes` | who is heard, who is fit |
//! | `liveness` | who is suspected, who is taken for dead |
//! | `reports` | what nodes say, turned into commands |
//! | `range` | successors: wanted, prepared, timed out, released |
//! | `recovery` | agents: appointed, paced, appointed again |
//! | `loss` | ends that no answer can decide, and the operator's way out |
//! | `retention` | which sealed segments are too many or too old |
//! | `admin` | operators' requests |
//! | `answers` | outcomes, turned into answers |
//! | `steps` | what traces are told |

mod admin;
mod answers;
mod io;
mod liveness;
mod loss;
mod nodes;
mod pending;
mod range;
mod recovery;
mod reports;
mod retention;
mod steps;

pub use io::{Admin, Answer, Effect, Input, ReplyId, SessionId, Step, Token, TopicPatch};
pub use nodes::NodeReport;

use crate::command::{Command, Outcome};
use crate::history::OpeningStats;
use crate::limits::Timing;
use crate::state::Meta;
use crate::tick::Tick;
use admin::RollJob;
use liveness::Liveness;
use nodes::Heard;
use pending::{Pending, Subject, Waiter};
use range::{Want, Watched};
use recovery::{Appointed, Suspect};
use seam_wire::{NodeId, RangeId, SegmentId};
use std::collections::{BTreeMap, BTreeSet};

/// What the leader waits for, as numbers to watch. Each is bounded by a setting or by the number of ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// Successors that were asked for and whose roll is not recorded.
    pub successors: usize,
    /// Agents at work.
    pub recoveries: usize,
    /// Ranges whose recovery waits for another to end.
    pub paced: usize,
    /// Proposals on their way through the log.
    pub proposals: usize,
}

/// The leader's decisions over a [`Meta`] that comes in with every call. Also kept by followers, where it only says
/// `NotLeader`.
#[derive(Debug, Default)]
pub struct Driver {
    timing: Timing,
    leads: bool,
    /// The latest time seen; a jump from it means that this process was paused.
    seen: Tick,
    heard: BTreeMap<NodeId, Heard>,
    liveness: Liveness,
    /// Successors asked for, by the segment they are to follow.
    wants: BTreeMap<SegmentId, Want>,
    /// Measures and timers of segments that are planned, ready or just open.
    watched: BTreeMap<SegmentId, Watched>,
    /// Complaints about open segments: when the last one came.
    stalled: BTreeMap<SegmentId, Tick>,
    recoveries: BTreeMap<SegmentId, Appointed>,
    /// Replicas that told the latest agent that they cannot answer, where they are too many.
    mute: BTreeMap<SegmentId, Vec<NodeId>>,
    /// How long the record of the roll into this segment took, microseconds. A measurement can wait for the next commit
    /// that is due anyway: at once, it would compete with the successor's first records for the disk.
    recorded: BTreeMap<SegmentId, u64>,
    /// Segments found in need of one, since when and why.
    suspects: BTreeMap<SegmentId, Suspect>,
    /// When nodes that came back were last heard of in the life before.
    last_lives: BTreeMap<NodeId, Tick>,
    /// Ends that agents fixed before their candidates were ready, by candidate: recorded the moment it is.
    fixed: BTreeMap<SegmentId, Command>,
    /// Ranges whose recovery waits for another to end.
    paced: BTreeSet<RangeId>,
    pending: Pending,
    rolls: BTreeMap<ReplyId, RollJob>,
    /// Ranges to look at now, and later.
    dirty: BTreeSet<RangeId>,
    wakes: BTreeSet<(Tick, RangeId)>,
    next_sweep: Tick,
    /// The wall clock as last read, and when: milliseconds since 1970.
    wall: (Tick, u64),
}

impl Driver {
    pub fn new(timing: Timing) -> Self {
        Driver { timing, ..Driver::default() }
    }

    pub fn leads(&self) -> bool {
        self.leads
    }

    pub fn timing(&self) -> &Timing {
        &self.timing
    }

    /// Zero on a member that does not lead.
    pub fn waits(&self) -> Waits {
        Waits {
            successors: self.wants.len(),
            recoveries: self.recoveries.len(),
            paced: self.paced.len(),
            proposals: self.pending.commands().count(),
        }
    }

    /// Takes one input at `now` (monotonic, of this process) with the state as applied so far. Effects go to `out`, in order.
    pub fn handle(&mut self, now: Tick, meta: &Meta, input: Input, out: &mut Vec<Effect>) {
        if self.leads {
            self.note_time(now);
        }
        self.seen = now;
        match input {
            Input::BecameLeader => self.start_leading(now, meta, out),
            Input::LostLeadership => self.stop_leading(out),
            Input::Tick => {}
            Input::Register { reply, .. }
            | Input::Heartbeat { reply, .. }
            | Input::Report { reply, .. }
            | Input::Admin { reply, .. }
                if !self.leads =>
            {
                out.push(Effect::Reply { id: reply, answer: Answer::NotLeader });
            }
            Input::Applied { .. } | Input::Lost { .. } | Input::SessionBroken { .. } if !self.leads => {}
            Input::SessionBroken { session } => self.liveness.session_broken(now, session, &self.timing),
            Input::Register { id, name, addr, domain, incarnation, reply } => {
                let command = Command::RegisterNode { id, name, addr, domain, incarnation };
                self.propose_for(now, command, Waiter::Register(reply), out);
            }
            Input::Heartbeat {
                node,
                incarnation,
                free_bytes,
                write_bytes_per_s,
                open_segments,
                disk_failed,
                session,
                round_trip_us,
                reply,
            } => {
                let beat =
                    Heard { last: now, free_bytes: Some(free_bytes), write_bytes_per_s, open_segments, disk_failed };
                let known = self.take_heartbeat(now, meta, (node, incarnation), (session, round_trip_us), beat);
                out.push(Effect::Reply { id: reply, answer: Answer::Heartbeat { known } });
            }
            Input::Report { node, incarnation, report, reply } => {
                self.take_report(now, meta, (node, incarnation), report, reply, out);
            }
            Input::Admin { request, reply } => self.take_admin(now, meta, request, reply, out),
            Input::Applied { token, command, outcome } => self.applied(now, meta, token, &command, &outcome, out),
            Input::Lost { token } => self.lost(token, out),
        }
        if self.leads {
            self.expire_proposals(now, out);
            self.check_nodes(now, meta, out);
            self.look_at_ranges(now, meta, out);
        }
    }

    /// When `handle` is to be called with `Tick` at the latest; `None` while not leading.
    pub fn next_deadline(&self) -> Option<Tick> {
        if !self.leads {
            return None;
        }
        let proposal = self.pending.oldest().map(|t| t.plus_ms(self.timing.propose_timeout_ms));
        let wake = self.wakes.first().map(|(at, _)| *at);
        [Some(self.liveness.next_check()), Some(self.next_sweep), proposal, wake].into_iter().flatten().min()
    }

    fn start_leading(&mut self, now: Tick, meta: &Meta, out: &mut Vec<Effect>) {
        self.stop_leading(out);
        self.leads = true;
        // Nobody is suspected before a full period of our own watch.
        self.heard = meta.nodes.keys().map(|id| (*id, Heard::at(now))).collect();
        self.liveness.check_at(now);
        self.next_sweep = now;
    }

    fn stop_leading(&mut self, out: &mut Vec<Effect>) {
        for proposal in self.pending.take_all() {
            for waiter in proposal.waiters {
                self.answer_not_leader(waiter, out);
            }
        }
        let pending = std::mem::take(&mut self.pending);
        // Tokens are never used twice: an answer of an earlier term must not be taken for one of this.
        *self = Driver { timing: self.timing, seen: self.seen, wall: self.wall, pending, ..Driver::default() };
    }

    /// Proposes, unless something about the same subject is on its way.
    fn propose(&mut self, now: Tick, command: Command, out: &mut Vec<Effect>) {
        if !self.pending.has(&Subject::of(&command)) {
            let token = self.pending.add(now, command.clone(), None);
            out.push(Effect::Propose { token, command });
        }
    }

    /// Proposes for a caller. If the same is on its way, the caller joins; if something else about the same subject is, he
    /// is told to try again.
    fn propose_for(&mut self, now: Tick, command: Command, waiter: Waiter, out: &mut Vec<Effect>) {
        match self.pending.about(&Subject::of(&command)) {
            Some(proposal) if proposal.command == command => proposal.waiters.push(waiter),
            Some(_) => self.answer_retry(waiter, "another change of the same is on its way", out),
            None => {
                let token = self.pending.add(now, command.clone(), Some(waiter));
                out.push(Effect::Propose { token, command });
            }
        }
    }

    fn expire_proposals(&mut self, now: Tick, out: &mut Vec<Effect>) {
        let patience_us = self.timing.propose_timeout_ms * 1000;
        let Some(since) = now.0.checked_sub(patience_us).map(Tick) else { return };
        for proposal in self.pending.take_until(since) {
            for waiter in proposal.waiters {
                self.answer_unknown(waiter, out);
            }
        }
    }

    fn lost(&mut self, token: Token, out: &mut Vec<Effect>) {
        for waiter in self.pending.take(token).into_iter().flat_map(|p| p.waiters) {
            self.answer_unknown(waiter, out);
        }
    }

    fn applied(
        &mut self,
        now: Tick,
        meta: &Meta,
        token: Option<Token>,
        command: &Command,
        outcome: &Outcome,
        out: &mut Vec<Effect>,
    ) {
        let proposal = token.and_then(|t| self.pending.take(t));
        let asked_at = proposal.as_ref().map(|p| p.since);
        for waiter in proposal.into_iter().flat_map(|p| p.waiters) {
            self.answer_outcome(meta, waiter, command, outcome, out);
        }
        match outcome {
            Outcome::Done | Outcome::Created { .. } | Outcome::Prepared { .. } | Outcome::Appointed { .. } => {
                self.tell_steps(now, meta, asked_at, command, outcome, out);
                self.note_applied(now, meta, asked_at, command, outcome);
                if let Command::MarkReady { segment, .. } = command
                    && let Some(command) = self.fixed.remove(segment)
                {
                    self.propose(now, command, out);
                }
            }
            Outcome::Refused { .. } => {}
        }
        match range_of(meta, command) {
            Some(range) => {
                self.dirty.insert(range);
            }
            None => self.dirty.extend(meta.ranges.keys().copied()),
        }
    }

    /// What a command that took effect means for the soft state.
    fn note_applied(&mut self, now: Tick, meta: &Meta, asked_at: Option<Tick>, command: &Command, outcome: &Outcome) {
        match (command, outcome) {
            (Command::RegisterNode { id, .. }, _) => {
                let before = self.heard.insert(*id, Heard::at(now));
                self.last_lives.extend(before.map(|b| (*id, b.last)));
                self.liveness.forgive(*id);
            }
            (Command::Prepare { prior, .. }, Outcome::Prepared { segment }) => {
                let heard_at = self.wants.get(prior).map(|w| w.since).or(asked_at);
                let commit_us = heard_at.map_or(0, |t| now.since_us(t));
                let placement_us = heard_at.zip(asked_at).map_or(0, |(heard, asked)| asked.since_us(heard));
                let opening = OpeningStats { placement_us, commit_us, open_us: 0 };
                self.watched.insert(*segment, Watched { opening, ..Watched::since(now) });
            }
            (Command::PrepareRoot { .. }, Outcome::Prepared { segment }) => {
                self.watched.insert(*segment, Watched::since(now));
            }
            (Command::MarkReady { segment, .. }, _) => {
                let watched = self.watched.entry(*segment).or_insert(Watched::since(now));
                if let (0, Some(asked_at)) = (watched.ready_us, asked_at) {
                    watched.ready_us = now.since_us(asked_at);
                }
            }
            (Command::Recover { segment, .. }, Outcome::Appointed { epoch, candidate }) => {
                self.note_appointed(now, *segment, *epoch);
                self.note_appointment_took(now, *segment, asked_at.unwrap_or(now));
                self.watched.insert(*candidate, Watched::since(now));
            }
            (Command::CommitRoll { segment, next, .. }, _) => {
                self.wants.remove(segment);
                self.watched.remove(segment);
                self.end_recovery(*segment);
                if let Some(asked_at) = asked_at {
                    self.recorded.insert(*next, now.since_us(asked_at));
                }
            }
            (Command::DeleteTopic { .. }, _) => self.forget_gone(meta),
            // Retention holds at once.
            (Command::AlterTopic { .. }, _) => self.next_sweep = now,
            (
                Command::SetNodeState { .. }
                | Command::CreateTopic { .. }
                | Command::PrepareRoot { .. }
                | Command::Prepare { .. }
                | Command::AskRelease { .. }
                | Command::Released { .. }
                | Command::Recover { .. }
                | Command::Trim { .. }
                | Command::ConfirmReclaimed { .. }
                | Command::RequestRoll { .. }
                | Command::GateOpened { .. }
                | Command::RollRecorded { .. },
                _,
            ) => {}
        }
    }

    fn look_at_ranges(&mut self, now: Tick, meta: &Meta, out: &mut Vec<Effect>) {
        if now >= self.next_sweep {
            self.next_sweep = now.plus_ms(self.timing.sweep_ms);
            self.forget_gone(meta);
            self.dirty.extend(meta.ranges.keys().copied());
            // Here and not at the roll: it must not compete with the successor's first records.
            meta.ranges.keys().for_each(|range| self.trim_if_due(now, meta, *range, out));
            for segment in std::mem::take(&mut self.recorded) {
                self.propose_recorded(now, segment, out);
            }
        }
        while let Some((at, range)) = self.wakes.first().copied().filter(|(at, _)| *at <= now) {
            self.wakes.remove(&(at, range));
            self.dirty.insert(range);
        }
        while let Some(range) = self.dirty.pop_first() {
            self.look_at(now, meta, range, out);
        }
    }

    fn propose_recorded(&mut self, now: Tick, (segment, record_us): (SegmentId, u64), out: &mut Vec<Effect>) {
        self.propose(now, Command::RollRecorded { segment, record_us }, out);
    }

    /// Drops what is remembered of segments that are over.
    fn forget_gone(&mut self, meta: &Meta) {
        let active = |id: &SegmentId| meta.segments.get(id).is_some_and(|s| s.is_active());
        self.wants.retain(|id, _| active(id));
        self.watched.retain(|id, _| active(id));
        self.stalled.retain(|id, _| active(id));
        self.suspects.retain(|id, _| active(id));
        self.fixed.retain(|id, _| active(id));
        let over: Vec<SegmentId> = self.recoveries.keys().copied().filter(|id| !active(id)).collect();
        over.into_iter().for_each(|id| self.end_recovery(id));
    }

    fn wake(&mut self, at: Tick, range: RangeId) {
        self.wakes.insert((at, range));
    }
}

/// The range a command is about; `None` when it may concern all of them.
fn range_of(meta: &Meta, command: &Command) -> Option<RangeId> {
    let segment = match command {
        Command::RegisterNode { .. }
        | Command::SetNodeState { .. }
        | Command::CreateTopic { .. }
        | Command::AlterTopic { .. }
        | Command::DeleteTopic { .. } => return None,
        Command::PrepareRoot { range, .. } | Command::Trim { range, .. } => return Some(*range),
        Command::Prepare { prior, .. } => prior,
        Command::MarkReady { segment, .. }
        | Command::AskRelease { segment }
        | Command::Released { segment, .. }
        | Command::Recover { segment, .. }
        | Command::CommitRoll { segment, .. }
        | Command::ConfirmReclaimed { segment, .. }
        | Command::RequestRoll { segment, .. }
        | Command::GateOpened { segment, .. }
        | Command::RollRecorded { segment, .. } => segment,
    };
    meta.segments.get(segment).map(|s| s.range)
}
