//! Questions to the picture. All are pure and cheap: a few map lookups each.

use super::Chains;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::meta::{NodeState, NodeView, SegmentState, SegmentView, TopicView};
use seam_wire::{NodeId, Offset, RangeId, SegmentId, TraceContext};

impl Chains {
    /// The range at `index` of the topic called `topic`. Errors: `UnknownTopic`, `UnknownRange`, or `Unavailable` while
    /// nothing at all is known yet.
    pub fn resolve(&self, topic: &str, index: u32) -> Result<RangeId, WireError> {
        if self.version == 0 {
            let detail = "this router has not heard from metad yet; try again shortly";
            return Err(WireError::retry(ErrorCode::Unavailable, detail));
        }
        let view = self.topic(topic).ok_or_else(|| unknown_topic(topic))?;
        view.ranges.get(index as usize).copied().ok_or_else(|| {
            let detail = format!("topic {topic:?} has {} ranges, no index {index}", view.ranges.len());
            WireError::refused(ErrorCode::UnknownRange, detail)
        })
    }

    /// The topic called `name`, unless it is deleted.
    pub fn topic(&self, name: &str) -> Option<&TopicView> {
        self.by_name.get(name).and_then(|id| self.topics.get(id))
    }

    pub fn topics(&self) -> impl Iterator<Item = &TopicView> {
        self.topics.values().filter(|topic| !topic.deleted)
    }

    /// Whether the range's topic was deleted, or metad no longer knows the range.
    pub fn deleted(&self, range: RangeId) -> bool {
        let topic = self.ranges.get(&range).and_then(|index| index.topic);
        match topic.and_then(|id| self.topics.get(&id)) {
            Some(topic) => topic.deleted,
            None => self.version > 0,
        }
    }

    pub fn segment(&self, segment: SegmentId) -> Option<&SegmentView> {
        self.segments.get(&segment)
    }

    /// The trace of the roll that `segment` is to follow, while that roll is under way.
    pub fn trace_into(&self, segment: SegmentId) -> Option<TraceContext> {
        let prior = self.segments.get(&segment)?.spec.prior?;
        self.segments.get(&prior)?.trace.filter(|_| self.sealed(prior).is_none())
    }

    /// The only writer of `segment`, if its placement is known.
    pub fn primary(&self, segment: SegmentId) -> Option<NodeId> {
        self.segments.get(&segment).map(|view| view.spec.primary())
    }

    pub fn node(&self, node: NodeId) -> Option<&NodeView> {
        self.nodes.get(&node)
    }

    /// Whether the node is not known dead.
    pub fn lives(&self, node: NodeId) -> bool {
        self.nodes.get(&node).is_some_and(alive)
    }

    /// The process that wrote this segment is over: its node is dead, or lives in another life. What it was sent and did not
    /// answer, it never will.
    pub fn writer_is_over(&self, segment: SegmentId) -> bool {
        let Some(view) = self.segments.get(&segment) else { return false };
        let Some(node) = self.nodes.get(&view.spec.primary()) else { return false };
        !alive(node) || view.primary_incarnation.is_some_and(|life| life != node.incarnation)
    }

    /// Nodes that are not known dead: those worth a warm connection.
    pub fn live_nodes(&self) -> impl Iterator<Item = &NodeView> {
        self.nodes.values().filter(|node| alive(node))
    }

    /// The write head of `range` as far as metad told: the open segment; if none is known, what the last sealed one names
    /// as next; else the last of the chain. `None`: the range has no chain yet.
    pub fn head(&self, range: RangeId) -> Option<SegmentId> {
        let index = self.ranges.get(&range)?;
        if let Some((_, open)) = index.open.last() {
            return Some(*open);
        }
        // Of empty segments that share a start, the last is the one whose next is not in the chain.
        let in_chain = |id: SegmentId| self.start(id).is_some();
        let (_, last) =
            index.chain.iter().rev().find(|(_, id)| self.sealed(*id).is_none_or(|(_, next)| !in_chain(next)))?;
        match self.sealed(*last) {
            Some((_, next)) if self.segments.contains_key(&next) => Some(next),
            Some(_) | None => Some(*last),
        }
    }

    /// Where the log of `range` starts: the earliest offset there is.
    pub fn earliest(&self, range: RangeId) -> Option<Offset> {
        self.ranges.get(&range)?.chain.first().map(|(start, _)| *start)
    }

    /// The segment of the chain that holds, or will hold, `offset`. `None`: below the chain, or nothing is known of it.
    /// An offset at or past the last known end is in the head.
    pub fn locate(&self, range: RangeId, offset: Offset) -> Option<SegmentId> {
        let index = self.ranges.get(&range)?;
        let below = index.chain.range(..=(offset, SegmentId(u64::MAX))).rev();
        for (start, id) in below {
            match self.sealed(*id) {
                None => return Some(*id),
                Some((end, _)) if offset < end => return Some(*id),
                Some((end, _)) if end > *start => break,
                Some(_) => {}
            }
        }
        let (first, _) = index.chain.first()?;
        if offset < *first { None } else { self.head(range) }
    }

    /// Start of a segment in the chain.
    pub fn start(&self, segment: SegmentId) -> Option<Offset> {
        match self.segments.get(&segment)?.state {
            SegmentState::Open { start } | SegmentState::Sealed { start, .. } => Some(start),
            SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => None,
        }
    }

