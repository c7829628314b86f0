//! Identifiers and offsets. Newtypes, so that a segment is never taken for a range and an end never for a count.

use serde::{Deserialize, Serialize};
use std::fmt;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $int:ty, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $int);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    };
}

id!(/** A topic; never reused. */ TopicId, u64, "topic-");
id!(/** A range of a topic: one totally ordered chain of segments. Unique in the cluster, never reused. */ RangeId, u64, "range-");
id!(/** A segment; unique in the cluster, never reused: an unknown or reclaimed id is refused, never created. */ SegmentId, u64, "seg-");
id!(/** A segd node, stable over restarts. */ NodeId, u32, "segd-");
id!(/** One life of a segd process: larger at every start of the same node. Rights to write, begin and recover end with it. */ Incarnation, u64, "life-");
id!(/** A fencing epoch of one segment. 0 belongs to its primary, each recovery has a higher one. */ Epoch, u64, "e");
id!(/** A record's position in its range: dense, from 0. An `end` is exclusive: the offset after the last record. */ Offset, u64, "");
id!(/** A producer session, drawn at random by the SDK. */ ProducerId, u64, "p-");

impl Offset {
    /// The offset `records` later. Saturates: an offset never wraps.
    #[must_use]
    pub fn plus(self, records: u64) -> Offset {
        Offset(self.0.saturating_add(records))
    }

    /// Records between `self` (inclusive) and `end` (exclusive); 0 when `end` is not above `self`.
    #[must_use]
    pub fn until(self, end: Offset) -> u64 {
        end.0.saturating_sub(self.0)
    }
}

impl Epoch {
    /// The epoch of the segment's own primary.
    pub const PRIMARY: Epoch = Epoch(0);
}

/// A moment on one process's monotonic clock, in microseconds. Comes in as an argument; the cores never read a clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Tick(pub u64);

impl Tick {
    /// The moment `micros` later.
    #[must_use]
    pub fn after_us(self, micros: u64) -> Tick {
        Tick(self.0.saturating_add(micros))
    }

    /// Microseconds since `earlier`; 0 if it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// W3C trace context in binary form: 16 bytes trace id, 8 bytes span id, 1 byte flags. Travels in frames and roll messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceContext {
    pub trace_id: u128,
    pub span_id: u64,
    pub flags: u8,
}
