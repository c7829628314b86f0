//! Agents: when an open segment needs one, who it is, and when another takes over.
//!
//! Each appointment has a new epoch and its own candidate (V1, V5), so appointing too often is safe, only slow. Recoveries
//! are paced: after a power loss of all nodes every range wants one at once.

use super::Driver;
use super::io::Effect;
use super::pending::Subject;
use super::range::{Ensured, config_of};
use crate::command::Command;
use crate::history::{RecoveryCause, RecoveryStats};
use crate::state::Meta;
use crate::state::records::Segment;
use crate::tick::Tick;
use seam_wire::meta::Recovery;
use seam_wire::report::AgentStats;
use seam_wire::{Epoch, NodeId, SegmentId};

/// A complaint older than this many times the patience is forgotten, if nobody repeats it.
const COMPLAINT_PATIENCES: u64 = 3;

/// A segment found in need of a recovery.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    pub cause: RecoveryCause,
    /// When its primary was last heard of, or the complaint came.
    pub heard: Tick,
    /// When that was found.
    pub found: Tick,
}

/// A running recovery, as this leader watches it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Appointed {
    pub epoch: Epoch,
    pub deadline: Tick,
    /// Appointments for this segment that this leader saw.
    pub times: u32,
    /// When it was proposed and committed; unknown to a later leader.
    pub took: Option<(Tick, Tick)>,
    /// When the agent's word first came.
    pub heard: Option<Tick>,
}

impl Driver {
    pub(super) fn needs_recovery(&self, now: Tick, meta: &Meta, id: SegmentId, segment: &Segment) -> bool {
        segment.recovery.is_some() || self.primary_is_over(meta, segment) || self.is_stalled(now, id)
    }

    fn is_stalled(&self, now: Tick, id: SegmentId) -> bool {
        let patience_ms = self.timing.recovery_patience_ms * COMPLAINT_PATIENCES;
        self.stalled.get(&id).is_some_and(|complaint| now < complaint.plus_ms(patience_ms))
    }

    /// An agent at work within its patience, else a new one.
    pub(super) fn ensure_recovery(&mut self, now: Tick, meta: &Meta, id: SegmentId, out: &mut Vec<Effect>) -> Ensured {
        if self.pending.has(&Subject::Candidate(id)) {
            return Ensured::Proposed;
        }
        let segment = meta.known(id);
        self.suspect(now, meta, id, segment);
        if let Some(recovery) = segment.recovery.as_deref() {
            let deadline = self.deadline_of(now, id, recovery.epoch);
            if self.agent_can_finish(meta, recovery) && now < deadline {
                self.wake(deadline, segment.range);
                return Ensured::There;
            }
        }
        if self.running(now, id) >= self.timing.recoveries as usize {
            self.paced.insert(segment.range);
            return Ensured::Waiting("other recoveries run first".to_owned());
        }
        // An accepted loss is not taken back.
        let loss_accepted = segment.recovery.as_ref().is_some_and(|recovery| recovery.loss_accepted);
        match self.appointment(now, meta, id, loss_accepted) {
            Ok(command) => {
                self.propose(now, command, out);
                Ensured::Proposed
            }
            Err(why) => Ensured::Waiting(why),
        }
    }

    /// The next agent with its candidate. Errors: why there can be none now.
    pub(super) fn appointment(
        &self,
        now: Tick,
        meta: &Meta,
        id: SegmentId,
        loss_accepted: bool,
    ) -> Result<Command, String> {
        let segment = meta.known(id);
        let reachable: Vec<NodeId> =
            segment.replicas.iter().copied().filter(|n| self.is_reachable(now, meta, *n)).collect();
        let needed = segment.recovery_quorum();
        if reachable.len() < needed && !loss_accepted {
            let of = &segment.replicas;
            return Err(format!("recovery of {id} needs {needed} of {of:?}, reachable are {reachable:?}"));
        }
        let replicas = self
            .place_successor(now, meta, config_of(meta, segment), &segment.replicas, &[])
            .map_err(|no_place| no_place.to_string())?;
        // With a loss accepted and no replica in reach, anybody can say that there is nothing.
        let agent = choose_agent(segment, &reachable).or(replicas.first().copied());
        let agent = agent.ok_or_else(|| format!("no replica of {id} is reachable"))?;
        let node = meta.nodes.get(&agent).ok_or_else(|| format!("{agent} is not registered"))?;
        Ok(Command::Recover {
            segment: id,
            agent,
            agent_incarnation: node.view.incarnation,
            expected_epoch: segment.epoch(),
            replicas,
            trace: None,
            loss_accepted,
        })
    }

    /// The agent's process lives, and so does that of its candidate's primary.
    fn agent_can_finish(&self, meta: &Meta, recovery: &Recovery) -> bool {
        let life = meta.nodes.get(&recovery.agent).map(|n| n.view.incarnation);
        let candidate = meta.segments.get(&recovery.candidate).filter(|c| c.is_candidate());
        life == Some(recovery.agent_incarnation)
            && !self.is_lost(meta, recovery.agent)
            && candidate.is_some_and(|candidate| !self.primary_is_over(meta, candidate))
    }

