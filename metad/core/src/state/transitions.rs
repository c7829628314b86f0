//! The transitions of a segment, each in one place: made, chosen, sealed, reclaiming, reclaimed. They check nothing a
//! command could get wrong; they assert what no command may break, and keep counters and node loads in step (R10).

use super::records::Segment;
use super::{Changes, Meta};
use crate::history::Phases;
use seam_wire::meta::{Binder, SegmentState};
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
        let id = SegmentId(self.next_segment);
        self.next_segment += 1;
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
            replicas: replicas.to_vec(),
            ack_quorum,
            binder,
            config,
            state: SegmentState::Planned,
            chosen: false,
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
        }
        self.counters.used += 1;
        self.counters.open -= 1;
        ch.segments.insert(id);
    }

    /// The open segment's end and next, for ever.
    pub(super) fn seal(&mut self, id: SegmentId, end: Offset, next: SegmentId, ch: &mut Changes) {
        self.drop_load(id);
        let segment = self.known_mut(id);
        let start = segment.open_start().expect("R5: only an open segment is decided, and once");
        segment.state = SegmentState::Sealed { start, end, next };
        ch.segments.insert(id);
    }

    /// Takes these segments back, and whatever was prepared to follow them (and, of a deleted topic, what followed).
    pub(super) fn reclaim_trees(&mut self, mut todo: Vec<SegmentId>, ch: &mut Changes) {
        while let Some(id) = todo.pop() {
            let segment = self.known(id);
            if segment.is_gone() {
                continue;
            }
            if let SegmentState::Sealed { next, .. } = segment.state {
                todo.push(next);
            }
            todo.extend(segment.candidates.iter().copied());
            let is_active = segment.is_active();
            let unconfirmed: Vec<NodeId> =
                segment.replicas.iter().copied().filter(|n| self.nodes.get(n).is_some_and(|n| !n.is_dead())).collect();
            if is_active {
                self.drop_load(id);
            }
            let segment = self.known_mut(id);
            segment.state = SegmentState::Reclaiming;
            segment.unconfirmed = unconfirmed;
            self.reclaiming.insert(id);
            ch.segments.insert(id);
            self.finish_reclaim_if_confirmed(id, ch);
        }
    }

    pub(super) fn confirm(&mut self, id: SegmentId, node: NodeId, ch: &mut Changes) {
        self.known_mut(id).unconfirmed.retain(|n| *n != node);
        self.finish_reclaim_if_confirmed(id, ch);
    }

    fn finish_reclaim_if_confirmed(&mut self, id: SegmentId, ch: &mut Changes) {
        if !self.known(id).unconfirmed.is_empty() {
            return;
        }
        self.leave_parent(id);
        let segment = self.known_mut(id);
        segment.state = SegmentState::Reclaimed;
        let chosen = segment.chosen;
        self.reclaiming.remove(&id);
        if !chosen {
            self.counters.reclaimed += 1;
            self.counters.open -= 1;
        }
        ch.segments.insert(id);
    }

    fn leave_parent(&mut self, id: SegmentId) {
        let segment = self.known(id);
        let (prior, range) = (segment.prior, segment.range);
        let siblings = match prior {
            Some(prior) => &mut self.known_mut(prior).candidates,
            None => &mut self.ranges.get_mut(&range).expect("a segment has its range").roots,
        };
        siblings.retain(|s| *s != id);
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
