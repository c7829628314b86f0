//! What the machine can refute of P1 to P4 by looking at itself.

use super::batch::{Batch, Place};
use super::link::Link;
use super::{Counters, RangeProducer};
use seam_wire::batch::sequence_after;

impl<T> RangeProducer<T> {
    /// What must hold between any two inputs.
    ///
    /// # Panics
    /// If it does not: a defect of this module.
    pub fn assert_invariants(&self) {
        let open = match &self.link {
            Link::Open(open) => Some(open),
            Link::Idle | Link::Opening { .. } | Link::Waiting { .. } => None,
        };
        let (mut last_seq, mut last_order, mut expected) = (None, None, None);
        for batch in &self.queue {
            assert!(last_order < Some(batch.order), "orders rise: {:?}", self.shape());
            last_order = Some(batch.order);
            if let Place::Sent { seq } = batch.place {
                let open = open.unwrap_or_else(|| panic!("sent on no stream: {:?}", self.shape()));
                assert!(last_seq < Some(seq) && seq < open.next_seq, "in the order of the stream: {:?}", self.shape());
                assert!(batch.base_sequence.is_some(), "sent without a sequence: {:?}", self.shape());
                last_seq = Some(seq);
            }
            if let Some(base) = batch.base_sequence {
                // P2: without a hole the batches in the queue follow each other up to the next sequence; those between
                // them that were acked are gone, so only the last link is exact.
                expected = Some(sequence_after(base, batch.records()));
            } else {
                assert!(!batch.may_exist, "P4: {:?}", self.shape());
            }
        }
        if let Some(expected) = expected
            && !self.hole
        {
            let acked_since = self.next_sequence.wrapping_sub(expected) & i32::MAX;
            assert!(acked_since < 1 << 30, "P2: {:?}", self.shape());
        }
        let span = self.settings.max_in_flight - self.room();
        assert!(span <= self.settings.max_in_flight, "P3: {:?}", self.shape());
        let open_batches = self.queue.len() as u64;
        let Counters { batches, acks, failed, .. } = self.counters;
        assert_eq!(batches, acks + failed + open_batches, "P1: an outcome twice or never");
    }

    fn shape(&self) -> impl std::fmt::Debug + '_ {
        let batches: Vec<_> = self.queue.iter().map(Batch::shape).collect();
        (self.epoch, self.next_sequence, self.hole, &self.link, batches)
    }
}
