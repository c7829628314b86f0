//! Messages, and the network: the set of all that were ever sent.
//!
//! Nothing leaves the set, so each message may arrive late, again and again, or never. A message without an addressee may
//! arrive at each of those it could concern.

use super::shared::hash_of;
use seam_wire::meta::Binder;
use seam_wire::msg::{Decision, ReplicaTail, SealEntry};
use seam_wire::{Epoch, NodeId, Offset, SegmentId};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// Most records a segment gets in the model.
const ROOM: usize = 4;

/// Records by name: a name tells who wrote it, and when.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Records {
    len: u8,
    names: [u8; ROOM],
}

impl Records {
    pub fn push(&mut self, name: u8) {
        self.names[usize::from(self.len)] = name;
        self.len += 1;
    }

    pub fn names(&self) -> &[u8] {
        &self.names[..usize::from(self.len)]
    }

    pub fn len(&self) -> u64 {
        u64::from(self.len)
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Records `[from, to)` counted from 0, as far as there are such.
    pub fn slice(&self, from: u64, to: u64) -> Records {
        let mut part = Records::default();
        self.names().iter().take(to as usize).skip(from as usize).for_each(|name| part.push(*name));
        part
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Msg {
    /// The writer of `epoch` to N's replicas.
    Replicate { epoch: Epoch, base: Offset, records: Records, seal: Option<SealEntry> },
    /// A replica of N to the writer of `epoch`.
    Stored { node: NodeId, epoch: Epoch, end: Offset, sealed: bool },
    /// A replica of `prior` to the primary of `seal.next`.
    SealHeld { prior: SegmentId, node: NodeId, seal: SealEntry },
    /// To the primary of `segment`.
    Begin { segment: SegmentId, by: Binder, end: Offset },
    /// N's primary to N's replicas.
    Decided { decision: Decision },
    /// An agent to N's replicas.
    Fence { epoch: Epoch },
    /// A replica of N to the agent of `epoch`.
    Promised { node: NodeId, epoch: Epoch, tail: ReplicaTail },

    /// To metad: a primary's segment is decided.
    Sealed { segment: SegmentId, decision: Decision },
    /// To metad: an agent fixed N's end.
    Recovered { epoch: Epoch, decision: Decision },
    /// To metad: N's primary will never choose this candidate.
    Released { segment: SegmentId },

    /// metad to all: decided and recorded.
    Recorded { segment: SegmentId, decision: Decision },
    /// metad to N's primary: the spare is ready.
    SpareReady,
    /// metad to N's primary: give it back.
    ReleaseAsked { segment: SegmentId },
    /// metad to the primary of `segment`.
    Reclaimed { segment: SegmentId },
}

/// The set of all messages ever sent.
#[derive(Clone, Default)]
pub struct Net {
    hash: u64,
    sent: Arc<Vec<Msg>>,
}

impl Net {
    /// True if it was never sent before.
    pub fn insert(&mut self, msg: Msg) -> bool {
        let Err(at) = self.sent.binary_search(&msg) else { return false };
        self.hash ^= hash_of(&msg);
        Arc::make_mut(&mut self.sent).insert(at, msg);
        true
    }

    pub fn iter(&self) -> impl Iterator<Item = Msg> + '_ {
        self.sent.iter().copied()
    }
}

impl Hash for Net {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl PartialEq for Net {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.sent == other.sent
    }
}

impl Eq for Net {}

impl fmt::Debug for Net {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.sent.iter()).finish()
    }
}
