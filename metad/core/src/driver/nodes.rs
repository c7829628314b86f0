//! Who is heard, and who is fit for what: to hold a new segment, to recover one, to keep what it has. Who is taken for
//! dead is decided in `liveness`.

use super::Driver;
use super::io::SessionId;
use crate::command::Command;
use crate::placement::{self, Ask, Candidate, Fitness, NoPlace};
use crate::state::Meta;
use crate::state::records::{Node, Segment};
use crate::tick::Tick;
use seam_wire::meta::{NodeState, NodeView};
use seam_wire::topic::{Placement, TopicConfig};
use seam_wire::{Incarnation, NodeId};
use std::collections::BTreeMap;

/// The last heartbeat of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub last: Tick,
    /// `None` until the first heartbeat to this leader.
    pub free_bytes: Option<u64>,
    pub write_bytes_per_s: u64,
    pub open_segments: u32,
    pub disk_failed: bool,
}

impl Heard {
    pub fn at(now: Tick) -> Heard {
        Heard { last: now, free_bytes: None, write_bytes_per_s: 0, open_segments: 0, disk_failed: false }
    }
}

/// A node as an operator asks for it: the committed view and what this leader heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    pub view: NodeView,
    /// Segments that are planned, ready or open here.
    pub primaries: u32,
    pub replicas: u32,
    /// `None` where this member has heard nothing: it does not lead, or not for long.
    pub free_bytes: Option<u64>,
    pub write_bytes_per_s: u64,
    /// Open segments as the node itself counts them.
    pub open_segments: u32,
    pub disk_failed: bool,
    pub heartbeat_age_ms: Option<u64>,
}

impl Driver {
    /// Every registered node, by id.
    pub fn nodes(&self, now: Tick, meta: &Meta) -> Vec<NodeReport> {
        let report = |(id, node): (&NodeId, &Node)| {
            let heard = self.heard.get(id);
            NodeReport {
                view: node.view.clone(),
                primaries: node.primaries,
                replicas: node.replicas,
                free_bytes: heard.and_then(|h| h.free_bytes),
                write_bytes_per_s: heard.map_or(0, |h| h.write_bytes_per_s),
                open_segments: heard.map_or(0, |h| h.open_segments),
                disk_failed: heard.is_some_and(|h| h.disk_failed),
                heartbeat_age_ms: heard.filter(|h| h.free_bytes.is_some()).map(|h| now.since_us(h.last) / 1000),
            }
        };
        meta.nodes.iter().map(report).collect()
    }

    /// Whether the node is registered in this life and not taken for dead.
    pub(super) fn take_heartbeat(
        &mut self,
        now: Tick,
        meta: &Meta,
        (id, incarnation): (NodeId, Incarnation),
        (session, round_trip_us): (SessionId, u64),
        beat: Heard,
    ) -> bool {
        let known = meta.nodes.get(&id).is_some_and(|n| n.view.incarnation == incarnation && !n.is_dead());
        if known {
            let was_reachable = self.is_reachable(now, meta, id);
            let before = self.heard.insert(id, beat);
            self.liveness.note_session(id, session, round_trip_us);
            if !was_reachable || before.is_some_and(|b| b.disk_failed != beat.disk_failed) {
                self.dirty.extend(meta.ranges.keys().copied());
            }
        }
        known
    }

    pub(super) fn fitness(&self, now: Tick, id: NodeId, node: &Node) -> Fitness {
        let heard = self.heard.get(&id);
        if heard.is_some_and(|h| h.disk_failed) {
            return Fitness::DiskFailed;
        }
        if self.liveness.is_given_up(id) {
            return Fitness::Dead;
        }
        match node.view.state {
            NodeState::Dead => Fitness::Dead,
            NodeState::Draining => Fitness::Draining,
            NodeState::Live if self.answers(now, id) => Fitness::Usable,
            NodeState::Live => Fitness::Suspect,
        }
    }

    /// This leader itself heard from it, lately, and its session stands.
    pub(super) fn answers(&self, now: Tick, id: NodeId) -> bool {
        let fresh = |h: &Heard| h.free_bytes.is_some() && now <= h.last.plus_ms(self.timing.quiet_ms());
        self.heard.get(&id).is_some_and(fresh) && !self.liveness.is_suspected(id)
    }

    /// It answers, and is not lost.
    pub(super) fn is_reachable(&self, now: Tick, meta: &Meta, id: NodeId) -> bool {
        self.answers(now, id) && !self.is_lost(meta, id)
    }

    /// Taken for dead, or its disk is out of service: no copy there can grow.
    pub(super) fn is_lost(&self, meta: &Meta, id: NodeId) -> bool {
        let disk_failed = self.heard.get(&id).is_some_and(|h| h.disk_failed);
        disk_failed || self.liveness.is_given_up(id) || meta.nodes.get(&id).is_none_or(|n| n.is_dead())
    }

    /// Lost, or an operator wants it empty: a segment should not stay there.
    pub(super) fn is_leaving(&self, meta: &Meta, id: NodeId) -> bool {
        let draining = meta.nodes.get(&id).is_some_and(|n| n.view.state == NodeState::Draining);
        draining || self.is_lost(meta, id)
    }

