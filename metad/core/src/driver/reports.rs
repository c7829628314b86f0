//! What nodes say, turned into commands. A report that is not worth a command is answered at once; the rest are answered
//! when their command is applied. Those that cannot be served yet are told to come again, and do.

use super::Driver;
use super::io::{Answer, Effect, ReplyId};
use super::pending::{Subject, Waiter};
use super::range::{Ensured, Want};
use crate::command::{Command, RollBy};
use crate::history::OpeningStats;
use crate::state::Meta;
use crate::state::records::Segment;
use crate::tick::Tick;
use seam_wire::meta::SegmentState;
use seam_wire::report::Report;
use seam_wire::{Incarnation, NodeId, Offset, SegmentId};

/// What to do about a report.
enum Verdict {
    /// `done: true`; the reason is for people, empty when all is well.
    Done(String),
    /// `done: false`: come again.
    Again(String),
    /// Answered when the command is applied.
    Propose(Command),
    /// Answered when whatever is on its way about this subject is applied.
    Join(Subject),
}

impl Driver {
    pub(super) fn take_report(
        &mut self,
        now: Tick,
        meta: &Meta,
        from: (NodeId, Incarnation),
        report: Report,
        reply: ReplyId,
        out: &mut Vec<Effect>,
    ) {
        let id = segment_of(&report);
        let verdict = match meta.segments.get(&id) {
            Some(segment) => self.judge(now, meta, from, report, id, segment, out),
            None if meta.has_left(id) => Verdict::Done(format!("{id} is gone")),
            // Nodes learn ids from committed state alone: it is this state that lags (a leader deposed and not told yet). A
            // `done` would silence the report for ever.
            None => Verdict::Again(format!("{id} is not known here yet; tell the leader again")),
        };
        let answer = match verdict {
            Verdict::Done(why) => Answer::Report { done: true, why },
            Verdict::Again(why) => Answer::Report { done: false, why },
            Verdict::Propose(command) => {
                self.propose_for(now, command, Waiter::Report(reply), out);
                return;
            }
            Verdict::Join(subject) => match self.pending.about(&subject) {
                Some(proposal) => {
                    proposal.waiters.push(Waiter::Report(reply));
                    return;
                }
                None => Answer::Report { done: false, why: "try again".to_owned() },
            },
        };
        out.push(Effect::Reply { id: reply, answer });
    }

