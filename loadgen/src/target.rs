//! The system under test, as the load generator sees it. `seam` implements it over the SDK; the tests drive a synthetic one.

use bytes::Bytes;
use seamlog::{Certainty, NodeInfo, Status, TopicInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::{Duration, Instant};
use thiserror::Error;

/// What an application would have been told.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TargetError(pub String);

/// What an application is told of a record that was not acked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{detail}")]
pub struct AppendError {
    /// Whether the record is certainly not in the log.
    pub certainty: Certainty,
    pub detail: String,
}

/// Settings of a topic that the load generator chooses; all else keeps the cluster's default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicSpec {
    pub replicas: u8,
    pub ack_quorum: u8,
    /// `durable` or `replicated`.
    pub ack: String,
    /// `soft`, `at-open` or `off`.
    pub anticipation: String,
    /// `balanced`, `round-robin` or `sticky`.
    pub placement: String,
    pub segment_bytes: u64,
}

/// One roll as the cluster recorded it. Durations in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Roll {
    pub segment: u64,
    pub next: u64,
    /// Offset after the last of `segment`: the start of `next`.
    pub boundary: u64,
    pub by_recovery: bool,
    pub not_ready: bool,
    pub appends_waited: u64,
    pub overrun_bytes: u64,
    pub announce_us: u64,
    pub commit_us: u64,
    pub open_us: u64,
    pub ready_us: u64,
    pub slack_us: u64,
    pub switch_us: u64,
    pub seal_us: u64,
    pub begin_us: u64,
    pub gate_us: u64,
    pub record_us: u64,
    pub announce_to_ready_us: u64,
    /// Where an agent decided it.
    pub recovery: Option<Recovering>,
}

/// The phases of a recovery, one after the other, as the cluster recorded them. Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recovering {
    /// The primary was last heard of, until it was taken for dead.
    pub detection_us: u64,
    /// Until the agent that decided was appointed.
    pub appointment_us: u64,
    /// Until the agent's quorum had promised.
    pub fence_us: u64,
    /// Until everything below the end was safe.
    pub copy_us: u64,
    /// Until metad had the agent's word.
    pub decision_us: u64,
    /// At the successor, from its beginning to its first commit; `None` where it has not happened.
    pub first_commit_us: Option<u64>,
}

/// Committed offsets by group, topic and range.
pub type Committed = BTreeMap<(String, String, u32), u64>;

/// A record as handed to the application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    pub offset: u64,
    pub value: Bytes,
}

/// A cluster.
pub trait Target: Send + Sync + 'static {
    type Producer: Producer;
    type Consumer: Consumer;

    /// Creates a topic of one range. An existing one is an error.
    fn create_topic(&self, topic: &str, spec: &TopicSpec) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Whether the topic exists.
    fn topic_exists(&self, topic: &str) -> impl Future<Output = Result<bool, TargetError>> + Send;

    fn producer(&self, topic: &str) -> impl Future<Output = Result<Self::Producer, TargetError>> + Send;

    /// A consumer of the topic's only range that follows it from offset `from` on.
    fn consumer(&self, topic: &str, from: u64) -> impl Future<Output = Result<Self::Consumer, TargetError>> + Send;

    /// The offset after the last committed record.
    fn end_offset(&self, topic: &str) -> impl Future<Output = Result<u64, TargetError>> + Send;

    /// The rolls the cluster still remembers, oldest first.
    fn roll_history(&self, topic: &str) -> impl Future<Output = Result<Vec<Roll>, TargetError>> + Send;

    /// Times one metadata call that has to commit, and so takes at least one round trip between metadata members.
    fn metadata_round_trip(&self, topic: &str) -> impl Future<Output = Result<Duration, TargetError>> + Send;

    /// Times one query that goes to a router, from there to a segd node and back; about two data-plane round trips.
    fn data_round_trip(&self, topic: &str) -> impl Future<Output = Result<Duration, TargetError>> + Send;
}

/// A cluster that can be looked at from the side: what proving needs beyond load.
pub trait Observed: Target {
    /// A producer whose appends have their outcome by `deadline`.
    fn hurried(
        &self,
        topic: &str,
        deadline: Duration,
    ) -> impl Future<Output = Result<Self::Producer, TargetError>> + Send;

    /// A consumer of the topic's only range that ends at the committed end of now.
    fn reader(&self, topic: &str, from: u64) -> impl Future<Output = Result<Self::Consumer, TargetError>> + Send;

    /// The first offset, and the one after the last committed record.
    fn ends(&self, topic: &str) -> impl Future<Output = Result<(u64, u64), TargetError>> + Send;

    /// A topic with its chain and candidates.
    fn describe(&self, topic: &str) -> impl Future<Output = Result<TopicInfo, TargetError>> + Send;

    fn topics(&self) -> impl Future<Output = Result<Vec<TopicInfo>, TargetError>> + Send;

    fn nodes(&self) -> impl Future<Output = Result<Vec<NodeInfo>, TargetError>> + Send;

    /// Takes so many records of the topic as the only member of a new consumer group, commits them and leaves.
    fn commit_in_group(
        &self,
        group: &str,
        topic: &str,
        records: usize,
    ) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Every group's committed offsets.
    fn committed(&self) -> impl Future<Output = Result<Committed, TargetError>> + Send;

    fn delete_group(&self, group: &str) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// What metad's leader says.
    fn status(&self) -> impl Future<Output = Result<Status, TargetError>> + Send;
}

/// A producer in an open loop.
pub trait Producer: Send + Sync + 'static {
    /// Resolves to the record's offset once it is acked, or to what the application would be told instead.
    type Ack: Future<Output = Result<u64, AppendError>> + Send + 'static;

    /// Takes the record at once, in the order of the calls, and never blocks the caller: whatever has to wait waits inside
    /// `Ack`. Called from a plain thread.
    fn submit(&self, value: Bytes, due: Instant) -> Self::Ack;
}

/// A tail.
pub trait Consumer: Send + 'static {
    /// The next record, in offset order; `None` when the tail is over.
    fn next(&mut self) -> impl Future<Output = Result<Option<Delivered>, TargetError>> + Send;
}
