//! Recovery: metad appoints, agents ask, copy, begin their candidates, and report.

use super::Step;
use crate::model::layout::{M, N, START, agent_node};
use crate::model::message::Msg;
use crate::model::shared::Shared;
use crate::model::world;
use seam_wire::meta::Binder;
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::{Epoch, NodeId, Offset};
use segd_core::recovery::Agent;
use segd_core::traps::Trap;

impl Step<'_> {
    pub(super) fn appoint(&mut self) {
        let layout = self.config.layout;
        let epoch = Epoch(self.w.facts.epoch.0 + 1);
        self.w.metad.edit(|metad| metad.appoint(&layout, epoch, agent_node(epoch)));
        self.w.facts = self.w.metad.facts();
        let candidate = layout.candidate(epoch);
        self.w.successors[layout.slot(candidate)] = Some(Shared::new(world::ready(&layout, candidate)));
        self.start_agent(epoch);
    }

    fn start_agent(&mut self, epoch: Epoch) {
        let layout = self.config.layout;
        // Trap V1: the agent takes what "has never begun".
        let candidate = if self.trap == Trap::V1AnyBinder { M } else { layout.candidate(epoch) };
        let agent = Agent::new(&layout.spec(N), epoch, candidate, START);
        self.w.agents[epoch.0 as usize - 1] = Some(Shared::new(agent));
        self.send(Msg::Fence { epoch });
        self.tell_site(agent_node(epoch), Msg::Fence { epoch });
    }

    /// Trap V5: the new process takes the old one's appointment for its own.
    pub(super) fn agent_resumes(&mut self, epoch: Epoch) {
        self.w.fallen &= !(1 << epoch.0);
        self.start_agent(epoch);
    }

    fn agent_mut(&mut self, epoch: Epoch) -> Option<&mut Shared<Agent>> {
        self.w.agents.get_mut((epoch.0 as usize).wrapping_sub(1))?.as_mut()
    }

    pub(super) fn tell_agent(&mut self, epoch: Epoch, msg: Msg) {
        let Some(agent) = self.agent_mut(epoch) else { return };
        match msg {
            Msg::Promised { node, tail, .. } => {
                agent.edit(|agent| agent.promised(node, tail));
            }
            Msg::Stored { node, end, .. } => agent.edit(|agent| agent.holds(node, end)),
            other => unreachable!("an agent is not told {other:?}"),
        }
        self.drive_agent(epoch);
    }

    pub(super) fn agent_gives_up(&mut self, epoch: Epoch) {
        if let Some(agent) = self.agent_mut(epoch) {
            agent.edit(Agent::give_up_on_silent);
            self.drive_agent(epoch);
        }
    }

    fn drive_agent(&mut self, epoch: Epoch) {
        let Some(agent) = self.agent_mut(epoch) else { return };
        let Some(decision) = agent.decision() else { return };
        let (behind, candidate, safe) = (agent.behind(), agent.candidate(), agent.safe());
        if !self.w.ghost.fixed.contains(&(epoch, decision)) {
            self.ghost(|ghost| {
                ghost.fixed.insert((epoch, decision));
            });
        }
        for (node, held) in behind {
            self.copy(epoch, node, held, decision);
        }
        if self.trap == Trap::V2CopiesVote {
            self.copy_seal(epoch, decision);
        }
        if decision.next == candidate {
            let by = Binder::Recovery(epoch);
            self.send(Msg::Begin { segment: candidate, by, end: decision.end });
        }
        if let Some(decision) = safe {
            self.send(Msg::Recovered { epoch, decision });
        }
    }

    /// Records below the end, from a replica that holds more. Read at once: what is durable below the end never changes.
    fn copy(&mut self, epoch: Epoch, node: NodeId, held: Offset, decision: Decision) {
        let Some(source) = self.w.agent(epoch).and_then(|agent| agent.source(held)) else { return };
        let records = self.w.site(source).durable(held, decision.end);
        if records.is_empty() {
            return;
        }
        let msg = Msg::Replicate { epoch, base: held, records, seal: None };
        if self.w.net.insert(msg) && node == agent_node(epoch) {
            self.tell_site(node, msg);
        }
    }

    /// Trap V2: an agent that found the seal entry copies it too.
    fn copy_seal(&mut self, epoch: Epoch, decision: Decision) {
        let fits = |seal: &SealEntry| seal.end == decision.end && seal.next == decision.next;
        let seal = self.w.sites.iter().find_map(|site| site.seal_on_disk().filter(fits));
        let Some(seal) = seal.filter(|_| decision.next == M) else { return };
        let records = Default::default();
        self.send(Msg::Replicate { epoch, base: decision.end, records, seal: Some(seal) });
    }
}
