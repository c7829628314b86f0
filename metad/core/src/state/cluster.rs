//! Commands about nodes: they come, they drain, they die, they come back in another life.

use super::records::Node;
use super::{Changes, Meta};
use crate::command::{Outcome, Refusal};
use seam_wire::meta::{NodeState, NodeView};
use seam_wire::{Incarnation, NodeId};

impl Meta {
    pub(super) fn register_node(
        &mut self,
        id: NodeId,
        name: &str,
        addr: &str,
        domain: &str,
        incarnation: Incarnation,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        // An id is a machine with a disk: two machines under one id would each answer for the other's replicas.
        if let Some(other) = self.nodes.values().find(|n| (n.view.name == name) != (n.view.id == id)) {
            let name = if other.view.id == id { &other.view.name } else { name };
            return Err(Refusal::NodeName { name: name.to_owned(), holder: other.view.id });
        }
        let known = self.nodes.get(&id);
        if let Some(node) = known.filter(|n| n.view.incarnation > incarnation) {
            return Err(Refusal::StaleIncarnation { node: id, current: node.view.incarnation, given: incarnation });
        }
        let draining = known.is_some_and(|n| n.draining);
        let view = NodeView {
            id,
            name: name.to_owned(),
            addr: addr.to_owned(),
            domain: domain.to_owned(),
            incarnation,
            state: Node::alive_state(draining),
        };
        if known.is_some_and(|n| n.view == view) {
            return Ok(Outcome::Done);
        }
        let (primaries, replicas) = known.map_or((0, 0), |n| (n.primaries, n.replicas));
        self.nodes.insert(id, Node { view, draining, primaries, replicas });
        ch.nodes.insert(id);
        Ok(Outcome::Done)
    }

    pub(super) fn set_node_state(
        &mut self,
        id: NodeId,
        incarnation: Incarnation,
        state: NodeState,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let node = self.nodes.get_mut(&id).ok_or(Refusal::UnknownNode(id))?;
        if node.view.incarnation != incarnation {
            let current = node.view.incarnation;
            return Err(Refusal::StaleIncarnation { node: id, current, given: incarnation });
        }
        let (draining, view_state) = match state {
            NodeState::Dead => (node.draining, NodeState::Dead),
            // A wish about a dead node is remembered; only its registration brings it back.
            NodeState::Live | NodeState::Draining => {
                let draining = state == NodeState::Draining;
                (draining, if node.is_dead() { NodeState::Dead } else { Node::alive_state(draining) })
            }
        };
        if node.draining == draining && node.view.state == view_state {
            return Ok(Outcome::Done);
        }
        node.draining = draining;
        node.view.state = view_state;
        ch.nodes.insert(id);
        if view_state == NodeState::Dead {
            self.confirm_for_dead(id, ch);
        }
        Ok(Outcome::Done)
    }

    /// A dead node counts as having confirmed: it reconciles its disk with this state when it returns.
    fn confirm_for_dead(&mut self, node: NodeId, ch: &mut Changes) {
        for id in self.leaving.iter().copied().collect::<Vec<_>>() {
            self.confirm(id, node, ch);
        }
    }
}
