//! Proposals on their way through the log, and who waits for each. One at a time per subject, so that a driver that looks
//! at the same state twice does not propose twice. Commands are compare-and-sets: forgetting one here is never unsafe.

use super::io::{ReplyId, Token};
use crate::command::Command;
use crate::tick::Tick;
use seam_wire::{NodeId, RangeId, SegmentId, TopicId};
use std::collections::BTreeMap;

/// What a proposal is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Subject {
    Node(NodeId),
    TopicName(String),
    Topic(TopicId),
    Root(RangeId),
    /// The next candidate of this segment, a recovery's too: both count attempts.
    Candidate(SegmentId),
    Ready(SegmentId),
    AskRelease(SegmentId),
    Released(SegmentId),
    Commit(SegmentId),
    Trim(RangeId),
    Reclaim(SegmentId, NodeId),
    RollRequest(SegmentId),
    Gate(SegmentId),
    Recorded(SegmentId),
}

impl Subject {
    pub fn of(command: &Command) -> Subject {
        match command {
            Command::RegisterNode { id, .. } | Command::SetNodeState { id, .. } => Subject::Node(*id),
            Command::CreateTopic { name, .. } => Subject::TopicName(name.clone()),
            Command::AlterTopic { topic, .. } | Command::DeleteTopic { topic } => Subject::Topic(*topic),
            Command::PrepareRoot { range, .. } => Subject::Root(*range),
            Command::Prepare { prior, .. } => Subject::Candidate(*prior),
            Command::Recover { segment, .. } => Subject::Candidate(*segment),
            Command::MarkReady { segment, .. } => Subject::Ready(*segment),
            Command::AskRelease { segment } => Subject::AskRelease(*segment),
            Command::Released { segment, .. } => Subject::Released(*segment),
            Command::CommitRoll { segment, .. } => Subject::Commit(*segment),
            Command::Trim { range, .. } => Subject::Trim(*range),
            Command::ConfirmReclaimed { segment, node } => Subject::Reclaim(*segment, *node),
            Command::RequestRoll { segment, .. } => Subject::RollRequest(*segment),
            Command::GateOpened { segment, .. } => Subject::Gate(*segment),
            Command::RollRecorded { segment, .. } => Subject::Recorded(*segment),
        }
    }
}

/// Who waits, and for what kind of answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiter {
    Report(ReplyId),
    Register(ReplyId),
    /// An operator's request that this one command fulfils.
    Admin(ReplyId),
    /// One of several commands of an operator's roll.
    Roll(ReplyId, SegmentId),
}

#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub command: Command,
    pub waiters: Vec<Waiter>,
    pub since: Tick,
}

#[derive(Debug, Default)]
pub(super) struct Pending {
    last: u64,
    live: BTreeMap<Token, Proposal>,
    by_subject: BTreeMap<Subject, Token>,
}

impl Pending {
    /// The proposal about the same subject that is on its way.
    pub fn about(&mut self, subject: &Subject) -> Option<&mut Proposal> {
        self.by_subject.get(subject).and_then(|t| self.live.get_mut(t))
    }

    pub fn has(&self, subject: &Subject) -> bool {
        self.by_subject.contains_key(subject)
    }

    pub fn add(&mut self, now: Tick, command: Command, waiter: Option<Waiter>) -> Token {
        self.last += 1;
        let token = Token(self.last);
        let earlier = self.by_subject.insert(Subject::of(&command), token);
        assert!(earlier.is_none(), "one proposal per subject: {command:?}");
        self.live.insert(token, Proposal { command, waiters: waiter.into_iter().collect(), since: now });
        token
    }

    pub fn take(&mut self, token: Token) -> Option<Proposal> {
        let proposal = self.live.remove(&token)?;
        self.by_subject.remove(&Subject::of(&proposal.command));
        Some(proposal)
    }

    /// Takes those proposed at or before `since`.
    pub fn take_until(&mut self, since: Tick) -> Vec<Proposal> {
        // Tokens and times grow together: the overdue ones come first.
        let overdue: Vec<Token> =
            self.live.iter().take_while(|(_, p)| p.since <= since).map(|(token, _)| *token).collect();
        overdue.into_iter().filter_map(|t| self.take(t)).collect()
    }

    pub fn take_all(&mut self) -> Vec<Proposal> {
        self.by_subject.clear();
        std::mem::take(&mut self.live).into_values().collect()
    }

    pub fn oldest(&self) -> Option<Tick> {
        self.live.values().next().map(|p| p.since)
    }

    pub fn commands(&self) -> impl Iterator<Item = &Command> {
        self.live.values().map(|p| &p.command)
    }
}
