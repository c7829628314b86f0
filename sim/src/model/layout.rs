//! Who is who in every configuration: node and segment ids, specs, and where the segment under test begins.
//!
//! `N` is the second segment of its range, so that its start is not 0 and an offset is never mistaken for a count.

use seam_wire::meta::{Binder, SegmentSpec};
use seam_wire::msg::Decision;
use seam_wire::topic::TopicConfig;
use seam_wire::{Epoch, NodeId, Offset, RangeId, SegmentId, TopicId};
use segd_core::gate::Gate;

pub const ROOT: SegmentId = SegmentId(1);
/// The segment whose end is in question.
pub const N: SegmentId = SegmentId(2);
/// The planned successor of N.
pub const M: SegmentId = SegmentId(3);
/// With a release: a second candidate of N. In a chain: K, the planned successor of M.
pub const SPARE: SegmentId = SegmentId(4);

pub const START: Offset = Offset(5);
/// Replicas of a segment, R.
pub const REPLICAS: usize = 3;
/// Recovery epochs there is room for.
pub const EPOCHS: usize = 3;
/// Segments that may follow: M, the spare, and one candidate an epoch.
pub const SUCCESSORS: usize = 2 + EPOCHS;

/// Where N's primary lives, beside its own replica.
pub const P_NODE: NodeId = NodeId(1);
/// N's replicas.
pub const SITES: [NodeId; REPLICAS] = [NodeId(1), NodeId(2), NodeId(3)];

/// Agents live on the followers of N, in turn.
pub fn agent_node(epoch: Epoch) -> NodeId {
    if epoch.0 % 2 == 1 { NodeId(2) } else { NodeId(3) }
}

/// The part of a configuration that names segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub ack_quorum: u8,
    /// `SPARE` follows M.
    pub chain: bool,
    /// `SPARE` follows N.
    pub release: bool,
}

impl Layout {
    /// The candidate of a recovery epoch of N.
    pub fn candidate(&self, epoch: Epoch) -> SegmentId {
        SegmentId(M.0 + u64::from(self.has_spare()) + epoch.0)
    }

    pub fn has_spare(&self) -> bool {
        self.chain || self.release
    }

    /// Where a successor stands in arrays.
    pub fn slot(&self, segment: SegmentId) -> usize {
        match segment {
            M => 0,
            SPARE if self.has_spare() => 1,
            other => 1 + (other.0 - self.candidate(Epoch(0)).0) as usize,
        }
    }

    pub fn topic_config(&self) -> TopicConfig {
        TopicConfig { ack_quorum: self.ack_quorum, ..TopicConfig::default() }
    }

    pub fn spec(&self, id: SegmentId) -> SegmentSpec {
        let (prior, attempt, replicas, binder) = match id {
            ROOT => (None, 1, [1, 2, 3], Binder::Root),
            N => (Some(ROOT), 1, [1, 2, 3], Binder::Primary),
            M => (Some(N), 1, [4, 5, 6], Binder::Primary),
            SPARE if self.chain => (Some(M), 1, [6, 4, 5], Binder::Primary),
            SPARE if self.release => (Some(N), 2, [5, 6, 4], Binder::Primary),
            candidate => {
                let epoch = Epoch(candidate.0 - self.candidate(Epoch(0)).0);
                let replicas = if epoch.0 % 2 == 1 { [5, 6, 4] } else { [6, 4, 5] };
                let attempt = 1 + u32::from(self.release) + epoch.0 as u32;
                (Some(N), attempt, replicas, Binder::Recovery(epoch))
            }
        };
        SegmentSpec {
            id,
            topic: TopicId(1),
            range: RangeId(1),
            prior,
            attempt,
            replicas: replicas.map(NodeId).to_vec(),
            ack_quorum: self.ack_quorum,
            binder,
            config: self.topic_config(),
        }
    }

    /// The gate of `id` behind its prior.
    pub fn gate(&self, id: SegmentId) -> Gate {
        let prior = self.spec(id).prior.expect("R4: every segment here but the root has a prior");
        let prior = self.spec(prior);
        Gate::after(id, prior.replicas, prior.ack_quorum)
    }

    /// N's gate: the root was decided before the model begins.
    pub fn open_gate(&self) -> Gate {
        let mut gate = self.gate(N);
        gate.decided(Decision { end: START, next: N });
        gate
    }
}
