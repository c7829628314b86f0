//! The transitions of a segment, each in one place: made, chosen, sealed, trimmed or reclaiming, gone. They check nothing a
//! command could get wrong; they assert what no command may break, and keep counters and node loads in step (R10).

use super::records::Segment;
use super::{Changes, Meta};
use crate::history::Phases;
use seam_wire::meta::{Binder, SegmentState};
use seam_wire::traps::{self, Trap};
use seam_wire::{NodeId, Offset, RangeId, SegmentId};

impl Meta {
    /// Makes a candidate with the next id. Its settings and ack quorum are those of the topic now.
    pub(super) fn make_candidate(
        &mut self,
        range: RangeId,
        prior: Option<SegmentId>,
        replicas: &[NodeId],
        binder: Binder,
        ch: &mut Changes,
    ) -> SegmentId {
        let id = self.next_id();
        let mut replicas = replicas.to_vec();
        if traps::active(Trap::PlacementInApply) {
            let by = traps::private_number() % replicas.len();
            replicas.rotate_left(by);
        }
        let range_record = self.ranges.get_mut(&range).expect("the caller looked the range up");
        let topic = self.topics.get(&range_record.topic).expect("a range has its topic");
        let (topic_id, config, ack_quorum) = (range_record.topic, topic.config_index(), topic.config().ack_quorum);
        let attempt = match prior {
            None => {
                range_record.root_attempts += 1;
                range_record.roots.push(id);
                range_record.root_attempts
            }
            Some(prior) => {
                let prior = self.known_mut(prior);
                prior.attempts += 1;
                prior.candidates.push(id);
                prior.attempts
            }
        };
        let segment = Segment {
            topic: topic_id,
            range,
            prior,
            attempt,
            replicas,
            ack_quorum,
            binder,
            config,
            state: SegmentState::Planned,
            chosen: false,
            bytes: 0,
            sealed_at_ms: 0,
            primary_incarnation: None,
            recovery: None,
            release_asked: false,
            roll_requested: 0,
            roll_reason: None,
            trace: None,
            attempts: 0,
            candidates: Vec::new(),
            unconfirmed: Vec::new(),
            phases: Phases::default(),
        };
        self.segments.insert(id, segment);
        self.add_load(id);
        self.counters.made += 1;
        self.counters.open += 1;
        ch.segments.insert(id);
        id
    }

    /// Never reused.
    fn next_id(&mut self) -> SegmentId {
        if traps::active(Trap::IdReused)
            && let Some(free) = (1..self.next_segment).map(SegmentId).find(|id| !self.segments.contains_key(id))
        {
            return free;
        }
        let id = SegmentId(self.next_segment);
        self.next_segment += 1;
        id
    }

    /// The candidate enters the chain with this start.
    pub(super) fn choose(&mut self, id: SegmentId, start: Offset, ch: &mut Changes) {
        self.leave_parent(id);
        let segment = self.known_mut(id);
        assert!(segment.is_candidate() && !segment.chosen, "R3: one start, ever: {id} is {}", segment.state_name());
        segment.state = SegmentState::Open { start };
        segment.chosen = true;
        segment.release_asked = false;
        let (range, prior) = (segment.range, segment.prior);
        let range = self.ranges.get_mut(&range).expect("a segment has its range");
        range.head = Some(id);
        if prior.is_none() {
            range.first = Some(id);
            range.start = start;
        }
        self.counters.used += 1;
        self.counters.open -= 1;
        ch.segments.insert(id);
    }

    /// The open segment's end and next, for ever; what it holds and when it was sealed, for retention.
    pub(super) fn seal(
        &mut self,
        id: SegmentId,
        (end, next): (Offset, SegmentId),
        (bytes, sealed_at_ms): (u64, u64),
        ch: &mut Changes,
    ) {
        self.drop_load(id);
        let segment = self.known_mut(id);
        let start = segment.open_start().expect("R5: only an open segment is decided, and once");
        segment.state = SegmentState::Sealed { start, end, next };
        segment.bytes = bytes;
        segment.sealed_at_ms = sealed_at_ms;
        let range = segment.range;
        let range = self.ranges.get_mut(&range).expect("a segment has its range");
        range.sealed_bytes = range.sealed_bytes.saturating_add(bytes);
        if end > start {
            range.last_filled = Some(id);
        }
        ch.segments.insert(id);
    }

