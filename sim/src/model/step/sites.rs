//! N's replicas: what reaches them, and what their journals' completions let them say.

use super::Step;
use crate::model::ghost::Rule;
use crate::model::layout::{N, P_NODE, START, agent_node};
use crate::model::message::{Msg, Records};
use crate::model::site::Done;
use seam_wire::msg::SealEntry;
use seam_wire::{Epoch, NodeId, Offset};
use segd_core::replica::{Stored, WriteRequest};

impl Step<'_> {
    pub(super) fn tell_site(&mut self, node: NodeId, msg: Msg) {
        match msg {
            Msg::Replicate { epoch, base, records, seal } => self.replicate(node, epoch, base, records, seal),
            Msg::Fence { epoch } => {
                let tail = self.site_mut(node).edit(|site| site.fence(epoch, agent_node(epoch)));
                if let Some(tail) = tail {
                    self.send(Msg::Promised { node, epoch, tail });
                }
            }
            Msg::Decided { decision } | Msg::Recorded { decision, .. } => {
                self.site_mut(node).edit(|site| site.decide(decision));
                self.claims_decided(N, decision);
            }
            other => unreachable!("a replica is not told {other:?}"),
        }
    }

    pub(super) fn site_mut(&mut self, node: NodeId) -> &mut crate::model::shared::Shared<crate::model::site::Site> {
        &mut self.w.sites[node.0 as usize - 1]
    }

    pub(super) fn replicate(
        &mut self,
        node: NodeId,
        epoch: Epoch,
        base: Offset,
        records: Records,
        seal: Option<SealEntry>,
    ) {
        let next = base.plus(records.len());
        let request = WriteRequest { epoch, start: START, base, next, seal };
        let stored = self.site_mut(node).edit(|site| site.write(request, records));
        if let Some(stored) = stored {
            self.send_stored(node, epoch, stored);
        }
    }

    /// R8: once a fence was raised, the primary is told nothing.
    fn send_stored(&mut self, node: NodeId, epoch: Epoch, stored: Stored) {
        if epoch == Epoch::PRIMARY && self.w.site(node).machine.epoch() > Epoch::PRIMARY {
            self.breaks(Rule::R8);
        }
        self.send(Msg::Stored { node, epoch, end: stored.durable_end, sealed: stored.sealed });
    }

    pub(super) fn synced(&mut self, node: NodeId, nth: usize) {
        let done = self.site_mut(node).edit(|site| site.synced(nth));
        match done {
            Done::Stored { epoch, stored, lawful_vote, vote } => {
                self.note_vote(node, lawful_vote);
                if let Some(stored) = stored {
                    self.send_stored(node, epoch, stored);
                }
                if let Some(seal) = vote {
                    self.send(Msg::SealHeld { prior: N, node, seal });
                }
            }
            Done::Promised(answer) => {
                if node == P_NODE {
                    self.end_writer(); // R8: its own replica is fenced; its primary is over.
                }
                if let Some((epoch, tail)) = answer {
                    self.send(Msg::Promised { node, epoch, tail });
                }
            }
            Done::Nothing => {}
        }
    }

    pub(super) fn note_vote(&mut self, node: NodeId, seal: Option<SealEntry>) {
        if let Some(seal) = seal {
            self.ghost(|ghost| {
                ghost.votes.insert((N, node, seal));
            });
        }
    }
}