    #[expect(clippy::too_many_arguments, reason = "one report with all it is judged by")]
    fn judge(
        &mut self,
        now: Tick,
        meta: &Meta,
        (node, incarnation): (NodeId, Incarnation),
        report: Report,
        id: SegmentId,
        segment: &Segment,
        out: &mut Vec<Effect>,
    ) -> Verdict {
        match report {
            Report::SoftMark { attempt, trace, .. } => {
                if segment.primary() != node || segment.primary_incarnation.is_some_and(|i| i != incarnation) {
                    return Verdict::Done(format!("{node} in {incarnation} is not the primary of {id}"));
                }
                let want = Want { attempt, since: now, trace };
                self.soft_mark(now, meta, id, segment, want, out)
            }
            Report::Ready { open_on, incarnation: life, .. } => {
                if segment.primary() != node || life != incarnation {
                    return Verdict::Done(format!("{node} in {incarnation} is not the primary of {id}"));
                }
                self.ready(now, id, segment, open_on, life)
            }
            Report::Sealed { start, end, next, stats, .. } => {
                let may_know = |s: &Segment| s.replicas.contains(&node);
                if !may_know(segment) && !meta.segments.get(&next).is_some_and(may_know) {
                    return Verdict::Done(format!("{node} holds no replica of {id} or {next}"));
                }
                if let Some(known) = segment.open_start().filter(|known| *known != start) {
                    return Verdict::Done(format!("R3: {id} starts at {known}, not at {start}"));
                }
                if self.is_on_its_way(id, (end, next), RollBy::Planned) {
                    return Verdict::Join(Subject::Commit(id));
                }
                let ready_us = self.watched.get(&next).map_or(0, |w| w.ready_us);
                commit(
                    segment,
                    end,
                    next,
                    Command::CommitRoll {
                        segment: id,
                        end,
                        next,
                        by: RollBy::Planned,
                        bytes: stats.bytes,
                        stats: Box::new(stats),
                        ready_us,
                        recovery: None,
                        sealed_at_ms: self.unix_ms(now),
                    },
                )
            }
            Report::GateOpened { gate, .. } => {
                if segment.primary() != node {
                    return Verdict::Done(format!("{node} is not the primary of {id}"));
                }
                if let Some(recorded) = self.recorded.remove_entry(&id) {
                    self.propose_recorded(now, recorded, out);
                }
                Verdict::Propose(Command::GateOpened { segment: id, gate })
            }
            Report::Released { .. } => {
                if segment.is_leaving() {
                    return Verdict::Done(String::new());
                }
                Verdict::Propose(Command::Released { segment: id, node, incarnation })
            }
            Report::Reclaimed { node: of, .. } => {
                if of != node {
                    return Verdict::Done(format!("{node} cannot speak for {of}"));
                }
                if segment.is_leaving() && !segment.unconfirmed.contains(&node) {
                    return Verdict::Done(String::new());
                }
                Verdict::Propose(Command::ConfirmReclaimed { segment: id, node })
            }
            Report::Stalled { .. } => self.stalled(now, meta, node, id, out),
            Report::Undecidable { epoch, mute, .. } => {
                if segment.recovery.as_ref().is_some_and(|r| (r.epoch, r.agent) == (epoch, node)) {
                    self.mute.insert(id, mute);
                }
                Verdict::Done(String::new())
            }
            Report::Recovered { epoch, end, next, stats: agent, .. } => {
                let is_other = segment.recovery.as_ref().is_some_and(|r| r.epoch == epoch && r.agent != node);
                if is_other {
                    return Verdict::Done(format!("{node} is not the agent of {id} in {epoch}"));
                }
                let (by, stats) = (RollBy::Recovery(epoch), Box::default());
                if self.is_on_its_way(id, (end, next), by) {
                    return Verdict::Join(Subject::Commit(id));
                }
                let ready_us = self.watched.get(&next).map_or(0, |w| w.ready_us);
                let recovery = Some(Box::new(self.recovery_stats(now, id, (epoch, node), agent)));
                let (bytes, sealed_at_ms) = (agent.bytes, self.unix_ms(now));
                let command =
                    Command::CommitRoll { segment: id, end, next, by, stats, ready_us, recovery, bytes, sealed_at_ms };
                if meta.segments.get(&next).is_some_and(|s| s.state == SegmentState::Planned) {
                    self.fixed.insert(next, command);
                    return Verdict::Again(format!("{next} is not ready yet"));
                }
                commit(segment, end, next, command)
            }
        }
    }

    /// The same decision is proposed already, with an earlier time of sealing.
    fn is_on_its_way(&mut self, id: SegmentId, decision: (Offset, SegmentId), who: RollBy) -> bool {
        self.pending.about(&Subject::Commit(id)).is_some_and(|proposal| match proposal.command {
            Command::CommitRoll { end, next, by, .. } => (end, next) == decision && by == who,
            _ => false,
        })
    }

    fn soft_mark(
        &mut self,
        now: Tick,
        meta: &Meta,
        id: SegmentId,
        segment: &Segment,
        asked: Want,
        out: &mut Vec<Effect>,
    ) -> Verdict {
        if segment.state == SegmentState::Planned {
            return Verdict::Again(format!("{id} is not ready itself"));
        }
        if segment.open_start().is_none() && !segment.is_ready() {
            return Verdict::Done(format!("{id} is {}", segment.state_name()));
        }
        let want = self.wants.entry(id).or_insert(asked);
        if asked.attempt > want.attempt {
            *want = asked;
        }
        if segment.open_start().is_some() && self.needs_recovery(now, meta, id, segment) {
            self.dirty.insert(segment.range);
            return Verdict::Again(format!("{id} is being recovered"));
        }
        verdict_of(self.ensure_successor(now, meta, id, out), id)
    }

