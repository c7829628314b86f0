//! Commands about topics: created with their ranges and first segments, altered for what is prepared from then on
//! (retention at once), deleted.

use super::records::{Range, Topic};
use super::{Changes, Meta};
use crate::command::{Outcome, Refusal};
use seam_wire::meta::Binder;
use seam_wire::topic::{TopicConfig, validate_name};
use seam_wire::{NodeId, Offset, RangeId, TopicId};
use std::collections::{BTreeSet, VecDeque};

/// How far above the next free id a topic's id may lie: more creations than are ever on their way at once.
const MAX_TOPIC_GAP: u64 = 1 << 20;

impl Meta {
    pub(super) fn create_topic(
        &mut self,
        id: TopicId,
        name: &str,
        config: &TopicConfig,
        placements: &[Vec<NodeId>],
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        if let Some(topic) = self.topics.get(&id) {
            let is_repeat = topic.name == name && !topic.deleted && topic.configs.first() == Some(config);
            if is_repeat {
                return Ok(Outcome::Created { topic: id });
            }
        }
        if self.names.contains_key(name) {
            return Err(Refusal::TopicExists { name: name.to_owned() });
        }
        // Proposals may be applied in another order than they were made, so any id is good that was never used.
        let is_far = id.0 > self.next_topic.saturating_add(MAX_TOPIC_GAP);
        if self.topics.contains_key(&id) || is_far {
            return Err(Refusal::StaleTopicId { given: id, next: TopicId(self.next_topic) });
        }
        validate_name(name).map_err(|e| Refusal::BadConfig(e.to_string()))?;
        config.validate().map_err(|e| Refusal::BadConfig(e.to_string()))?;
        if placements.len() != config.ranges as usize {
            let why = format!("{} placements for {} ranges", placements.len(), config.ranges);
            return Err(Refusal::BadReplicas(why));
        }
        for replicas in placements {
            self.check_replicas(replicas, config, usize::from(config.replicas))?;
        }
        self.next_topic = self.next_topic.max(id.0 + 1);
        self.names.insert(name.to_owned(), id);
        let ranges: Vec<RangeId> = (0..placements.len() as u64).map(|i| RangeId(self.next_range + i)).collect();
        self.next_range += ranges.len() as u64;
        let topic =
            Topic { name: name.to_owned(), configs: vec![config.clone()], ranges: ranges.clone(), deleted: false };
        self.topics.insert(id, topic);
        ch.topics.insert(id);
        for (index, (range, replicas)) in ranges.iter().zip(placements).enumerate() {
            let record = Range {
                topic: id,
                index: index as u32,
                first: None,
                start: Offset(0),
                sealed_bytes: 0,
                last_filled: None,
                head: None,
                root_attempts: 0,
                roots: Vec::new(),
                history: VecDeque::new(),
            };
            self.ranges.insert(*range, record);
            self.make_candidate(*range, None, replicas, Binder::Root, ch);
        }
        Ok(Outcome::Created { topic: id })
    }

    pub(super) fn alter_topic(
        &mut self,
        id: TopicId,
        expected: &TopicConfig,
        config: &TopicConfig,
        ch: &mut Changes,
    ) -> Result<Outcome, Refusal> {
        let topic = self.topics.get_mut(&id).ok_or(Refusal::UnknownTopic(id))?;
        if topic.deleted {
            return Err(Refusal::TopicDeleted { topic: id });
        }
        if topic.config() == config {
            return Ok(Outcome::Done);
        }
        if topic.config() != expected {
            return Err(Refusal::StaleConfig { topic: id });
        }
        if config.ranges != expected.ranges {
            return Err(Refusal::RangesFixed(expected.ranges));
        }
        config.validate().map_err(|e| Refusal::BadConfig(e.to_string()))?;
        topic.configs.push(config.clone());
        ch.topics.insert(id);
        Ok(Outcome::Done)
    }

    pub(super) fn delete_topic(&mut self, id: TopicId, ch: &mut Changes) -> Result<Outcome, Refusal> {
        let topic = self.topics.get_mut(&id).ok_or(Refusal::UnknownTopic(id))?;
        if topic.deleted {
            return Ok(Outcome::Done);
        }
        topic.deleted = true;
        self.names.remove(&topic.name);
        ch.topics.insert(id);
        let mut doomed = Vec::new();
        for range in topic.ranges.clone() {
            let range = self.ranges.get_mut(&range).expect("a topic has its ranges");
            range.head = None;
            range.sealed_bytes = 0;
            range.last_filled = None;
            doomed.extend(range.first);
            doomed.extend(range.roots.iter().copied());
        }
        self.reclaim_trees(doomed, ch);
        Ok(Outcome::Done)
    }

    /// Distinct, registered, a live primary, and at least `min_alive` of them not dead.
    pub(super) fn check_replicas(
        &self,
        replicas: &[NodeId],
        config: &TopicConfig,
        min_alive: usize,
    ) -> Result<(), Refusal> {
        let bad = |why: String| Err(Refusal::BadReplicas(why));
        if replicas.len() != usize::from(config.replicas) {
            return bad(format!("{} replicas, the topic has {}", replicas.len(), config.replicas));
        }
        if replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
            return bad("the same node twice".to_owned());
        }
        let mut alive = 0;
        for (i, id) in replicas.iter().enumerate() {
            let node = self.nodes.get(id).ok_or(Refusal::UnknownNode(*id))?;
            if i == 0 && node.is_dead() {
                return bad(format!("the primary {id} is dead"));
            }
            alive += usize::from(!node.is_dead());
        }
        if alive < min_alive {
            return bad(format!("only {alive} of the {min_alive} nodes needed are alive"));
        }
        Ok(())
    }
}