    /// The process that may write this segment is over.
    pub(super) fn primary_is_over(&self, meta: &Meta, segment: &Segment) -> bool {
        let id = segment.primary();
        let current = meta.nodes.get(&id).map(|n| n.view.incarnation);
        let restarted = segment.primary_incarnation.is_some_and(|i| Some(i) != current);
        restarted || self.is_lost(meta, id)
    }

    /// Replicas for a segment of this topic on healthy nodes alone.
    pub(super) fn place_strict(
        &self,
        now: Tick,
        meta: &Meta,
        config: &TopicConfig,
        prior: &[NodeId],
        turn: u64,
    ) -> Result<Vec<NodeId>, NoPlace> {
        let replicas = usize::from(config.replicas);
        self.place(now, meta, config, replicas, prior, turn, &[])
    }

    /// Replicas for a successor: healthy nodes, or as many as a quorum needs and the rest to come back.
    pub(super) fn place_successor(
        &self,
        now: Tick,
        meta: &Meta,
        config: &TopicConfig,
        prior: &[NodeId],
        avoid: &[NodeId],
    ) -> Result<Vec<NodeId>, NoPlace> {
        self.place(now, meta, config, config.open_quorum(), prior, 0, avoid)
    }

    #[expect(clippy::too_many_arguments, reason = "each is one part of the question")]
    fn place(
        &self,
        now: Tick,
        meta: &Meta,
        config: &TopicConfig,
        min_usable: usize,
        prior: &[NodeId],
        turn: u64,
        avoid: &[NodeId],
    ) -> Result<Vec<NodeId>, NoPlace> {
        let ask = Ask {
            replicas: usize::from(config.replicas),
            min_usable,
            policy: config.placement,
            prior,
            turn,
            avoid,
            segment_bytes: config.segment_bytes,
        };
        placement::place(&self.candidates(now, meta), &ask)
    }

    /// The nodes with their load, that of proposals on their way included.
    fn candidates(&self, now: Tick, meta: &Meta) -> Vec<Candidate> {
        let mut coming: BTreeMap<NodeId, (u32, u32)> = BTreeMap::new();
        for replicas in self.pending.commands().flat_map(replica_sets) {
            for (i, node) in replicas.iter().enumerate() {
                let load = coming.entry(*node).or_default();
                load.0 += u32::from(i == 0);
                load.1 += 1;
            }
        }
        let candidate = |(id, node): (&NodeId, &Node)| {
            let (primaries, replicas) = coming.get(id).copied().unwrap_or_default();
            let heard = self.heard.get(id);
            Candidate {
                id: *id,
                domain: node.view.domain.clone(),
                fitness: self.fitness(now, *id, node),
                free_bytes: heard.and_then(|h| h.free_bytes),
                write_bytes_per_s: heard.map_or(0, |h| h.write_bytes_per_s),
                primaries: node.primaries + primaries,
                replicas: node.replicas + replicas,
            }
        };
        meta.nodes.iter().map(candidate).collect()
    }

    /// Places the first segments of all ranges of a new topic, each aware of those before it.
    pub(super) fn place_topic(
        &self,
        now: Tick,
        meta: &Meta,
        config: &TopicConfig,
    ) -> Result<Vec<Vec<NodeId>>, NoPlace> {
        let mut nodes = self.candidates(now, meta);
        let mut placements = Vec::with_capacity(config.ranges as usize);
        for turn in 0..u64::from(config.ranges) {
            let replicas = usize::from(config.replicas);
            let ask = Ask {
                replicas,
                min_usable: replicas,
                policy: first_policy(config.placement),
                prior: &[],
                turn,
                avoid: &[],
                segment_bytes: config.segment_bytes,
            };
            let placed = placement::place(&nodes, &ask)?;
            for node in nodes.iter_mut().filter(|n| placed.contains(&n.id)) {
                node.replicas += 1;
                node.primaries += u32::from(placed.first() == Some(&node.id));
            }
            placements.push(placed);
        }
        Ok(placements)
    }
}

/// A first segment has no primary to stay with.
fn first_policy(policy: Placement) -> Placement {
    match policy {
        Placement::Balanced | Placement::Sticky => Placement::Balanced,
        Placement::RoundRobin => Placement::RoundRobin,
    }
}

fn replica_sets(command: &Command) -> Vec<&[NodeId]> {
    match command {
        Command::CreateTopic { placements, .. } => placements.iter().map(Vec::as_slice).collect(),
        Command::PrepareRoot { replicas, .. }
        | Command::Prepare { replicas, .. }
        | Command::Recover { replicas, .. } => vec![replicas],
        Command::RegisterNode { .. }
        | Command::SetNodeState { .. }
        | Command::AlterTopic { .. }
        | Command::DeleteTopic { .. }
        | Command::MarkReady { .. }
        | Command::AskRelease { .. }
        | Command::Released { .. }
        | Command::CommitRoll { .. }
        | Command::Trim { .. }
        | Command::ConfirmReclaimed { .. }
        | Command::RequestRoll { .. }
        | Command::GateOpened { .. }
        | Command::RollRecorded { .. } => Vec::new(),
    }
}
