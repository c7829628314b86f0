//! Operators' requests that change something, turned into commands.

use super::Driver;
use super::io::{Admin, Answer, Effect, ReplyId, TopicPatch};
use super::pending::Waiter;
use crate::command::Command;
use crate::state::Meta;
use crate::tick::Tick;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::meta::{NodeState, RollReason, TopicView};
use seam_wire::topic::{TopicConfig, validate_name};
use seam_wire::{NodeId, SegmentId, TopicId};

/// A roll of several ranges: answered when the last one is asked.
#[derive(Clone, Debug, Default)]
pub(super) struct RollJob {
    pub left: usize,
    pub rolling: Vec<SegmentId>,
}

impl Driver {
    pub(super) fn take_admin(&mut self, now: Tick, meta: &Meta, request: Admin, reply: ReplyId, out: &mut Vec<Effect>) {
        let command = match request {
            Admin::CreateTopic { name, config } => self.create_topic(now, meta, name, config),
            Admin::AlterTopic { name, patch } => alter_topic(meta, &name, patch),
            Admin::DeleteTopic { name } => find(meta, &name).map(|t| Command::DeleteTopic { topic: t.id }),
            Admin::DrainNode { node, drain } => drain_node(meta, node, drain),
            Admin::AcceptLoss { name, range_index, segment } => {
                let head = head(meta, &name, range_index);
                head.and_then(|head| self.accept_loss(now, meta, head, segment))
            }
            Admin::RollTopic { name, range_index } => match heads(meta, &name, range_index) {
                Ok(heads) => return self.roll_heads(now, meta, heads, reply, out),
                Err(error) => Err(error),
            },
        };
        match command {
            Ok(command) => self.propose_for(now, command, Waiter::Admin(reply), out),
            Err(error) => out.push(Effect::Reply { id: reply, answer: Answer::Failed(error) }),
        }
    }

    fn create_topic(
        &mut self,
        now: Tick,
        meta: &Meta,
        name: String,
        config: TopicConfig,
    ) -> Result<Command, WireError> {
        validate_name(&name).map_err(|e| WireError::refused(ErrorCode::InvalidArgument, e.to_string()))?;
        config.validate().map_err(|e| WireError::refused(ErrorCode::InvalidArgument, e.to_string()))?;
        if meta.topic_named(&name).is_some() {
            return Err(WireError::refused(ErrorCode::AlreadyExists, format!("topic {name:?} exists already")));
        }
        let placements = self
            .place_topic(now, meta, &config)
            .map_err(|no_place| WireError::retry(ErrorCode::Unavailable, no_place.to_string()))?;
        let mut next = meta.next_topic;
        for command in self.pending.commands() {
            if let Command::CreateTopic { id, .. } = command {
                next = next.max(id.0 + 1);
            }
        }
        let id = TopicId(next);
        Ok(Command::CreateTopic { id, name, config, placements })
    }

    fn roll_heads(&mut self, now: Tick, meta: &Meta, heads: Vec<SegmentId>, reply: ReplyId, out: &mut Vec<Effect>) {
        self.rolls.insert(reply, RollJob { left: heads.len(), rolling: Vec::new() });
        for segment in heads {
            let expected = meta.known(segment).roll_requested;
            let (reason, trace) = (RollReason::Operator, meta.known(segment).trace);
            let command = Command::RequestRoll { segment, expected, reason, trace };
            self.propose_for(now, command, Waiter::Roll(reply, segment), out);
        }
    }
}

fn find(meta: &Meta, name: &str) -> Result<TopicView, WireError> {
    let unknown = || WireError::refused(ErrorCode::UnknownTopic, format!("topic {name:?} does not exist"));
    meta.topic_named(name).ok_or_else(unknown)
}

fn alter_topic(meta: &Meta, name: &str, patch: TopicPatch) -> Result<Command, WireError> {
    let topic = find(meta, name)?;
    let config = patch.applied_to(&topic.config);
    config.validate().map_err(|e| WireError::refused(ErrorCode::InvalidArgument, e.to_string()))?;
    Ok(Command::AlterTopic { topic: topic.id, expected: topic.config, config })
}

fn drain_node(meta: &Meta, id: NodeId, drain: bool) -> Result<Command, WireError> {
    let unknown = || WireError::refused(ErrorCode::InvalidArgument, format!("{id} never registered"));
    let incarnation = meta.node(id).ok_or_else(unknown)?.incarnation;
    let state = if drain { NodeState::Draining } else { NodeState::Live };
    Ok(Command::SetNodeState { id, incarnation, state })
}

/// The open segment of one range.
fn head(meta: &Meta, name: &str, range_index: u32) -> Result<SegmentId, WireError> {
    heads(meta, name, Some(range_index)).map(|heads| heads[0])
}

/// The open segments of a topic, or of one range of it.
fn heads(meta: &Meta, name: &str, range_index: Option<u32>) -> Result<Vec<SegmentId>, WireError> {
    let topic = find(meta, name)?;
    if let Some(index) = range_index.filter(|i| *i as usize >= topic.ranges.len()) {
        let why = format!("topic {name:?} has ranges 0 to {}, not {index}", topic.ranges.len() - 1);
        return Err(WireError::refused(ErrorCode::UnknownRange, why));
    }
    let ranges = topic.ranges.iter().filter_map(|r| meta.range(*r));
    let heads: Vec<SegmentId> =
        ranges.filter(|r| range_index.is_none_or(|i| i == r.index)).filter_map(|r| r.head).collect();
    if heads.is_empty() {
        let why = format!("no segment of topic {name:?} is open yet: try again");
        return Err(WireError::retry(ErrorCode::Unavailable, why));
    }
    Ok(heads)
}
