//! A replica's promise: which epoch alone may still write to it. Keeps R8 (a fenced replica acks its old primary nothing).
//!
//! A raised fence shuts lower writers out at once and answers the agent only once it is durable. Writes in flight when it
//! was raised finish, and count in the answer, but are acked to nobody: `admits` is asked again at completion.

use crate::traps::{self, Trap};
use seam_wire::Epoch;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Fence {
    /// Promised durably; survives restarts.
    promised: Epoch,
    /// Raised, perhaps not durable yet. Never below `promised`.
    raised: Epoch,
}

/// What a request to raise the fence leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raise {
    /// Make it durable, then answer.
    Persist,
    /// Durable already: answer at once.
    Answer,
    /// Being made durable: the answer follows.
    Wait,
    /// A higher epoch stands.
    Refused(Epoch),
}

impl Fence {
    /// As found on disk.
    pub fn restored(promised: Epoch) -> Self {
        Fence { promised, raised: promised }
    }

    pub fn raise(&mut self, epoch: Epoch) -> Raise {
        if epoch < self.raised {
            return Raise::Refused(self.raised);
        }
        if epoch > self.raised {
            self.raised = epoch;
            return Raise::Persist;
        }
        if self.promised == epoch { Raise::Answer } else { Raise::Wait }
    }

    /// The promise of `epoch` is durable.
    pub fn persisted(&mut self, epoch: Epoch) {
        self.promised = self.promised.max(epoch);
        assert!(self.promised <= self.raised, "R8: promised {:?} above raised {:?}", self.promised, self.raised);
    }

    /// May a writer of `epoch` write, or be acked, now?
    pub fn admits(&self, epoch: Epoch) -> bool {
        epoch == self.raised || (traps::active(Trap::UnfencedRead) && epoch > self.raised)
    }

    /// Asked again when a write completes.
    pub fn admits_completion(&self, epoch: Epoch) -> bool {
        traps::active(Trap::V6FenceNotRechecked) || traps::active(Trap::P3LateAck) || self.admits(epoch)
    }

    pub fn raised(&self) -> Epoch {
        self.raised
    }

    pub fn promised(&self) -> Epoch {
        self.promised
    }

    /// No recovery ever asked for this replica's promise.
    pub fn is_down(&self) -> bool {
        self.raised == Epoch::PRIMARY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuts_the_primary_out_before_it_is_durable() {
        let mut fence = Fence::default();
        assert!(fence.admits(Epoch(0)));
        assert_eq!(fence.raise(Epoch(3)), Raise::Persist);
        assert!(!fence.admits(Epoch(0)) && !fence.admits_completion(Epoch(0)));
        assert_eq!(fence.raise(Epoch(3)), Raise::Wait);
        fence.persisted(Epoch(3));
        assert_eq!(fence.raise(Epoch(3)), Raise::Answer);
        assert_eq!(fence.raise(Epoch(2)), Raise::Refused(Epoch(3)));
        assert_eq!(fence.raise(Epoch(4)), Raise::Persist);
        assert!(!fence.admits(Epoch(3)), "the older agent is out");
    }
}
