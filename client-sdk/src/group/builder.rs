//! Settings of a member of a group, their defaults and bounds.

use super::GroupConsumer;
use super::board::Board;
use super::log;
use super::task::Task;
use crate::client::Client;
use crate::clock::micros;
use crate::consumer::tails::Tails;
use crate::consumer::{ReadFrom, Settings};
use crate::error::Error;
use client_core::group::member::MemberSettings;
use client_core::group::state::MAX_LABEL_BYTES;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

const SESSION_TIMEOUT: std::ops::RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(600);
/// Requests of one consumer that may wait: it makes one at a time.
const REQUESTS: usize = 4;

/// Configures a [`GroupConsumer`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct GroupConsumerBuilder {
    client: Client,
    topic: String,
    group: String,
    settings: Settings,
    label: Option<String>,
    session_timeout: Duration,
    auto_commit: Option<Duration>,
    release_patience: Duration,
    commit_timeout: Option<Duration>,
}

impl GroupConsumerBuilder {
    pub(crate) fn new(client: Client, topic: String, group: String, settings: Settings) -> Self {
        GroupConsumerBuilder {
            client,
            topic,
            group,
            settings,
            label: None,
            session_timeout: Duration::from_secs(10),
            auto_commit: Some(Duration::from_secs(1)),
            release_patience: Duration::from_secs(5),
            commit_timeout: None,
        }
    }

    /// Where to start in a range of which the group has committed nothing. Default: earliest. The start is committed at
    /// once, so that another member that takes the range over starts there too.
    pub fn from(mut self, from: ReadFrom) -> Self {
        self.settings.from = from;
        self
    }

    /// Bytes the cluster may send ahead of the reader. 64 KiB and more, default 16 MiB.
    pub fn max_buffer_bytes(mut self, bytes: u64) -> Self {
        self.settings.max_buffer_bytes = bytes;
        self
    }

    /// What `seam group describe` calls this member. At most 128 bytes; default: the process's id.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// A member of which nothing was heard for so long loses its ranges. It beats in the background three times as often; a
    /// runtime that is blocked does not. 500 ms to 10 minutes, default 10 s.
    pub fn session_timeout(mut self, timeout: Duration) -> Self {
        self.session_timeout = timeout;
        self
    }

    /// How often positions are committed in the background: of records from which the application came back by asking for
    /// the next one. Default 1 s. `None`: only [`GroupConsumer::commit`] commits.
    pub fn auto_commit(mut self, interval: Option<Duration>) -> Self {
        self.auto_commit = interval;
        self
    }

    /// How long a range that goes to another member waits for the application to come back from (or, without auto commit,
    /// to commit) the records of it that it has. Later those are delivered again. Default 5 s.
    pub fn release_patience(mut self, patience: Duration) -> Self {
        self.release_patience = patience;
        self
    }

    /// How long a commit, or the last one of [`GroupConsumer::close`], may take. Default: `request_timeout_ms` of the client.
    pub fn commit_timeout(mut self, timeout: Duration) -> Self {
        self.commit_timeout = Some(timeout);
        self
    }

    fn validate(&self) -> Result<(), Error> {
        let setting = |text: String| Err(Error::Setting(text));
        if self.settings.range.is_some() || !self.settings.follow {
            return setting(
                "a member of a group reads the ranges it is given and follows: leave out range and follow".to_owned(),
            );
        }
        if !SESSION_TIMEOUT.contains(&self.session_timeout) {
            let (given, least, most) = (self.session_timeout, SESSION_TIMEOUT.start(), SESSION_TIMEOUT.end());
            return setting(format!("session_timeout must be {least:?} to {most:?}, not {given:?}"));
        }
        if self.auto_commit.is_some_and(|interval| interval.is_zero()) {
            return setting("auto_commit must be above 0, or None".to_owned());
        }
        if self.label.as_ref().is_some_and(|label| label.len() > MAX_LABEL_BYTES) {
            return setting(format!("label must have at most {MAX_LABEL_BYTES} bytes"));
        }
        Ok(())
    }

    /// Makes the group if there is none, and joins it. Ranges come as others release them; the stream waits for them.
    /// Errors: `UnknownTopic`; a setting out of bounds; no router or no metad member can be reached.
    pub async fn build(self) -> Result<GroupConsumer, Error> {
        self.validate()?;
        let log_topic = log::topic(&self.group)?;
        let GroupConsumerBuilder { client, topic, group, settings, .. } = self;
        let subscription = log::subscription(&client, &topic).await?;
        log::ensure(&client, &log_topic, &topic).await?;
        let commit_timeout = self.commit_timeout.unwrap_or(client.request_timeout());
        let member = MemberSettings {
            subscription,
            label: self.label.unwrap_or_else(|| format!("pid {}", std::process::id())),
            session_timeout_us: micros(self.session_timeout),
            auto_commit_us: self.auto_commit.map(micros),
            release_patience_us: micros(self.release_patience),
            commit_deadline_us: micros(commit_timeout),
            snapshot_records: log::SNAPSHOT_RECORDS,
            snapshot_bytes: log::SNAPSHOT_BYTES,
        };
        let tails = Tails::connect(&client, topic, &settings, true).await?;
        let reader = log::reader(&client, &log_topic, true).await?;
        let producer = log::writer(&client, &log_topic, commit_timeout.max(self.session_timeout)).await?;
        let board = Arc::new(Board::default());
        let (asks, requests) = mpsc::channel(REQUESTS);
        let task = Task {
            client: client.clone(),
            group: group.clone(),
            log_topic,
            board: Arc::clone(&board),
            requests,
            settings: member,
            close_patience: commit_timeout,
        };
        tokio::spawn(task.run(reader, producer));
        Ok(GroupConsumer::new(group, settings.from, tails, board, asks, client.inner.clock))
    }
}
