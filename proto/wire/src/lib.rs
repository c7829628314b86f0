//! The words every tier shares: ids, topic settings, metadata views, messages, frames, batches, errors.
//!
//! Plain data and codecs, no I/O: the pure cores depend on this crate and on nothing else of the protocol.
//! See `docs/` and `ARCHITECTURE.md` for the message table.

pub mod batch;
pub mod envelope;
pub mod error;
mod field;
pub mod frame;
pub mod ids;
pub mod meta;
pub mod msg;
pub mod report;
pub mod table;
pub mod topic;
pub mod traps;

pub use error::{Certainty, ErrorCode, WireError};
pub use ids::{Epoch, Incarnation, NodeId, Offset, ProducerId, RangeId, SegmentId, Tick, TopicId, TraceContext};
