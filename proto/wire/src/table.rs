//! The producer table as it travels: in segment headers, in `Begin`, in the seal entry's hash.
//!
//! The table itself, a pure function of the log, lives in `segd/core`.

use crate::{Offset, ProducerId};
use serde::{Deserialize, Serialize};

/// One batch remembered for a retry: its sequences and where it landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RememberedBatch {
    pub base_sequence: i32,
    pub last_sequence: i32,
    pub base_offset: Offset,
}

/// A producer's newest epoch and its last batches, oldest first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ProducerEntry {
    pub id: ProducerId,
    pub epoch: i16,
    pub batches: Vec<RememberedBatch>,
}

/// A table, whole or in part, ordered by producer id.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TableSnapshot {
    pub entries: Vec<ProducerEntry>,
}
