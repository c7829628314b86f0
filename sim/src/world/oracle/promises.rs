//! What a replica promised an agent: durable before it says so (I9), and kept for ever. A later life of the replica remembers it
//! (I9), and from then on no writer below it hears anything (R8). What a replica once said it stored is in its later answers (R1).

use seam_wire::{Epoch, Offset, SegmentId};
use std::collections::BTreeMap;

#[derive(Default)]
pub struct Promises {
    /// By node and segment: the highest epoch an agent was told of.
    told: BTreeMap<(u8, SegmentId), Epoch>,
    /// By node and segment: below this it said it had stored everything.
    stored: BTreeMap<(u8, SegmentId), Offset>,
}

impl Promises {
    /// Node `n` tells an agent that it promised `epoch`, and where its records end; `durable` is what its disk says.
    pub fn promised(&mut self, n: u8, segment: SegmentId, (epoch, end): (Epoch, Offset), durable: Epoch) {
        assert!(
            durable >= epoch,
            "I9: segd-{} says that it promised {epoch:?} of {segment}; its disk says {durable:?}",
            n + 1
        );
        let stored = self.stored.get(&(n, segment)).copied().unwrap_or_default();
        assert!(end >= stored, "R1: segd-{} said it stored {segment} below {stored}, now it ends at {end}", n + 1);
        let told = self.told.entry((n, segment)).or_default();
        *told = (*told).max(epoch);
    }

    /// A new life of node `n` stands at `epoch`.
    pub fn restored(&self, n: u8, segment: SegmentId, epoch: Epoch) {
        let told = self.told_of(n, segment);
        assert!(epoch >= told, "I9: segd-{} promised {told:?} of {segment}, and woke up at {epoch:?}", n + 1);
    }

    /// Node `n` tells the writer of `epoch` what it stored.
    pub fn stored(&mut self, n: u8, segment: SegmentId, epoch: Epoch, end: Offset) {
        let told = self.told_of(n, segment);
        assert!(epoch >= told, "R8: segd-{} promised {told:?} of {segment}, and acks to {epoch:?}", n + 1);
        let stored = self.stored.entry((n, segment)).or_default();
        *stored = (*stored).max(end);
    }

    fn told_of(&self, n: u8, segment: SegmentId) -> Epoch {
        self.told.get(&(n, segment)).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn promised() -> Promises {
        let mut promises = Promises::default();
        promises.stored(0, SegmentId(1), Epoch(0), Offset(5));
        promises.promised(0, SegmentId(1), (Epoch(2), Offset(5)), Epoch(2));
        promises
    }

    #[test]
    fn what_is_kept_is_fine() {
        promised().restored(0, SegmentId(1), Epoch(2));
        promised().stored(0, SegmentId(1), Epoch(2), Offset(6));
        promised().stored(0, SegmentId(2), Epoch(0), Offset(1));
        promised().stored(1, SegmentId(1), Epoch(0), Offset(1));
    }

    #[test]
    #[should_panic(expected = "I9")]
    fn a_promise_that_is_not_durable_is_seen() {
        promised().promised(0, SegmentId(1), (Epoch(3), Offset(5)), Epoch(2));
    }

    #[test]
    #[should_panic(expected = "I9")]
    fn a_forgotten_promise_is_seen() {
        promised().restored(0, SegmentId(1), Epoch(0));
    }

    #[test]
    #[should_panic(expected = "R8")]
    fn an_ack_below_a_promise_is_seen() {
        promised().stored(0, SegmentId(1), Epoch(1), Offset(5));
    }

    #[test]
    #[should_panic(expected = "R1")]
    fn a_replica_that_lost_what_it_said_it_stored_is_seen() {
        promised().promised(0, SegmentId(1), (Epoch(3), Offset(4)), Epoch(3));
    }
}
