//! The newest picture of topics, chains, candidates and nodes, built from metad's watch. Not a place for what segd says:
//! a `Moved` or an `End` runs ahead of this picture, and producers and tails keep those to themselves.

mod lookup;
mod range;

use range::RangeIndex;
use seam_wire::meta::{MetaItem, MetaUpdate, NodeView, SegmentState, SegmentView, TopicView};
use seam_wire::{NodeId, RangeId, SegmentId, TopicId};
use std::collections::{BTreeMap, BTreeSet};

/// What an update touched: whom to wake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Ranges whose chain, candidates or topic changed.
    pub ranges: BTreeSet<RangeId>,
    /// A node came, went or changed.
    pub nodes: bool,
    /// The update was not newer than what is known (a lagging member sent it); nothing changed.
    pub stale: bool,
}

/// Topics, ranges, segments and nodes as metad last told them.
#[derive(Clone, Debug, Default)]
pub struct Chains {
    version: u64,
    nodes: BTreeMap<NodeId, NodeView>,
    topics: BTreeMap<TopicId, TopicView>,
    by_name: BTreeMap<String, TopicId>,
    segments: BTreeMap<SegmentId, SegmentView>,
    ranges: BTreeMap<RangeId, RangeIndex>,
    /// Every id below was given out: one that is not among the segments is gone for good.
    next_segment: SegmentId,
    /// The newest ids of candidates that were not chosen and are gone: nothing of them is in any chain. Of older ones it is
    /// not remembered which they were.
    unchosen: BTreeSet<SegmentId>,
}

/// Ids of candidates remembered beyond their end: more than are ever on their way in one router.
const MAX_UNCHOSEN: usize = 4096;

impl Chains {
    /// The version of metad's state this picture shows; 0: nothing known yet.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Takes one update of the watch. Updates that are not newer than the picture are left out and told as `stale`: views
    /// are levels, so nothing is lost by it.
    pub fn apply(&mut self, update: MetaUpdate) -> Changes {
        let mut changes = Changes::default();
        if update.version <= self.version {
            changes.stale = true;
            return changes;
        }
        if update.reset {
            changes.ranges.extend(self.ranges.keys());
            changes.nodes = true;
            *self = Chains::default();
        }
        self.version = update.version;
        for item in update.items {
            match item {
                MetaItem::Topic(topic) => self.upsert_topic(topic, &mut changes),
                MetaItem::Segment(segment) => self.upsert_segment(segment, &mut changes),
                MetaItem::Node(node) => {
                    changes.nodes = true;
                    self.nodes.insert(node.id, node);
                }
                MetaItem::Ids { next_segment } => self.next_segment = self.next_segment.max(next_segment),
            }
        }
        changes
    }

    fn upsert_topic(&mut self, topic: TopicView, changes: &mut Changes) {
        for (index, range) in topic.ranges.iter().enumerate() {
            let entry = self.ranges.entry(*range).or_default();
            entry.topic = Some(topic.id);
            entry.index = index as u32;
            changes.ranges.insert(*range);
        }
        // A deleted topic may have left its name to a newer one.
        if !topic.deleted {
            self.by_name.insert(topic.name.clone(), topic.id);
        } else if self.by_name.get(&topic.name) == Some(&topic.id) {
            self.by_name.remove(&topic.name);
        }
        self.topics.insert(topic.id, topic);
    }

    fn upsert_segment(&mut self, view: SegmentView, changes: &mut Changes) {
        let (id, range) = (view.spec.id, view.spec.range);
        changes.ranges.insert(range);
        self.next_segment = self.next_segment.max(SegmentId(id.0 + 1));
        let index = self.ranges.entry(range).or_default();
        let old = self.segments.get(&id);
        if let Some(old) = old {
            index.remove(old);
        }
        if view.state == SegmentState::Reclaimed {
            // Where its last state was missed nothing is known of it.
            if old.is_some_and(|old| !was_in_chain(&old.state)) {
                self.unchosen.insert(id);
                if self.unchosen.len() > MAX_UNCHOSEN {
                    self.unchosen.pop_first();
                }
            }
            self.segments.remove(&id);
            return;
        }
        index.insert(&view);
        self.segments.insert(id, view);
    }
}

fn was_in_chain(state: &SegmentState) -> bool {
    match state {
        SegmentState::Open { .. } | SegmentState::Sealed { .. } | SegmentState::Trimmed { .. } => true,
        SegmentState::Planned | SegmentState::Ready { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed => {
            false
        }
    }
}
