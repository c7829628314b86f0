//! The replicated state: a function of the committed log alone (R11).
//!
//! `apply` checks first and changes after, so that a refused command changes nothing but the version. Each kind of
//! command has its file; the few transitions of a segment are all in `transitions`. No clock, no randomness, no hash maps.

mod cluster;
mod invariants;
mod prepare;
mod read;
mod reclaim;
pub(crate) mod records;
mod roll;
mod snapshot;
mod topics;
mod transitions;
mod trim;

pub use invariants::Violation;
pub use read::{Kept, RangeView};
pub use snapshot::RestoreError;

use crate::command::{Command, Outcome, Refusal};
use crate::limits::Limits;
use records::{Node, Range, Segment, Topic};
use seam_wire::meta::{MetaItem, SegmentView};
use seam_wire::{NodeId, RangeId, SegmentId, TopicId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// How many candidates there were, and what became of them: `made == used + reclaimed + open` (R10).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Counters {
    pub made: u64,
    /// Chosen: they entered a chain.
    pub used: u64,
    /// Not chosen, and gone from every disk.
    pub reclaimed: u64,
    /// Planned, ready or being reclaimed.
    pub open: u64,
}

/// metad's state. Cheap to read, `Clone + Eq + Hash` so that a model checker can hold it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Meta {
    version: u64,
    limits: Limits,
    pub(crate) next_topic: u64,
    next_range: u64,
    next_segment: u64,
    pub(crate) nodes: BTreeMap<NodeId, Node>,
    pub(crate) topics: BTreeMap<TopicId, Topic>,
    names: BTreeMap<String, TopicId>,
    pub(crate) ranges: BTreeMap<RangeId, Range>,
    pub(crate) segments: BTreeMap<SegmentId, Segment>,
    /// Segments whose replicas are to delete them and confirm: `Reclaiming` and `Trimmed`.
    leaving: BTreeSet<SegmentId>,
    counters: Counters,
    /// Segments that left the state, as `counters` counts them: (used, reclaimed).
    left: (u64, u64),
}

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub outcome: Outcome,
    /// The views that changed, as they are now: nodes, topics, segments, each by id. Empty for a refused command.
    pub items: Vec<MetaItem>,
}

/// Ids touched by one command.
#[derive(Debug, Default)]
struct Changes {
    nodes: BTreeSet<NodeId>,
    topics: BTreeSet<TopicId>,
    segments: BTreeSet<SegmentId>,
    /// The last views of segments that left the state.
    left: BTreeMap<SegmentId, SegmentView>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.nodes.is_empty() && self.topics.is_empty() && self.segments.is_empty() && self.left.is_empty()
    }
}

impl Default for Meta {
    fn default() -> Self {
        Meta::new(Limits::default())
    }
}

impl Meta {
    /// The empty state. Every member must start with the same limits.
    pub fn new(limits: Limits) -> Self {
        Meta {
            version: 0,
            limits,
            next_topic: 1,
            next_range: 1,
            next_segment: 1,
            nodes: BTreeMap::new(),
            topics: BTreeMap::new(),
            names: BTreeMap::new(),
            ranges: BTreeMap::new(),
            segments: BTreeMap::new(),
            leaving: BTreeSet::new(),
            counters: Counters::default(),
            left: (0, 0),
        }
    }

    /// Applies the next command of the log. Total: any command in any state has an outcome.
    ///
    /// # Panics
    /// When an invariant is broken: going on would spread the damage.
    pub fn apply(&mut self, command: &Command) -> Applied {
        self.version += 1;
        let mut changes = Changes::default();
        let outcome = match self.dispatch(command, &mut changes) {
            Ok(outcome) => outcome,
            Err(why) => {
                assert!(changes.is_empty(), "a refused command changes nothing: {command:?} changed {changes:?}");
                Outcome::Refused { why }
            }
        };
        self.assert_after(&changes, command);
        Applied { outcome, items: self.items(&changes) }
    }

    fn dispatch(&mut self, command: &Command, ch: &mut Changes) -> Result<Outcome, Refusal> {
        match command {
            Command::RegisterNode { id, name, addr, domain, incarnation } => {
                self.register_node(*id, name, addr, domain, *incarnation, ch)
            }
            Command::SetNodeState { id, incarnation, state } => self.set_node_state(*id, *incarnation, *state, ch),
            Command::CreateTopic { id, name, config, placements } => {
                self.create_topic(*id, name, config, placements, ch)
            }
            Command::AlterTopic { topic, expected, config } => self.alter_topic(*topic, expected, config, ch),
            Command::DeleteTopic { topic } => self.delete_topic(*topic, ch),
            Command::PrepareRoot { range, attempt, replicas } => self.prepare_root(*range, *attempt, replicas, ch),
            Command::Prepare { prior, attempt, replicas, trace } => {
                self.prepare(*prior, *attempt, replicas, *trace, ch)
            }
            Command::MarkReady { segment, open_on, incarnation, opening } => {
                self.mark_ready(*segment, open_on, *incarnation, *opening, ch)
            }
            Command::AskRelease { segment } => self.ask_release(*segment, ch),
            Command::Released { segment, node, incarnation } => self.released(*segment, *node, *incarnation, ch),
            Command::Recover { segment, agent, agent_incarnation, expected_epoch, replicas, trace, loss_accepted } => {
                let how = (replicas.as_slice(), *trace, *loss_accepted);
                self.recover(*segment, (*agent, *agent_incarnation), *expected_epoch, how, ch)
            }
            Command::CommitRoll { segment, end, next, by, stats, ready_us, recovery, bytes, sealed_at_ms } => {
                let measured = (**stats, *ready_us, recovery.as_deref().copied());
                self.commit_roll(*segment, (*end, *next), *by, measured, (*bytes, *sealed_at_ms), ch)
            }
            Command::Trim { range, first, keep } => self.trim(*range, *first, *keep, ch),
            Command::ConfirmReclaimed { segment, node } => self.confirm_reclaimed(*segment, *node, ch),
            Command::RequestRoll { segment, expected, reason, trace } => {
                self.request_roll(*segment, *expected, (*reason, *trace), ch)
            }
            Command::GateOpened { segment, gate } => self.gate_opened(*segment, *gate),
            Command::RollRecorded { segment, record_us } => self.roll_recorded(*segment, *record_us),
        }
    }

    fn items(&self, ch: &Changes) -> Vec<MetaItem> {
        let nodes = ch.nodes.iter().filter_map(|id| self.node(*id).cloned().map(MetaItem::Node));
        let topics = ch.topics.iter().filter_map(|id| self.topic(*id).map(MetaItem::Topic));
        let segment = |id: &SegmentId| self.segment(*id).or_else(|| ch.left.get(id).cloned()).map(MetaItem::Segment);
        let segments = ch.segments.iter().filter_map(segment);
        nodes.chain(topics).chain(segments).collect()
    }

    pub(crate) fn seg(&self, id: SegmentId) -> Result<&Segment, Refusal> {
        self.segments.get(&id).ok_or(Refusal::UnknownSegment(id))
    }

    /// A segment that a record names and that cannot have left: a head, a candidate, the prior of a candidate, the next of a
    /// sealed one. Its presence is an invariant.
    pub(crate) fn known(&self, id: SegmentId) -> &Segment {
        self.segments.get(&id).expect("a segment that a chain or a candidate hangs from does not leave the state")
    }

    fn known_mut(&mut self, id: SegmentId) -> &mut Segment {
        self.segments.get_mut(&id).expect("a segment that a chain or a candidate hangs from does not leave the state")
    }
}
