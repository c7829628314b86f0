//! Restarts and lost disks.

use super::Step;
use crate::model::layout::{EPOCHS, M, N, P_NODE, START, agent_node};
use crate::model::message::Msg;
use crate::model::shared::Shared;
use crate::model::world::{Writer, tell_candidate};
use seam_wire::msg::SealEntry;
use seam_wire::{Epoch, NodeId};
use segd_core::handoff::Handoff;
use segd_core::primary::Primary;
use segd_core::traps::Trap;

impl Step<'_> {
    pub(super) fn crash(&mut self, node: NodeId, kept: usize) {
        self.w.crashes -= 1;
        let vote = self.site_mut(node).edit(|site| site.restart(kept));
        self.note_vote(node, self.w.site(node).lawful_vote_on_disk());
        self.after_restart(node, vote);
        if self.trap == Trap::V4ResumeAfterRestart && node == P_NODE {
            self.writer_resumes();
        }
    }

    pub(super) fn lose_disk(&mut self, node: NodeId) {
        self.w.lost_disks -= 1;
        let vote = self.site_mut(node).edit(|site| site.lose_disk());
        self.after_restart(node, vote);
    }

    /// Rights end with the process; those that wait for the seal entry ask again.
    fn after_restart(&mut self, node: NodeId, vote: Option<SealEntry>) {
        if node == P_NODE {
            self.w.writer = None;
        }
        for epoch in (1..=EPOCHS as u64).map(Epoch) {
            let agent = &mut self.w.agents[epoch.0 as usize - 1];
            if agent.is_some() && agent_node(epoch) == node {
                *agent = None;
                self.w.fallen |= 1 << epoch.0;
            }
        }
        if let Some(seal) = vote {
            self.send(Msg::SealHeld { prior: N, node, seal });
        }
    }

    /// Trap V4: the next life goes on where its own disk ends.
    fn writer_resumes(&mut self) {
        let layout = self.config.layout;
        let site = self.w.site(P_NODE);
        let end = site.durable_end();
        let machine = Primary::resumed(&layout.spec(N), layout.open_gate(), START, end);
        let mut handoff = Handoff::default();
        tell_candidate(&mut handoff, &layout, M);
        let log = site.durable(START, end);
        self.w.writer = Some(Shared::new(Writer { machine, handoff, log, begin_sent: false, life: 1 }));
    }
}
