//! Steps from one state to the next. Glue alone: what a node's shell does between its machines, with every decision theirs.
//!
//! A step that breaks an assertion of a machine leaves the state as it was, marked as broken.

mod agents;
mod faults;
mod sites;
mod successors;
mod writer;

use super::config::Config;
use super::ghost::{Ghost, Rule};
use super::layout::{EPOCHS, N};
use super::message::Msg;
use super::world::World;
use metad_core::RollBy;
use seam_wire::msg::Decision;
use seam_wire::{Epoch, NodeId, Offset, SegmentId};
use segd_core::traps::Trap;

/// Whom a message reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    Writer,
    Site(NodeId),
    Successor(SegmentId),
    Agent(Epoch),
    Metad,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// P assigns a record and sends it.
    Write,
    /// P chooses its end and a successor.
    Switch,
    /// P tells the successor.
    Begin,
    /// An entry of a journal queue is durable.
    Synced {
        node: NodeId,
        nth: usize,
    },
    Deliver {
        msg: Msg,
        to: To,
    },
    /// A begun successor assigns a record, at once on A replicas.
    SuccessorWrites(SegmentId),
    /// M chooses its end and K.
    SuccessorSwitches,
    /// A producer repeats N's last record at M's primary.
    Retry,
    /// metad appoints the next agent.
    Appoint,
    /// An agent waits no more for replicas that say nothing.
    GiveUp(Epoch),
    /// metad wants M back.
    AskRelease,
    /// A node restarts; the first `kept` entries of its queue had reached the disk.
    Crash {
        node: NodeId,
        kept: usize,
    },
    LoseDisk {
        node: NodeId,
    },
    /// Trap V5 alone: a restarted agent goes on.
    AgentResumes(Epoch),
}

pub struct Step<'a> {
    pub config: &'a Config,
    pub trap: Trap,
    pub w: World,
}

impl Step<'_> {
    pub fn take(mut self, action: Action) -> World {
        match action {
            Action::Write => self.writer_writes(),
            Action::Switch => self.writer_switches(),
            Action::Begin => self.writer_begins(),
            Action::Synced { node, nth } => self.synced(node, nth),
            Action::Deliver { msg, to } => self.deliver(msg, to),
            Action::SuccessorWrites(segment) => self.successor_writes(segment),
            Action::SuccessorSwitches => self.successor_switches(),
            Action::Retry => self.retry(),
            Action::Appoint => self.appoint(),
            Action::GiveUp(epoch) => self.agent_gives_up(epoch),
            Action::AskRelease => {
                let views = self.w.metad.edit(|metad| metad.ask_release(super::layout::M));
                self.told_by_metad(views);
            }
            Action::Crash { node, kept } => self.crash(node, kept),
            Action::LoseDisk { node } => self.lose_disk(node),
            Action::AgentResumes(epoch) => self.agent_resumes(epoch),
        }
        self.w
    }

    fn deliver(&mut self, msg: Msg, to: To) {
        match to {
            To::Writer => self.tell_writer(msg),
            To::Site(node) => self.tell_site(node, msg),
            To::Successor(segment) => self.tell_successor(segment, msg),
            To::Agent(epoch) => self.tell_agent(epoch, msg),
            To::Metad => self.tell_metad(msg),
        }
    }

    /// Into the network; or, where nothing is lost by it, straight to the one it is for.
    fn send(&mut self, msg: Msg) {
        match msg {
            Msg::Stored { node, epoch, .. } => {
                let to = if epoch == Epoch::PRIMARY { To::Writer } else { To::Agent(epoch) };
                // A node's word to itself is heard before anything else is.
                if self.config.eager || self.home(to) == Some(node) { self.deliver(msg, to) } else { self.put(msg) }
            }
            Msg::Promised { node, epoch, .. } if self.home(To::Agent(epoch)) == Some(node) => {
                self.tell_agent(epoch, msg);
            }
            Msg::SealHeld { seal, .. } if self.config.eager => self.tell_successor(seal.next, msg),
            Msg::Replicate { .. }
            | Msg::SealHeld { .. }
            | Msg::Begin { .. }
            | Msg::Decided { .. }
            | Msg::Fence { .. }
            | Msg::Promised { .. }
            | Msg::Sealed { .. }
            | Msg::Recovered { .. }
            | Msg::Released { .. }
            | Msg::Recorded { .. }
            | Msg::SpareReady
            | Msg::ReleaseAsked { .. }
            | Msg::Reclaimed { .. } => self.put(msg),
        }
    }

    fn put(&mut self, msg: Msg) {
        self.w.net.insert(msg);
    }

    fn home(&self, to: To) -> Option<NodeId> {
        match to {
            To::Writer => Some(super::layout::P_NODE),
            To::Site(node) => Some(node),
            To::Agent(epoch) => Some(super::layout::agent_node(epoch)),
            To::Successor(_) | To::Metad => None,
        }
    }

    fn tell_metad(&mut self, msg: Msg) {
        let layout = &self.config.layout;
        let views = match msg {
            Msg::Sealed { segment, decision } => {
                self.w.metad.edit(|metad| metad.commit(layout, segment, decision, RollBy::Planned))
            }
            Msg::Recovered { epoch, decision } => {
                self.w.metad.edit(|metad| metad.commit(layout, N, decision, RollBy::Recovery(epoch)))
            }
            Msg::Released { segment } => {
                let binder = layout.spec(N).primary();
                self.w.metad.edit(|metad| metad.released(segment, binder))
            }
            other => unreachable!("metad is not told {other:?}"),
        };
        self.told_by_metad(views);
    }

    /// metad's state moved: what watchers may hear from now on.
    fn told_by_metad(&mut self, views: Vec<Msg>) {
        self.w.facts = self.w.metad.facts();
        for view in views {
            if let Msg::Recorded { segment, decision } = view {
                self.claims_decided(segment, decision);
                self.ghost(|ghost| {
                    ghost.shown.insert((segment, decision));
                });
            }
            self.put(view);
            if let Msg::Recorded { segment: N, .. } = view {
                self.tell_recoveries(view);
            }
        }
    }

    /// Candidates of recoveries hear metad at once: no other word opens their gates, so nothing they do before it counts.
    fn tell_recoveries(&mut self, view: Msg) {
        for epoch in (1..=EPOCHS as u64).map(Epoch) {
            self.tell_successor(self.config.layout.candidate(epoch), view);
        }
    }

    fn ghost(&mut self, change: impl FnOnce(&mut Ghost)) {
        self.w.ghost.edit(change);
    }

    fn breaks(&mut self, rule: Rule) {
        self.ghost(|ghost| ghost.breaks(rule));
    }

    /// Somebody acts on `segment` being decided.
    fn claims_decided(&mut self, segment: SegmentId, decision: Decision) {
        if !self.w.ghost.decided.contains(&(segment, decision)) {
            self.ghost(|ghost| {
                ghost.decided.insert((segment, decision));
            });
        }
    }

    /// N's record at `offset` is acked; at least `needed` disks must hold it.
    fn ack(&mut self, offset: Offset, record: u8, needed: usize) {
        if self.w.ghost.acked.contains(&(N, offset, record)) {
            return;
        }
        let (holders, lost) = self.w.holders(offset, record);
        self.ghost(|ghost| {
            ghost.acked.insert((N, offset, record));
            if holders + lost < needed {
                ghost.breaks(Rule::AckedUnheld);
            }
        });
    }
}
