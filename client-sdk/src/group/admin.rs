//! Looking at groups and changing them, from outside: an operator is no member.

use super::error::GroupAdminError;
use super::log;
use crate::client::{Client, Offsets};
use crate::consumer::tails::Tails;
use crate::consumer::{Consumer, ReadFrom, resolve};
use crate::error::{ConsumeError, Error};
use crate::record::Record;
use client_core::group::entry::{Entry, MemberId};
use client_core::group::replay::{Folded, Replay};
use client_core::group::state::{Group, Outcome};
use client_core::group::watch::Watch;
use client_core::group::{group_of, topic_of};
use seam_wire::{ErrorCode, Offset, WireError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// How often an operator looks whether the members it waits for still live.
const GLANCE: Duration = Duration::from_millis(200);

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupMember {
    pub id: String,
    pub label: String,
    pub session_timeout_ms: u64,
    pub topics: Vec<String>,
}

/// A range as a group sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRange {
    pub range: u32,
    /// The member that delivers it.
    pub owner: Option<String>,
    /// The member it is being handed over to.
    pub moving_to: Option<String>,
    /// All below is done.
    pub committed: Option<u64>,
    /// The first offset there is, and the one after the last record. `None`: the range cannot be asked, or the topic is gone.
    pub earliest: Option<u64>,
    pub end: Option<u64>,
    /// Records that are not committed.
    pub lag: Option<u64>,
}

/// A topic that a group consumes or has consumed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupTopic {
    pub topic: String,
    pub ranges: Vec<GroupRange>,
}

/// A consumer group, as its log says. A member that was killed stands here until others have evicted it, or, where there are
/// none, until somebody joins or resets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupInfo {
    pub name: String,
    pub generation: u64,
    pub members: Vec<GroupMember>,
    pub topics: Vec<GroupTopic>,
}

/// Where a reset moves committed offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResetTo(pub ReadFrom);

/// The consumer groups of a cluster. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Groups {
    client: Client,
}

/// A group's log, read to its end and followed.
struct Reading {
    group: String,
    replay: Replay,
    reader: Consumer,
}

impl Groups {
    pub(crate) fn new(client: Client) -> Self {
        Groups { client }
    }

    /// The names of all groups, in order.
    pub async fn list(&self) -> Result<Vec<String>, Error> {
        let topics = self.client.admin().list_topics().await?;
        Ok(topics.iter().filter_map(|topic| group_of(&topic.name)).map(str::to_owned).collect())
    }

    /// A group with its members, ranges, committed offsets and lags.
    pub async fn describe(&self, group: &str) -> Result<GroupInfo, GroupAdminError> {
        let reading = self.read(group).await?;
        let state = reading.group()?;
        let mut topics = Vec::new();
        for (name, topic) in state.topics() {
            let mut ranges = Vec::new();
            for (range, share) in (0u32..).zip(&topic.shares) {
                let ends = self.ends(name, range).await?;
                let committed = share.committed.map(|offset| offset.0);
                let unread =
                    |ends: &Offsets| share.committed.unwrap_or(ends.earliest).max(ends.earliest).until(ends.latest);
                ranges.push(GroupRange {
                    range,
                    owner: share.owner.map(|it| it.to_string()),
                    moving_to: share.heir.map(|it| it.to_string()),
                    committed,
                    earliest: ends.map(|ends| ends.earliest.0),
                    end: ends.map(|ends| ends.latest.0),
                    lag: ends.as_ref().map(unread),
                });
            }
            topics.push(GroupTopic { topic: name.clone(), ranges });
        }
        let members = state.members().iter().map(|(id, member)| GroupMember {
            id: id.to_string(),
            label: member.label.clone(),
            session_timeout_ms: member.session_timeout_ms,
            topics: member.topics.iter().cloned().collect(),
        });
        Ok(GroupInfo { name: group.to_owned(), generation: state.generation(), members: members.collect(), topics })
    }