    /// Takes these segments back, and whatever was prepared to follow them (and, of a deleted topic, what followed).
    pub(super) fn reclaim_trees(&mut self, mut todo: Vec<SegmentId>, ch: &mut Changes) {
        while let Some(id) = todo.pop() {
            let Some(segment) = self.segments.get(&id).filter(|s| !s.is_leaving()) else { continue };
            if let SegmentState::Sealed { next, .. } = segment.state {
                todo.push(next);
            }
            todo.extend(segment.candidates.iter().copied());
            if segment.is_active() {
                self.drop_load(id);
            }
            self.leave(id, SegmentState::Reclaiming, ch);
        }
    }

    /// Its replicas are to delete it: every one that lives must confirm before the state lets go of it. A dead one counts as
    /// having confirmed: it reconciles its disk with this state when it returns.
    pub(super) fn leave(&mut self, id: SegmentId, state: SegmentState, ch: &mut Changes) {
        let is_alive = |n: &NodeId| self.nodes.get(n).is_some_and(|n| !n.is_dead());
        let unconfirmed: Vec<NodeId> = self.known(id).replicas.iter().copied().filter(is_alive).collect();
        let segment = self.known_mut(id);
        segment.state = state;
        segment.unconfirmed = unconfirmed;
        self.leaving.insert(id);
        ch.segments.insert(id);
        self.drop_if_gone(id, ch);
    }

    pub(super) fn confirm(&mut self, id: SegmentId, node: NodeId, ch: &mut Changes) {
        // One that several were waiting for may have left with the last of them.
        if let Some(segment) = self.segments.get_mut(&id) {
            segment.unconfirmed.retain(|n| *n != node);
            self.drop_if_gone(id, ch);
        }
    }

    /// Once all confirmed, and nothing hangs from it any more, it leaves the state: ids are never reused, and an unknown one is
    /// refused. So the state is bounded by what is kept, not by what ever was.
    fn drop_if_gone(&mut self, mut id: SegmentId, ch: &mut Changes) {
        while let Some(segment) = self.segments.get(&id) {
            if !segment.is_leaving() || !segment.unconfirmed.is_empty() || !segment.candidates.is_empty() {
                return;
            }
            let parent = segment.prior.filter(|_| !segment.chosen);
            self.leave_parent(id);
            let segment = self.known_mut(id);
            segment.state = SegmentState::Reclaimed;
            let chosen = segment.chosen;
            let last_view = self.segment(id).expect("it was just seen");
            self.segments.remove(&id);
            self.leaving.remove(&id);
            if chosen {
                self.left.0 += 1;
            } else {
                self.left.1 += 1;
                self.counters.reclaimed += 1;
                self.counters.open -= 1;
            }
            ch.segments.insert(id);
            ch.left.insert(id, last_view);
            // The parent may have waited for this one.
            let Some(parent) = parent else { return };
            id = parent;
        }
    }

    fn leave_parent(&mut self, id: SegmentId) {
        let segment = self.known(id);
        let (prior, range) = (segment.prior, segment.range);
        let siblings = match prior {
            // The prior of a segment of the chain may be gone.
            Some(prior) => self.segments.get_mut(&prior).map(|prior| &mut prior.candidates),
            None => self.ranges.get_mut(&range).map(|range| &mut range.roots),
        };
        if let Some(siblings) = siblings {
            siblings.retain(|s| *s != id);
        }
    }

    fn add_load(&mut self, id: SegmentId) {
        for (i, node) in self.known(id).replicas.clone().into_iter().enumerate() {
            let node = self.nodes.get_mut(&node).expect("replicas are registered, and nodes never leave");
            node.replicas += 1;
            node.primaries += u32::from(i == 0);
        }
    }

    fn drop_load(&mut self, id: SegmentId) {
        for (i, node) in self.known(id).replicas.clone().into_iter().enumerate() {
            let node = self.nodes.get_mut(&node).expect("replicas are registered, and nodes never leave");
            node.replicas -= 1;
            node.primaries -= u32::from(i == 0);
        }
    }
}
