//! The settings of a topic as flags, and how they become a `TopicConfig`. Bounds and defaults are those of the type.

use crate::units;
use clap::{Args, ValueEnum};
use seam_wire::topic::TopicConfigError;
use seamlog::{AckMode, AlterTopic, Anticipation, Placement, TopicConfig};

/// When a roll is announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AnticipationArg {
    /// Before the segment is full, as early as this cluster's rolls need.
    Soft,
    /// As soon as the segment is open: a spare stands ready for unplanned rolls too.
    AtOpen,
    /// Only when the segment is full: appends wait for the successor. For comparison.
    Off,
}

/// What an ack means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AckArg {
    /// Synced to disk by the ack quorum.
    Durable,
    /// Received by the ack quorum; lost if all of it loses power at once.
    Replicated,
}

/// Where a successor's replicas go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlacementArg {
    /// Over failure domains, then by load and free space.
    Balanced,
    /// To the next nodes in order.
    RoundRobin,
    /// The primary stays where it is, the followers as in balanced.
    Sticky,
}

impl From<AnticipationArg> for Anticipation {
    fn from(arg: AnticipationArg) -> Self {
        match arg {
            AnticipationArg::Soft => Anticipation::Soft,
            AnticipationArg::AtOpen => Anticipation::AtOpen,
            AnticipationArg::Off => Anticipation::Off,
        }
    }
}

impl From<AckArg> for AckMode {
    fn from(arg: AckArg) -> Self {
        match arg {
            AckArg::Durable => AckMode::Durable,
            AckArg::Replicated => AckMode::Replicated,
        }
    }
}

impl From<PlacementArg> for Placement {
    fn from(arg: PlacementArg) -> Self {
        match arg {
            PlacementArg::Balanced => Placement::Balanced,
            PlacementArg::RoundRobin => Placement::RoundRobin,
            PlacementArg::Sticky => Placement::Sticky,
        }
    }
}

/// Settings that only a new topic takes.
#[derive(Clone, Debug, Default, Args)]
pub struct FixedSettings {
    /// Slices of the key space, each with its own order [default: 1].
    #[arg(long, value_name = "N")]
    pub ranges: Option<u32>,
    /// Copies of each segment [default: 3].
    #[arg(long, value_name = "N")]
    pub replicas: Option<u8>,
    /// Copies that must hold a record before it is acked [default: a majority of the replicas].
    #[arg(long, value_name = "N")]
    pub ack_quorum: Option<u8>,
    /// What an ack means [default: durable].
    #[arg(long)]
    pub ack: Option<AckArg>,
}

/// Settings that can change later; they hold from the next prepared segment on, those of retention at once.
#[derive(Clone, Debug, Default, Args)]
pub struct LiveSettings {
    /// Roll at this fill, e.g. 64MiB; 16KiB to 64GiB [default: 1GiB].
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub segment_bytes: Option<u64>,
    /// Roll after so many records; 0: no limit [default: 0].
    #[arg(long, value_name = "N")]
    pub segment_records: Option<u64>,
    /// Roll a segment that has records at this age, e.g. 10m; 0: no limit [default: 0].
    #[arg(long, value_name = "TIME", value_parser = units::parse_millis)]
    pub max_age: Option<u64>,
    /// Keep at least so much of each range, in whole sealed segments, and delete the oldest beyond it, e.g. 10GiB; 0: no
    /// limit [default: 0].
    #[arg(long, value_name = "SIZE", value_parser = units::parse_bytes)]
    pub retention_bytes: Option<u64>,
    /// Delete a segment so long after it was sealed, e.g. 7d; 0: no limit [default: 0].
    #[arg(long, value_name = "TIME", value_parser = units::parse_millis)]
    pub retention_age: Option<u64>,
    /// When a roll is announced [default: soft].
    #[arg(long)]
    pub anticipation: Option<AnticipationArg>,
    /// Where a successor's replicas go [default: balanced].
    #[arg(long)]
    pub placement: Option<PlacementArg>,
}