    fn ready(
        &mut self,
        now: Tick,
        id: SegmentId,
        segment: &Segment,
        open_on: Vec<NodeId>,
        incarnation: Incarnation,
    ) -> Verdict {
        let adds_nothing = match &segment.state {
            SegmentState::Ready { open_on: known } => open_on.iter().all(|n| known.contains(n)),
            SegmentState::Open { .. } | SegmentState::Sealed { .. } | SegmentState::Trimmed { .. } => true,
            SegmentState::Planned | SegmentState::Reclaiming | SegmentState::Reclaimed => false,
        };
        if adds_nothing && segment.primary_incarnation == Some(incarnation) {
            return Verdict::Done(String::new());
        }
        let watched = self.watched.get(&id);
        let open_us = watched.map_or(0, |w| now.since_us(w.since));
        let opening = OpeningStats { open_us, ..watched.map_or(OpeningStats::default(), |w| w.opening) };
        Verdict::Propose(Command::MarkReady { segment: id, open_on, incarnation, opening })
    }

    /// A segment cannot go on. What is to be recovered is the open segment it hangs from: itself, or the one whose roll is
    /// not decided.
    fn stalled(&mut self, now: Tick, meta: &Meta, node: NodeId, id: SegmentId, out: &mut Vec<Effect>) -> Verdict {
        let complained = meta.known(id);
        let holds = |s: &SegmentId| meta.known(*s).replicas.contains(&node);
        if !holds(&id) && !complained.candidates.iter().any(holds) {
            return Verdict::Done(format!("{node} has no part in {id}"));
        }
        let mut open = id;
        while let (true, Some(prior)) = (meta.known(open).is_candidate(), meta.known(open).prior) {
            open = prior;
        }
        let segment = meta.known(open);
        if segment.open_start().is_none() {
            return Verdict::Done(format!("{open} is {}", segment.state_name()));
        }
        if segment.recovery.is_none() {
            self.stalled.insert(open, now);
        }
        verdict_of(self.ensure_recovery(now, meta, open, out), open)
    }
}

fn verdict_of(ensured: Ensured, id: SegmentId) -> Verdict {
    match ensured {
        Ensured::There => Verdict::Done(String::new()),
        Ensured::Proposed => Verdict::Join(Subject::Candidate(id)),
        Ensured::Waiting(why) => Verdict::Again(why),
    }
}

/// A decision, unless it is recorded already. Out of chain order it comes again.
fn commit(segment: &Segment, end: Offset, next: SegmentId, command: Command) -> Verdict {
    let is_recorded = match segment.state {
        SegmentState::Sealed { end: e, next: n, .. } | SegmentState::Trimmed { end: e, next: n, .. } => {
            (e, n) == (end, next)
        }
        SegmentState::Planned
        | SegmentState::Ready { .. }
        | SegmentState::Open { .. }
        | SegmentState::Reclaiming
        | SegmentState::Reclaimed => false,
    };
    if is_recorded { Verdict::Done(String::new()) } else { Verdict::Propose(command) }
}

fn segment_of(report: &Report) -> SegmentId {
    match report {
        Report::SoftMark { segment, .. }
        | Report::Ready { segment, .. }
        | Report::Sealed { segment, .. }
        | Report::GateOpened { segment, .. }
        | Report::Released { segment }
        | Report::Reclaimed { segment, .. }
        | Report::Stalled { segment }
        | Report::Undecidable { segment, .. }
        | Report::Recovered { segment, .. } => *segment,
    }
}
