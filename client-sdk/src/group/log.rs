//! A group's log: the topic it lies in, made when the first member joins.

use crate::client::Client;
use crate::consumer::ReadFrom;
use crate::error::Error;
use crate::query;
use client_core::group::entry::Subscription;
use client_core::group::topic_of;
use seam_wire::error::ErrorCode;
use seam_wire::topic::{TopicConfig, validate_name};
use std::time::Duration;

/// A group's log is small: so are its segments.
const SEGMENT_BYTES: u64 = 1 << 20;
/// Its beginning goes when there is so much more: many snapshots lie within.
const RETENTION_BYTES: u64 = 8 << 20;
/// A snapshot is taken after so many records or bytes, so that little has to be read to join.
pub const SNAPSHOT_RECORDS: u64 = 1_000;
pub const SNAPSHOT_BYTES: u64 = 256 << 10;

/// The topic that holds the group, checked.
pub fn topic(group: &str) -> Result<String, Error> {
    let topic = topic_of(group);
    validate_name(&topic)?;
    if group.is_empty() {
        return Err(Error::Setting("a group needs a name of 1 to 117 of the characters a-z A-Z 0-9 . _ -".to_owned()));
    }
    Ok(topic)
}

/// The topic to consume, as it is now.
pub async fn subscription(client: &Client, topic: &str) -> Result<Subscription, Error> {
    let ranges = query::ranges(client, topic).await?;
    let what = |source| Error::Request { what: format!("find topic {topic:?}"), source };
    let lane = client.inner.lane().map_err(what)?;
    let found = query::find(lane, topic, 0, client.request_timeout(), query::UNKNOWN_PATIENCE).await.map_err(what)?;
    Ok(Subscription { topic: topic.to_owned(), first_range: found.0, ranges })
}

/// Whether the group has a log.
pub async fn exists(client: &Client, log: &str) -> Result<bool, Error> {
    match query::ranges(client, log).await {
        Ok(_) => Ok(true),
        Err(error) if error.code() == Some(ErrorCode::UnknownTopic) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the group's log if there is none, as safe as the topic that is consumed, and waits until a router knows it.
pub async fn ensure(client: &Client, log: &str, consumed: &str) -> Result<(), Error> {
    if !exists(client, log).await? {
        let model = client.admin().describe_topic(consumed).await?.config;
        let config = TopicConfig {
            replicas: model.replicas,
            ack_quorum: model.ack_quorum,
            placement: model.placement,
            segment_bytes: SEGMENT_BYTES,
            retention_bytes: RETENTION_BYTES,
            ..TopicConfig::default()
        };
        match client.admin().create_internal_topic(log, config).await {
            Ok(_) => tracing::info!(topic = log, "made the log of a new consumer group"),
            Err(error) if error.code() == Some(ErrorCode::AlreadyExists) => {}
            Err(error) => return Err(error),
        }
    }
    let what = |source| Error::Request { what: format!("find topic {log:?}"), source };
    let lane = client.inner.lane().map_err(what)?;
    let timeout = client.request_timeout();
    query::offsets(lane, log, 0, timeout, timeout).await.map(drop).map_err(what)
}

/// Everything there is of the log, and what comes if `follow`.
pub async fn reader(client: &Client, log: &str, follow: bool) -> Result<crate::Consumer, Error> {
    client.consumer(log).range(0).from(ReadFrom::Earliest).follow(follow).build().await
}

pub async fn writer(client: &Client, log: &str, deadline: Duration) -> Result<crate::Producer, Error> {
    client.producer(log).internal().linger(Duration::ZERO).deadline(deadline).build().await
}
