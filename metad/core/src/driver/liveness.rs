//! Who is suspected, and who is taken for dead. Liveness is not guessed: it takes one of two signs.
//!
//! - The node's session (the stream its heartbeats come on) broke, and it did not open another within the grace: a process
//!   that is killed loses its connections at once.
//! - Silence for `node_suspect_ms` on a session that stands: the process, or its machine, is stopped.
//!
//! Only what this leader watched itself counts: a new leader, or one that was paused, gives every node a full period, and
//! a session that was opened before the pause proves nothing when it breaks. And a leader that hears nobody at all is
//! itself cut off: it judges no one, and when it hears again starts to count anew.

use super::Driver;
use super::io::{Effect, SessionId};
use crate::command::Command;
use crate::limits::Timing;
use crate::state::Meta;
use crate::tick::Tick;
use seam_wire::NodeId;
use seam_wire::meta::NodeState;
use std::collections::{BTreeMap, BTreeSet};

/// The newest session of a node.
#[derive(Clone, Copy, Debug)]
struct Session {
    id: SessionId,
    round_trip_us: u64,
    /// Opened since this leader last was paused: its break is a sign.
    fresh: bool,
    /// It broke; at this moment the node is given up.
    over_at: Option<Tick>,
}

#[derive(Debug, Default)]
pub(super) struct Liveness {
    sessions: BTreeMap<NodeId, Session>,
    /// Taken for dead by this leader; the log may not say so yet.
    given_up: BTreeSet<NodeId>,
    /// At the last check nobody was heard.
    deaf: bool,
    next_check: Tick,
}

impl Liveness {
    pub fn next_check(&self) -> Tick {
        self.next_check
    }

    pub fn check_at(&mut self, at: Tick) {
        self.next_check = at;
    }

    /// A heartbeat came on this session. The newest session is the one that counts: a late heartbeat of a broken one does
    /// not mend it.
    pub fn note_session(&mut self, node: NodeId, id: SessionId, round_trip_us: u64) {
        self.given_up.remove(&node);
        match self.sessions.get_mut(&node) {
            Some(known) if known.id == id => known.round_trip_us = round_trip_us,
            Some(known) if known.id > id => {}
            Some(_) | None => {
                self.sessions.insert(node, Session { id, round_trip_us, fresh: true, over_at: None });
            }
        }
    }

    /// Of sessions that were replaced meanwhile nothing is known here, and nothing follows.
    pub fn session_broken(&mut self, now: Tick, id: SessionId, timing: &Timing) {
        let Some((node, session)) = self.sessions.iter_mut().find(|(_, s)| s.id == id && s.over_at.is_none()) else {
            return;
        };
        if !session.fresh {
            let node = *node;
            self.sessions.remove(&node);
            return;
        }
        let over_at = Tick(now.0.saturating_add(timing.session_grace_us(session.round_trip_us)));
        session.over_at = Some(over_at);
        self.next_check = self.next_check.min(over_at);
    }

    /// Its session broke, and no other was opened yet.
    pub fn is_suspected(&self, node: NodeId) -> bool {
        self.sessions.get(&node).is_some_and(|s| s.over_at.is_some())
    }

    pub fn is_given_up(&self, node: NodeId) -> bool {
        self.given_up.contains(&node)
    }

    /// It registered: a new life, or the old one that was wrongly given up.
    pub fn forgive(&mut self, node: NodeId) {
        self.given_up.remove(&node);
        self.sessions.remove(&node);
    }

    fn is_over(&self, now: Tick, node: NodeId) -> bool {
        self.sessions.get(&node).and_then(|s| s.over_at).is_some_and(|at| at <= now)
    }

    /// What was seen so far proves nothing: sessions that broke are as if they had never been, those that stand may break
    /// for reasons of our own.
    fn start_anew(&mut self) {
        self.sessions.retain(|_, s| s.over_at.is_none());
        self.sessions.values_mut().for_each(|s| s.fresh = false);
    }
}

impl Driver {
    /// After a pause of our own, silence of others proves nothing.
    pub(super) fn note_time(&mut self, now: Tick) {
        if now.since_us(self.seen) > self.timing.pause_us() {
            self.give_a_full_period(now);
        }
    }

    fn give_a_full_period(&mut self, now: Tick) {
        self.heard.values_mut().for_each(|h| h.last = now);
        self.liveness.start_anew();
    }

    pub(super) fn check_nodes(&mut self, now: Tick, meta: &Meta, out: &mut Vec<Effect>) {
        if now < self.liveness.next_check {
            return;
        }
        let deaf = !self.hears_anyone(now, meta);
        let was_deaf = std::mem::replace(&mut self.liveness.deaf, deaf);
        if was_deaf && !self.liveness.deaf {
            self.heard.values_mut().for_each(|h| h.last = now);
        }
        for (id, node) in &meta.nodes {
            let last = self.heard.entry(*id).or_insert(super::nodes::Heard::at(now)).last;
            let is_silent = now > last.plus_ms(self.timing.node_suspect_ms);
            if !node.is_dead() && !self.liveness.deaf && (is_silent || self.liveness.is_over(now, *id)) {
                // The ranges need not wait for the log: what they do about it is safe even if the node lives.
                if self.liveness.given_up.insert(*id) {
                    self.dirty.extend(meta.ranges.keys().copied());
                }
                let incarnation = node.view.incarnation;
                self.propose(now, Command::SetNodeState { id: *id, incarnation, state: NodeState::Dead }, out);
            }
        }
        let regular = now.plus_ms(self.timing.node_heartbeat_ms);
        let graces = self.liveness.sessions.values().filter_map(|s| s.over_at).filter(|at| *at > now);
        self.liveness.next_check = graces.fold(regular, Tick::min);
    }

    /// Whether anyone answers this leader: if nobody does, it is more likely cut off itself than all of them dead.
    fn hears_anyone(&self, now: Tick, meta: &Meta) -> bool {
        meta.nodes.iter().any(|(id, node)| !node.is_dead() && self.answers(now, *id))
    }
}
