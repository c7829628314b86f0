//! The client of Seamlog: a distributed log whose write head moves from segment to segment unnoticed.
//!
//! [`Client`] is the way in: [`Client::producer`] writes, [`Client::consumer`] reads, [`Client::admin`] makes topics and
//! looks at the cluster. Connections are made when needed, kept, and made again when they break; every call has a
//! deadline; errors say what they know ([`SendError`], [`ConsumeError`], [`Error`]).
//!
//! Decisions are taken in the crate `client-core`, which does no I/O; this one carries them out.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod admin;
mod client;
mod clock;
mod config;
mod consumer;
mod error;
mod group;
mod lane;
mod pacer;
mod producer;
mod query;
mod record;

pub use admin::{
    AcceptedLoss, Admin, AlterTopic, NodeInfo, RangeInfo, RecoveryInfo, RollAnnouncement, RollRecord, RollRecovery,
    SegmentInfo, Status, TopicInfo,
};
pub use client::{Client, Offsets};
pub use client_core::SendError;
pub use config::{ClientConfig, DevConfig, Peer};
pub use consumer::{BatchConsumer, ConsumedBatch, Consumer, ConsumerBuilder, ReadFrom};
pub use error::{ConsumeError, Error};
pub use group::{
    Assignment, CommitError, GroupAdminError, GroupConsumer, GroupConsumerBuilder, GroupError, GroupInfo, GroupMember,
    GroupRange, GroupTopic, Groups, ResetTo,
};
pub use producer::{Completion, MAX_IN_FLIGHT, Producer, ProducerBuilder, SendHandle};
pub use record::{Ack, ConsumedRecord, Record};
pub use seam_transport::TlsPaths;
pub use seam_transport::quic::QuicConfig;
/// Logs and traces of a program, by the environment. Programs with a tracer provider of their own do without.
pub use seam_transport::telemetry;
pub use seam_wire::batch::Compression;
pub use seam_wire::topic::{AckMode, Anticipation, Placement, TopicConfig, is_internal};
pub use seam_wire::{Certainty, ErrorCode, Offset, WireError};

/// The example a stranger reads first must compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