    /// Both ends of a range; `None` where the topic is gone.
    async fn ends(&self, topic: &str, range: u32) -> Result<Option<Offsets>, Error> {
        match self.client.offsets(topic, range).await {
            Ok(ends) => Ok(Some(ends)),
            Err(error) if matches!(error.code(), Some(ErrorCode::UnknownTopic | ErrorCode::UnknownRange)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Moves the group's committed offsets in `topic`, in all ranges or in those of `only`. Returns them. Refused while
    /// members consume the topic, unless `force`: then they go on from there. Members that show no life for their session
    /// timeout are evicted, so this may take as long. `Earliest` and `Latest` are those of now.
    pub async fn reset(
        &self,
        group: &str,
        topic: &str,
        to: ResetTo,
        only: &[u32],
        force: bool,
    ) -> Result<BTreeMap<u32, Offset>, GroupAdminError> {
        let subscription = log::subscription(&self.client, topic).await?;
        let mut reading = self.read(group).await?;
        if !force {
            self.wait_until_idle(&mut reading, Some(topic)).await?;
        }
        let offsets = self.resolve(topic, to, only, subscription.ranges).await?;
        let ticket = rand::random();
        let moved = offsets.iter().map(|(range, offset)| (*range, *offset)).collect();
        let reset = Entry::Reset { ticket, force, topic: subscription, offsets: moved };
        self.append(group, &reset).await?;
        let outcome = reading.until(self.deadline(), |folded| match &folded.entry {
            Some(Entry::Reset { ticket: of, .. }) if *of == ticket => Some(folded.outcome.clone()),
            _ => None,
        });
        match outcome.await? {
            Outcome::Counted => Ok(offsets),
            Outcome::InUse(_) => Err(reading.in_use(Some(topic))),
            other @ (Outcome::NotAMember | Outcome::Fenced(_) | Outcome::Stale | Outcome::Full(_)) => {
                Err(reading.broken(format!("the reset did not count: {other:?}")))
            }
        }
    }

    async fn resolve(
        &self,
        topic: &str,
        to: ResetTo,
        only: &[u32],
        ranges: u32,
    ) -> Result<BTreeMap<u32, Offset>, GroupAdminError> {
        if let Some(range) = only.iter().find(|range| **range >= ranges) {
            let text = format!("topic {topic:?} has no range {range}; its ranges are 0 to {}", ranges - 1);
            return Err(Error::Setting(text).into());
        }
        let settings = self.client.consumer(topic).follow(false).settings();
        let tails = Tails::connect(&self.client, topic.to_owned(), &settings, true).await?;
        let mut offsets = BTreeMap::new();
        for range in (0..ranges).filter(|range| only.is_empty() || only.contains(range)) {
            let failed = |source| Error::Request { what: format!("find where to reset range {range} to"), source };
            let offset = resolve(tails.source(), range, to.0).await.map_err(failed)?;
            if let ReadFrom::Offset(_) = to.0 {
                let Offsets { earliest, latest } = self.client.offsets(topic, range).await?;
                if offset < earliest || offset > latest {
                    let (topic, offset) = (topic.to_owned(), offset.0);
                    let (earliest, latest) = (earliest.0, latest.0);
                    return Err(GroupAdminError::OutOfRange { topic, range, offset, earliest, latest });
                }
            }
            offsets.insert(range, offset);
        }
        Ok(offsets)
    }

    /// Deletes a group with its committed offsets. Refused while it has members that show life, unless `force`: they end
    /// with an error.
    pub async fn delete(&self, group: &str, force: bool) -> Result<(), GroupAdminError> {
        let mut reading = self.read(group).await?;
        if !force {
            self.wait_until_idle(&mut reading, None).await?;
        }
        self.client.admin().delete_internal_topic(&topic_of(group)).await?;
        Ok(())
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.client.request_timeout()
    }

    /// Reads the group's log to its end of now.
    async fn read(&self, group: &str) -> Result<Reading, GroupAdminError> {
        let topic = log::topic(group)?;
        if !log::exists(&self.client, &topic).await? {
            return Err(GroupAdminError::Unknown { group: group.to_owned() });
        }
        let end = self.client.offsets(&topic, 0).await?.latest;
        let reader = log::reader(&self.client, &topic, true).await?;
        let mut reading = Reading { group: group.to_owned(), replay: Replay::new(), reader };
        let mut next = Offset(0);
        while next < end {
            next = reading.step(self.deadline()).await?.1;
        }
        let ended = reading.replay.at_end().map(drop);
        ended.map_err(|error| reading.broken(error.to_string()))?;
        Ok(reading)
    }

    async fn append(&self, group: &str, entry: &Entry) -> Result<(), GroupAdminError> {
        let producer = log::writer(&self.client, &topic_of(group), self.client.request_timeout()).await?;
        let written = producer.submit(Record::new(entry.encode())).await;
        producer.close().await;
        written.map(drop).map_err(|error| GroupAdminError::Log { group: group.to_owned(), detail: error.to_string() })
    }

    /// Waits until nobody consumes the topic (or anything), evicting whoever is silent for its session timeout. Errors: a
    /// member shows life.
    async fn wait_until_idle(&self, reading: &mut Reading, topic: Option<&str>) -> Result<(), GroupAdminError> {
        let clock = self.client.inner.clock;
        let mut watch = Watch::default();
        let start = reading.group()?.next();
        loop {
            let state = reading.group()?;
            let users = users(state, topic);
            if users.is_empty() {
                return Ok(());
            }
            if users.iter().any(|(_, last_seen)| *last_seen >= start) {
                return Err(reading.in_use(topic));
            }
            watch.look(clock.now(), state);
            for (member, last_seen) in watch.suspects(clock.now(), state, None) {
                self.append(&reading.group, &Entry::Evict { member, last_seen }).await?;
            }
            // Silence is what is waited for here.
            if let Ok(stepped) = timeout_at(Instant::now() + GLANCE, reading.step(self.deadline())).await {
                stepped?;
            }
        }
    }
}

fn users(state: &Group, topic: Option<&str>) -> Vec<(MemberId, Offset)> {
    let uses = state.members().iter().filter(|(_, member)| topic.is_none_or(|topic| member.topics.contains(topic)));
    uses.map(|(id, member)| (*id, member.last_seen)).collect()
}

impl Reading {
    fn group(&self) -> Result<&Group, GroupAdminError> {
        self.replay.group().ok_or_else(|| self.broken("its log has no beginning".to_owned()))
    }

    /// The next record, folded, and the offset after it.
    async fn step(&mut self, deadline: Instant) -> Result<(Vec<Folded>, Offset), GroupAdminError> {
        let record = match timeout_at(deadline, self.reader.next()).await {
            Ok(Some(Ok(record))) => record,
            Ok(Some(Err(ConsumeError::Lost { from, next, .. }))) => {
                if !self.replay.skip(from, next) {
                    return Err(self.broken(format!("what lay above offset {from} was given up meanwhile; try again")));
                }
                return Ok((Vec::new(), next));
            }
            Ok(Some(Err(error))) => return Err(self.broken(error.to_string())),
            Ok(None) => return Err(self.broken("its log came to an end".to_owned())),
            Err(_) => {
                let source = WireError::unknown(ErrorCode::DeadlineExceeded, "nothing more came of its log");
                return Err(Error::Request { what: format!("read group {:?}", self.group), source }.into());
            }
        };
        let folded = self.replay.take(record.offset, record.value.as_deref());
        Ok((folded.map_err(|error| self.broken(error.to_string()))?, record.offset.plus(1)))
    }

    async fn until<T>(
        &mut self,
        deadline: Instant,
        mut wanted: impl FnMut(&Folded) -> Option<T>,
    ) -> Result<T, GroupAdminError> {
        loop {
            let (folded, _) = self.step(deadline).await?;
            if let Some(found) = folded.iter().find_map(&mut wanted) {
                return Ok(found);
            }
        }
    }

    fn in_use(&self, topic: Option<&str>) -> GroupAdminError {
        let state = self.replay.group();
        let uses = state.map(|state| users(state, topic)).unwrap_or_default();
        let label = |id: &MemberId| state.and_then(|state| state.members().get(id)).map(|member| member.label.clone());
        let members = uses.iter().filter_map(|(id, _)| label(id)).collect();
        GroupAdminError::InUse { group: self.group.clone(), members }
    }

    fn broken(&self, detail: String) -> GroupAdminError {
        GroupAdminError::Log { group: self.group.clone(), detail }
    }
}
