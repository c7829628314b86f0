//! Topic settings, their bounds and defaults.

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// When a roll is announced. The modes differ in the soft mark alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anticipation {
    /// At an adaptive soft mark below the hard cap (default).
    #[default]
    Soft,
    /// As soon as the segment is open: a standing spare, ready for unplanned rolls too.
    AtOpen,
    /// Only at the hard cap; appends are held until the successor is ready. The old behaviour, for comparison.
    Off,
}

/// What an ack means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckMode {
    /// Synced to disk on `ack_quorum` replicas (default).
    #[default]
    Durable,
    /// Received by `ack_quorum` replicas; lost if all of them lose power at once.
    Replicated,
}

/// Where the replicas of a successor go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// Failure domains first, then load and free space (default).
    #[default]
    Balanced,
    /// The next nodes in order.
    RoundRobin,
    /// The primary stays on its node, followers as in `Balanced`.
    Sticky,
}

/// Settings of a topic. `Default` is what `seam topic create` gives without flags.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TopicConfig {
    /// Independent, totally ordered slices of the key space. 1..=256.
    pub ranges: u32,
    /// Replicas of each segment (R). 1..=7.
    pub replicas: u8,
    /// Replicas that must hold a record before it is acked (A). 1..=R; 1 with R > 1 is refused.
    pub ack_quorum: u8,
    pub ack: AckMode,
    pub placement: Placement,
    pub anticipation: Anticipation,
    /// The hard cap: at this fill the head switches if a successor is ready. Bytes, 16 KiB..=64 GiB.
    pub segment_bytes: u64,
    /// Roll after so many records; 0: no such limit.
    pub segment_records: u64,
    /// Roll a non-empty segment at this age. Milliseconds; 0: no such limit.
    pub max_age_ms: u64,
    /// Of each range the newest sealed segments are kept, at least so many bytes of them; older ones are deleted whole,
    /// oldest first. Bytes; 0: no such limit. Read from the topic's newest settings, so a change holds at once.
    pub retention_bytes: u64,
    /// A segment is deleted whole so long after it was sealed, oldest first. Milliseconds; 0: no such limit. Holds at once.
    pub retention_ms: u64,
}

impl Default for TopicConfig {
    fn default() -> Self {
        TopicConfig {
            ranges: 1,
            replicas: 3,
            ack_quorum: 2,
            ack: AckMode::Durable,
            placement: Placement::Balanced,
            anticipation: Anticipation::Soft,
            segment_bytes: 1 << 30,
            segment_records: 0,
            max_age_ms: 0,
            retention_bytes: 0,
            retention_ms: 0,
        }
    }
}

/// Why a topic's name or settings are refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopicConfigError {
    #[error("topic name {0:?} is not 1 to 128 of the characters a-z A-Z 0-9 . _ -")]
    Name(String),
    #[error("topic names that begin with {INTERNAL_PREFIX:?} belong to Seamlog itself; {0:?} is one: choose another")]
    Reserved(String),
    #[error("ranges must be 1 to 256, not {0}")]
    Ranges(u32),
    #[error("replicas must be 1 to 7, not {0}")]
    Replicas(u8),
    #[error("ack quorum {quorum} is not within 1 to replicas ({replicas})")]
    Quorum { quorum: u8, replicas: u8 },
    #[error("ack quorum 1 of {0} replicas could lose acked records with one disk; use at least 2")]
    QuorumOfOne(u8),
    #[error("segment bytes must be 16384 to 68719476736, not {0}")]
    SegmentBytes(u64),
}

impl TopicConfig {
    /// Replicas on which a segment must be open before it may be chosen: A to write, R - A + 1 to be recovered if it must be.
    pub fn open_quorum(&self) -> usize {
        usize::from(self.ack_quorum.max(self.replicas - self.ack_quorum + 1))
    }

    /// Checks every bound. Errors name the setting and its bounds.
    pub fn validate(&self) -> Result<(), TopicConfigError> {
        if !(1..=256).contains(&self.ranges) {
            return Err(TopicConfigError::Ranges(self.ranges));
        }
        if !(1..=7).contains(&self.replicas) {
            return Err(TopicConfigError::Replicas(self.replicas));
        }
        if self.ack_quorum < 1 || self.ack_quorum > self.replicas {
            return Err(TopicConfigError::Quorum { quorum: self.ack_quorum, replicas: self.replicas });
        }
        if self.ack_quorum == 1 && self.replicas > 1 {
            return Err(TopicConfigError::QuorumOfOne(self.replicas));
        }
        if !((16 << 10)..=(64 << 30)).contains(&self.segment_bytes) {
            return Err(TopicConfigError::SegmentBytes(self.segment_bytes));
        }
        Ok(())
    }
}

/// Topics whose names begin so hold what Seamlog keeps for itself, such as the logs of consumer groups. They are topics like
/// any other; clients neither make, write nor delete them by name, and do not list them unless asked.
pub const INTERNAL_PREFIX: &str = "seam.";

/// Whether a topic holds what Seamlog keeps for itself.
pub fn is_internal(name: &str) -> bool {
    name.starts_with(INTERNAL_PREFIX)
}

/// Checks the name of a topic that a user makes, writes or deletes.
pub fn validate_user_name(name: &str) -> Result<(), TopicConfigError> {
    validate_name(name)?;
    if is_internal(name) { Err(TopicConfigError::Reserved(name.to_owned())) } else { Ok(()) }
}

/// Checks a topic's name: 1 to 128 of `a-z A-Z 0-9 . _ -`.
pub fn validate_name(name: &str) -> Result<(), TopicConfigError> {
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if (1..=128).contains(&name.len()) && name.chars().all(good) {
        Ok(())
    } else {
        Err(TopicConfigError::Name(name.to_owned()))
    }
}