    /// A new leader gives the agent it finds a full patience.
    fn deadline_of(&mut self, now: Tick, id: SegmentId, epoch: Epoch) -> Tick {
        match self.recoveries.get(&id) {
            Some(appointed) if appointed.epoch == epoch => appointed.deadline,
            Some(_) | None => self.note_appointed(now, id, epoch),
        }
    }

    pub(super) fn note_appointed(&mut self, now: Tick, id: SegmentId, epoch: Epoch) -> Tick {
        let times = self.recoveries.get(&id).map_or(0, |a| a.times) + 1;
        let deadline = now.plus_ms(self.timing.recovery_patience_ms << (times - 1).min(4));
        self.recoveries.insert(id, Appointed { epoch, deadline, times, took: None, heard: None });
        self.stalled.remove(&id);
        deadline
    }

    pub(super) fn end_recovery(&mut self, id: SegmentId) {
        self.stalled.remove(&id);
        self.suspects.remove(&id);
        self.mute.remove(&id);
        if self.recoveries.remove(&id).is_some() {
            self.dirty.append(&mut self.paced);
        }
    }

    /// Remembers, for the record, why and since when this segment needs a recovery.
    fn suspect(&mut self, now: Tick, meta: &Meta, id: SegmentId, segment: &Segment) {
        let node = segment.primary();
        let heard = self.heard.get(&node);
        let current = meta.nodes.get(&node).map(|n| n.view.incarnation);
        let restarted = segment.primary_incarnation.is_some_and(|life| Some(life) != current);
        let last = heard.map_or(now, |h| h.last);
        let (cause, heard) = if restarted {
            (RecoveryCause::Restarted, self.last_lives.get(&node).copied().unwrap_or(now))
        } else if heard.is_some_and(|h| h.disk_failed) {
            (RecoveryCause::DiskFailed, now)
        } else if self.primary_is_over(meta, segment) {
            let broke = self.liveness.is_suspected(node);
            (if broke { RecoveryCause::SessionBroken } else { RecoveryCause::Silent }, last)
        } else if let Some(complaint) = self.stalled.get(&id) {
            (RecoveryCause::Stalled, *complaint)
        } else {
            return; // Appointed under an earlier leader, who knew.
        };
        self.suspects.entry(id).or_insert(Suspect { cause, heard, found: now });
    }

    pub(super) fn note_appointment_took(&mut self, now: Tick, id: SegmentId, proposed: Tick) {
        if let Some(appointed) = self.recoveries.get_mut(&id) {
            appointed.took = Some((proposed, now));
        }
    }

    /// How the recovery went, now that its agent is done. What this leader did not see is 0.
    pub(super) fn recovery_stats(
        &mut self,
        now: Tick,
        id: SegmentId,
        (epoch, agent): (Epoch, NodeId),
        stats: AgentStats,
    ) -> RecoveryStats {
        let suspect = self.suspects.get(&id).copied();
        let appointed = self.recoveries.get_mut(&id).filter(|a| a.epoch == epoch);
        // The first time it is told: a repetition makes the same command.
        let heard = appointed.map(|a| (a.took, *a.heard.get_or_insert(now)));
        let took = heard.and_then(|(took, heard)| took.map(|(proposed, committed)| (proposed, committed, heard)));
        RecoveryStats {
            epoch,
            agent,
            cause: suspect.map(|s| s.cause),
            detect_us: suspect.map_or(0, |s| s.found.since_us(s.heard)),
            wait_us: suspect.zip(took).map_or(0, |(s, (proposed, _, _))| proposed.since_us(s.found)),
            appoint_us: took.map_or(0, |(proposed, committed, _)| committed.since_us(proposed)),
            work_us: took.map_or(0, |(_, committed, heard)| heard.since_us(committed)),
            stats,
        }
    }

    /// Other recoveries that run within their patience, or are about to.
    fn running(&self, now: Tick, but: SegmentId) -> usize {
        let appointed = self.recoveries.iter().filter(|(id, a)| **id != but && now < a.deadline).count();
        appointed + self.pending.commands().filter(|c| matches!(c, Command::Recover { .. })).count()
    }
}

/// The primary's node last: what is wrong is most likely there. Not the agent that just failed, if there is another.
fn choose_agent(segment: &Segment, reachable: &[NodeId]) -> Option<NodeId> {
    let previous = segment.recovery.as_ref().map(|r| r.agent);
    let turn = segment.epoch().0 as usize % reachable.len().max(1);
    let order = (0..reachable.len()).map(|i| reachable[(i + turn) % reachable.len()]);
    order.min_by_key(|n| (Some(*n) == previous, *n == segment.primary()))
}