impl LiveSettings {
    /// The flags that were given, as a change to a topic.
    #[must_use]
    pub fn changes(&self) -> AlterTopic {
        AlterTopic {
            placement: self.placement.map(Into::into),
            anticipation: self.anticipation.map(Into::into),
            segment_bytes: self.segment_bytes,
            segment_records: self.segment_records,
            max_age_ms: self.max_age,
            retention_bytes: self.retention_bytes,
            retention_ms: self.retention_age,
        }
    }
}

/// The settings of a new topic; what no flag gives keeps its default.
///
/// # Errors
/// A value out of its bounds.
pub fn new_topic(fixed: &FixedSettings, live: &LiveSettings) -> Result<TopicConfig, TopicConfigError> {
    let default = TopicConfig::default();
    let replicas = fixed.replicas.unwrap_or(default.replicas);
    let config = TopicConfig {
        ranges: fixed.ranges.unwrap_or(default.ranges),
        replicas,
        ack_quorum: fixed.ack_quorum.unwrap_or(replicas / 2 + 1),
        ack: fixed.ack.map_or(default.ack, Into::into),
        placement: live.placement.map_or(default.placement, Into::into),
        anticipation: live.anticipation.map_or(default.anticipation, Into::into),
        segment_bytes: live.segment_bytes.unwrap_or(default.segment_bytes),
        segment_records: live.segment_records.unwrap_or(default.segment_records),
        max_age_ms: live.max_age.unwrap_or(default.max_age_ms),
        retention_bytes: live.retention_bytes.unwrap_or(default.retention_bytes),
        retention_ms: live.retention_age.unwrap_or(default.retention_ms),
    };
    config.validate()?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_flags_a_topic_has_the_defaults() {
        let config = new_topic(&FixedSettings::default(), &LiveSettings::default()).expect("valid");
        assert_eq!(config, TopicConfig::default());
    }

    #[test]
    fn the_quorum_follows_the_replicas_unless_given() {
        for (replicas, quorum) in [(1, 1), (2, 2), (3, 2), (5, 3)] {
            let fixed = FixedSettings { replicas: Some(replicas), ..FixedSettings::default() };
            assert_eq!(new_topic(&fixed, &LiveSettings::default()).expect("valid").ack_quorum, quorum);
        }
        let unsafe_quorum = FixedSettings { ack_quorum: Some(1), ..FixedSettings::default() };
        assert_eq!(new_topic(&unsafe_quorum, &LiveSettings::default()), Err(TopicConfigError::QuorumOfOne(3)));
    }

    #[test]
    fn a_change_holds_the_flags_that_were_given_and_no_others() {
        let live = LiveSettings { max_age: Some(0), ..LiveSettings::default() };
        assert_eq!(live.changes(), AlterTopic { max_age_ms: Some(0), ..AlterTopic::default() });
        assert_eq!(LiveSettings::default().changes(), AlterTopic::default());
    }

    #[test]
    fn every_flag_reaches_its_setting() {
        let fixed =
            FixedSettings { ranges: Some(4), replicas: Some(5), ack_quorum: Some(4), ack: Some(AckArg::Replicated) };
        let live = LiveSettings {
            segment_bytes: Some(1 << 20),
            segment_records: Some(7),
            max_age: Some(600_000),
            retention_bytes: Some(10 << 30),
            retention_age: Some(604_800_000),
            anticipation: Some(AnticipationArg::AtOpen),
            placement: Some(PlacementArg::Sticky),
        };
        let expected = TopicConfig {
            ranges: 4,
            replicas: 5,
            ack_quorum: 4,
            ack: AckMode::Replicated,
            placement: Placement::Sticky,
            anticipation: Anticipation::AtOpen,
            segment_bytes: 1 << 20,
            segment_records: 7,
            max_age_ms: 600_000,
            retention_bytes: 10 << 30,
            retention_ms: 604_800_000,
        };
        assert_eq!(new_topic(&fixed, &live), Ok(expected));
    }
}