    /// End and next of a segment that metad knows to be decided, still in the chain or trimmed.
    pub fn sealed(&self, segment: SegmentId) -> Option<(Offset, SegmentId)> {
        match self.segments.get(&segment)?.state {
            SegmentState::Sealed { end, next, .. } | SegmentState::Trimmed { end, next, .. } => Some((end, next)),
            SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Open { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => None,
        }
    }

    /// Ready successors of `segment`: to be dialed, and their tails opened, now. Oldest first.
    pub fn candidates(&self, segment: SegmentId) -> impl Iterator<Item = &SegmentView> {
        let range = self.segments.get(&segment).map(|view| view.spec.range);
        let ready = range.and_then(|range| self.ranges.get(&range)?.ready.get(&Some(segment)));
        ready.into_iter().flatten().filter_map(|id| self.segments.get(id))
    }

    /// Ready first segments of a range that has no chain yet.
    pub fn root_candidates(&self, range: RangeId) -> impl Iterator<Item = &SegmentView> {
        let ready = self.ranges.get(&range).and_then(|index| index.ready.get(&None));
        ready.into_iter().flatten().filter_map(|id| self.segments.get(id))
    }

    /// Whether `segment` can no longer become, or be, part of the chain: it is being reclaimed, or what it was to follow is
    /// decided to go on elsewhere. Nothing sent to it has been or will be committed there.
    pub fn never_chosen(&self, segment: SegmentId) -> bool {
        let Some(view) = self.segments.get(&segment) else {
            return self.unchosen.contains(&segment);
        };
        match view.state {
            SegmentState::Reclaiming | SegmentState::Reclaimed => true,
            SegmentState::Open { .. } | SegmentState::Sealed { .. } | SegmentState::Trimmed { .. } => false,
            SegmentState::Planned | SegmentState::Ready { .. } => {
                let decided = view.spec.prior.and_then(|prior| self.sealed(prior));
                decided.is_some_and(|(_, next)| next != segment)
            }
        }
    }

    /// Whether `segment` is to be looked for nowhere any more: being deleted, or gone for good. It may have been in the chain.
    /// False for one that is not known yet.
    pub fn gone(&self, segment: SegmentId) -> bool {
        match self.segments.get(&segment).map(|view| &view.state) {
            None => segment < self.next_segment,
            Some(SegmentState::Trimmed { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed) => true,
            Some(
                SegmentState::Planned
                | SegmentState::Ready { .. }
                | SegmentState::Open { .. }
                | SegmentState::Sealed { .. },
            ) => false,
        }
    }

    /// The nodes to read `segment` from, best first. Sealed: every replica not known dead, rotated by `hint` so that many
    /// readers spread. Else only the primary.
    pub fn readers(&self, segment: SegmentId, hint: u64) -> Vec<NodeId> {
        let Some(view) = self.segments.get(&segment).filter(|_| !self.gone(segment)) else {
            return Vec::new();
        };
        let known = |id: &NodeId| self.nodes.contains_key(id);
        if self.sealed(segment).is_none() {
            return Some(view.spec.primary()).filter(known).into_iter().collect();
        }
        let mut live: Vec<NodeId> = view.spec.replicas.clone();
        live.retain(|id| self.nodes.get(id).is_some_and(alive));
        if !live.is_empty() {
            let by = (hint % live.len() as u64) as usize;
            live.rotate_left(by);
        }
        live
    }

    /// End of the sealed segments at the beginning of `range`, as far as metad told: what lies below it is decided, and can
    /// be read without the head. `None`: not even the first one is sealed.
    pub fn sealed_end(&self, range: RangeId) -> Option<Offset> {
        let sealed = self.chain(range).map_while(|view| self.sealed(view.spec.id));
        sealed.last().map(|(end, _)| end)
    }

    /// For people: a segment, its state, and its nodes with theirs, the primary first.
    pub fn whereabouts(&self, segment: SegmentId) -> String {
        let Some(view) = self.segments.get(&segment) else {
            return format!("{segment} is not known here");
        };
        let state = match view.state {
            SegmentState::Planned => "planned",
            SegmentState::Ready { .. } => "ready",
            SegmentState::Open { .. } => "open",
            SegmentState::Sealed { .. } => "sealed",
            SegmentState::Trimmed { .. } => "trimmed",
            SegmentState::Reclaiming => "being reclaimed",
            SegmentState::Reclaimed => "reclaimed",
        };
        let replicas = view.spec.replicas.iter().map(|id| match self.nodes.get(id) {
            Some(NodeView { name, state: NodeState::Live, .. }) => format!("{name} (live)"),
            Some(NodeView { name, state: NodeState::Draining, .. }) => format!("{name} (draining)"),
            Some(NodeView { name, state: NodeState::Dead, .. }) => format!("{name} (dead)"),
            None => format!("{id} (unknown)"),
        });
        format!("{segment} ({state}) is on {}", replicas.collect::<Vec<_>>().join(", "))
    }

    /// The chain of `range`, first segment first.
    pub fn chain(&self, range: RangeId) -> impl Iterator<Item = &SegmentView> {
        let chain = self.ranges.get(&range).map(|index| &index.chain);
        chain.into_iter().flatten().filter_map(|(_, id)| self.segments.get(id))
    }
}

fn alive(node: &NodeView) -> bool {
    match node.state {
        NodeState::Live | NodeState::Draining => true,
        NodeState::Dead => false,
    }
}

fn unknown_topic(topic: &str) -> WireError {
    let detail = format!("no topic {topic:?}; create it first with `seam topic create`");
    WireError::refused(ErrorCode::UnknownTopic, detail)
}
