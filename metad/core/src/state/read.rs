//! Reading the state: views for watchers, chains and records for operators. Changes nothing.

use super::records::Segment;
use super::{Counters, Meta};
use crate::history::RollRecord;
use crate::limits::Limits;
use seam_wire::meta::{MetaItem, NodeView, SegmentSpec, SegmentState, SegmentView, TopicView};
use seam_wire::{NodeId, Offset, RangeId, SegmentId, TopicId};

/// A range as an operator asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeView {
    pub id: RangeId,
    pub topic: TopicId,
    pub index: u32,
    /// The open segment of the chain; `None` until the first one is ready, and after the topic's deletion.
    pub head: Option<SegmentId>,
    /// Where the log starts: 0 until retention moves it.
    pub start: Offset,
    /// Bytes of the sealed segments that are kept.
    pub sealed_bytes: u64,
}

/// What retention knows of a sealed segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    pub bytes: u64,
    /// Milliseconds since 1970, by the wall clock of the leader that recorded the seal; 0: not sealed.
    pub sealed_at_ms: u64,
}

impl Meta {
    /// Commands applied so far.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// For model checkers: two states that differ in the number of refused commands alone become equal.
    pub fn forget_version(&mut self) {
        self.version = 0;
    }

    /// The id that the next planned segment gets: all that were ever planned lie below.
    pub fn next_segment(&self) -> SegmentId {
        SegmentId(self.next_segment)
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn counters(&self) -> Counters {
        self.counters
    }

    pub fn node(&self, id: NodeId) -> Option<&NodeView> {
        self.nodes.get(&id).map(|n| &n.view)
    }

    pub fn nodes(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.values().map(|n| &n.view)
    }

    /// Deleted topics included.
    pub fn topic(&self, id: TopicId) -> Option<TopicView> {
        self.topics.get(&id).map(|t| TopicView {
            id,
            name: t.name.clone(),
            config: t.config().clone(),
            ranges: t.ranges.clone(),
            deleted: t.deleted,
        })
    }

    /// Topics that are not deleted, by name.
    pub fn topics(&self) -> impl Iterator<Item = TopicView> {
        self.names.values().filter_map(|id| self.topic(*id))
    }

    /// The topic of this name, unless deleted.
    pub fn topic_named(&self, name: &str) -> Option<TopicView> {
        self.names.get(name).and_then(|id| self.topic(*id))
    }

    pub fn range(&self, id: RangeId) -> Option<RangeView> {
        self.ranges.get(&id).map(|r| RangeView {
            id,
            topic: r.topic,
            index: r.index,
            head: r.head,
            start: r.start,
            sealed_bytes: r.sealed_bytes,
        })
    }

    /// Of a segment of the chain.
    pub fn kept(&self, id: SegmentId) -> Option<Kept> {
        self.segments.get(&id).map(|s| Kept { bytes: s.bytes, sealed_at_ms: s.sealed_at_ms })
    }

    /// Every segment that the state holds, by id.
    pub fn segments(&self) -> impl Iterator<Item = SegmentView> {
        self.segments.iter().map(|(id, s)| self.view(*id, s))
    }

    /// The id was given out, and its segment is no longer in the state: gone from every disk, or to be deleted by those that
    /// were away.
    pub fn has_left(&self, id: SegmentId) -> bool {
        id.0 < self.next_segment && !self.segments.contains_key(&id)
    }

    pub fn segment(&self, id: SegmentId) -> Option<SegmentView> {
        self.segments.get(&id).map(|s| self.view(id, s))
    }

    fn view(&self, id: SegmentId, s: &Segment) -> SegmentView {
        let topic = self.topics.get(&s.topic).expect("a segment has its topic");
        let config = topic.configs.get(s.config as usize).expect("a segment has its settings");
        SegmentView {
            spec: SegmentSpec {
                id,
                topic: s.topic,
                range: s.range,
                prior: s.prior,
                attempt: s.attempt,
                replicas: s.replicas.clone(),
                ack_quorum: s.ack_quorum,
                binder: s.binder,
                config: config.clone(),
            },
            state: s.state.clone(),
            primary_incarnation: s.primary_incarnation,
            recovery: s.recovery.as_deref().cloned(),
            release_asked: s.release_asked,
            roll_requested: s.roll_requested,
            roll_reason: s.roll_reason,
            trace: s.trace,
        }
    }

    /// The chain of a range from its first segment to its open one. Empty for a deleted topic.
    pub fn chain(&self, range: RangeId) -> impl Iterator<Item = SegmentId> {
        let first = self.ranges.get(&range).and_then(|r| r.first);
        let in_chain = move |id: &SegmentId| self.segments.get(id).is_some_and(|s| !s.is_leaving());
        std::iter::successors(first, |id| match self.segments.get(id).map(|s| &s.state) {
            Some(SegmentState::Sealed { next, .. }) => Some(*next),
            Some(
                SegmentState::Planned
                | SegmentState::Ready { .. }
                | SegmentState::Open { .. }
                | SegmentState::Trimmed { .. }
                | SegmentState::Reclaiming
                | SegmentState::Reclaimed,
            )
            | None => None,
        })
        .filter(in_chain)
    }

    /// Every segment of a range that is outside the chain and not gone yet: planned, ready or reclaiming, by id. Not those of
    /// a deleted topic, nor those that hang from a trimmed segment.
    pub fn candidates(&self, range: RangeId) -> Vec<SegmentId> {
        let Some(record) = self.ranges.get(&range) else { return Vec::new() };
        let mut todo = record.roots.clone();
        todo.extend(self.chain(range).filter_map(|id| self.segments.get(&id)).flat_map(|s| s.candidates.iter()));
        let mut found = Vec::new();
        while let Some(id) = todo.pop() {
            found.push(id);
            todo.extend(self.known(id).candidates.iter());
        }
        found.sort_unstable();
        found
    }

    /// Roll records of a range, oldest first; the last `last` of them, all that are kept for 0.
    pub fn history(&self, range: RangeId, last: usize) -> impl Iterator<Item = &RollRecord> {
        let history = self.ranges.get(&range).map(|r| &r.history);
        let skip = history.map_or(0, |h| if last == 0 { 0 } else { h.len().saturating_sub(last) });
        history.into_iter().flatten().skip(skip)
    }

    /// Everything, for a watcher that knows nothing: nodes, topics (deleted ones too), segments, and which ids were given out.
    pub fn all_items(&self) -> Vec<MetaItem> {
        let nodes = self.nodes.values().map(|n| MetaItem::Node(n.view.clone()));
        let topics = self.topics.keys().filter_map(|id| self.topic(*id).map(MetaItem::Topic));
        let segments = self.segments.iter().map(|(id, s)| MetaItem::Segment(self.view(*id, s)));
        let next_segment = self.next_segment();
        let ids = (next_segment > SegmentId(1)).then_some(MetaItem::Ids { next_segment });
        nodes.chain(topics).chain(segments).chain(ids).collect()
    }

    /// Segments whose replicas have not all confirmed that they are gone, with those that are missing.
    pub fn reclaiming(&self) -> impl Iterator<Item = (SegmentId, &[NodeId])> {
        self.leaving.iter().map(|id| (*id, self.known(*id).unconfirmed.as_slice()))
    }
}
