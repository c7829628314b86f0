//! Settings of a consumer, their defaults and bounds.

use super::{BatchConsumer, Consumer};
use crate::client::Client;
use crate::error::Error;
use crate::group::GroupConsumerBuilder;
use seam_transport::quic::QuicConfig;
use seam_wire::Offset;

/// The smallest window QUIC may have here.
const MIN_BUFFER_BYTES: u64 = 64 << 10;

/// Where a consumer starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// The first offset there is (default).
    #[default]
    Earliest,
    /// What is written from now on.
    Latest,
    /// This offset. Of all ranges, if the consumer reads more than one.
    Offset(Offset),
    /// The earliest offset whose record has this timestamp or a later one (milliseconds since the Unix epoch); the end, if
    /// there is none yet. Found by a binary search over each range. Producers set timestamps, so they need not be in order:
    /// then it is one of the places where they pass the moment. The record there has the timestamp or a later one, and all
    /// of the batch before it have earlier ones.
    Timestamp(i64),
}

/// Settings of a consumer.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    /// Only this range.
    pub range: Option<u32>,
    pub from: ReadFrom,
    pub follow: bool,
    pub max_buffer_bytes: u64,
}

impl Settings {
    /// Every bound. Errors name the setting.
    pub fn validate(&self) -> Result<(), Error> {
        if self.max_buffer_bytes < MIN_BUFFER_BYTES {
            let (given, min) = (self.max_buffer_bytes, MIN_BUFFER_BYTES);
            return Err(Error::Setting(format!("max_buffer_bytes must be at least {min}, not {given}")));
        }
        if self.range == Some(u32::MAX) {
            return Err(Error::Setting("range is above every index".to_owned()));
        }
        Ok(())
    }

    /// Flow control that lets the cluster send no more than `max_buffer_bytes` ahead.
    pub fn windows(&self, mut quic: QuicConfig) -> QuicConfig {
        quic.connection_window_bytes = self.max_buffer_bytes;
        quic.stream_window_bytes = quic.stream_window_bytes.min(self.max_buffer_bytes);
        quic
    }
}

/// Configures a [`Consumer`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct ConsumerBuilder {
    client: Client,
    topic: String,
    settings: Settings,
}

impl ConsumerBuilder {
    pub(crate) fn new(client: Client, topic: String) -> Self {
        let settings = Settings { range: None, from: ReadFrom::Earliest, follow: true, max_buffer_bytes: 16 << 20 };
        ConsumerBuilder { client, topic, settings }
    }

    /// Makes the consumer a member of a consumer group, which is made by its first member: it gets its share of the topic's
    /// ranges, starts where the group has committed, and [`from`](Self::from) there only where it has not.
    /// `name`: 1 to 117 of `a-z A-Z 0-9 . _ -`.
    pub fn group(self, name: impl Into<String>) -> GroupConsumerBuilder {
        let ConsumerBuilder { client, topic, settings } = self;
        GroupConsumerBuilder::new(client, topic, name.into(), settings)
    }

    /// Reads only the range of this index. Default: all ranges, each in its order, merged as they come.
    pub fn range(mut self, index: u32) -> Self {
        self.settings.range = Some(index);
        self
    }

    /// Where to start. Default: earliest.
    pub fn from(mut self, from: ReadFrom) -> Self {
        self.settings.from = from;
        self
    }

    /// Whether to wait for new records. `false`: the stream ends at the committed end found at its opening, or, when no
    /// record comes, with `Unavailable` within twice `request_timeout_ms`. Default true.
    pub fn follow(mut self, follow: bool) -> Self {
        self.settings.follow = follow;
        self
    }

    /// Bytes the cluster may send ahead of the reader. 64 KiB and more, default 16 MiB. One frame and one decoded batch
    /// come on top.
    pub fn max_buffer_bytes(mut self, bytes: u64) -> Self {
        self.settings.max_buffer_bytes = bytes;
        self
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings.clone()
    }

    /// Connects to a router and starts reading records; streams are opened when the consumer is first polled.
    /// Errors: no router can be reached; for all ranges: `UnknownTopic`, or nobody says how many there are.
    pub async fn build(self) -> Result<Consumer, Error> {
        let ConsumerBuilder { client, topic, settings } = self;
        Consumer::start(client, topic, settings).await
    }

    /// Starts reading whole batches: verified, not decoded.
    pub async fn build_batches(self) -> Result<BatchConsumer, Error> {
        let ConsumerBuilder { client, topic, settings } = self;
        BatchConsumer::start(client, topic, settings).await
    }
}
