//! Records as an application writes and reads them.

use bytes::Bytes;
use seam_wire::Offset;

/// A record to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Records of one key go to one range and keep their order. Without a key, batches go round the ranges.
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Bytes)>,
    /// Milliseconds since the Unix epoch; `None`: the time of sending.
    pub timestamp_ms: Option<i64>,
}

impl Record {
    /// A record with a value and nothing else.
    pub fn new(value: impl Into<Bytes>) -> Self {
        Record { value: Some(value.into()), ..Record::default() }
    }

    #[must_use]
    pub fn key(mut self, key: impl Into<Bytes>) -> Self {
        self.key = Some(key.into());
        self
    }

    #[must_use]
    pub fn header(mut self, name: impl Into<String>, content: impl Into<Bytes>) -> Self {
        self.headers.push((name.into(), content.into()));
        self
    }

    #[must_use]
    pub fn timestamp_ms(mut self, timestamp_ms: i64) -> Self {
        self.timestamp_ms = Some(timestamp_ms);
        self
    }
}

/// Where a record was written, once it is held as its topic's `ack` and `ack_quorum` demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ack {
    /// Index of the range in its topic, from 0.
    pub range: u32,
    pub offset: Offset,
}

/// A record read from a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRecord {
    /// Index of the range in its topic, from 0.
    pub range: u32,
    pub offset: Offset,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// Key, value and header contents share the memory of their batch.
    pub key: Option<Bytes>,
    pub value: Option<Bytes>,
    pub headers: Vec<(String, Bytes)>,
}
