//! Which records share a batch, and when a batch goes. Not what becomes of it: that is [`crate::producer`].
//!
//! A batch is closed when the next record does not fit, `linger` after its first record, at a flush, or when its records
//! would be too far apart in time: they share one deadline, the first one's, so that each keeps its own.

use seam_wire::Tick;
use seam_wire::batch::{BatchBuilder, BatchError, BatchLimits, Compression};
use std::collections::VecDeque;

/// Records of one batch may be taken at most this part of the deadline apart.
const SPREAD_DIVISOR: u64 = 16;
/// What a record may cost beyond its contents: lengths, deltas, attributes.
const RECORD_OVERHEAD: usize = 40;

/// Limits and waits. Durations in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a record may wait for company; 0: not at all.
    pub linger_us: u64,
    /// How long after it was taken a record must have its outcome.
    pub deadline_us: u64,
    /// Largest batch before compression. Bytes.
    pub max_batch_bytes: usize,
    pub compression: Compression,
}

/// A record's contents, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    pub timestamp_ms: i64,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [(String, bytes::Bytes)],
}

impl Contents<'_> {
    /// About what the record takes in a batch, never less. Bytes.
    pub fn cost(&self) -> usize {
        let headers: usize = self.headers.iter().map(|(name, content)| name.len() + content.len() + 10).sum();
        self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len) + headers + RECORD_OVERHEAD
    }
}

/// A batch that takes no more records.
#[derive(Debug)]
pub struct ClosedBatch<T> {
    /// Counts the batches of the accumulator from 0.
    pub order: u64,
    pub builder: BatchBuilder,
    /// One per record, in order.
    pub waiters: Vec<T>,
    /// Sum of [`Contents::cost`].
    pub cost: usize,
    /// When its records must have their outcome.
    pub deadline: Tick,
}

/// What became of a pushed record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// It went to the open batch.
    Joined,
    /// It opened a batch that is due at `due`. `closed`: the batch before it is ready to go now.
    Opened { due: Tick, closed: bool },
}

#[derive(Debug)]
struct OpenBatch<T> {
    builder: BatchBuilder,
    waiters: Vec<T>,
    cost: usize,
    first_at: Tick,
}

/// The records of one range that were taken and are not under way. `T`: who waits for a record's outcome.
#[derive(Debug)]
pub struct Accumulator<T> {
    settings: Settings,
    open: Option<OpenBatch<T>>,
    closed: VecDeque<ClosedBatch<T>>,
    next_order: u64,
}

impl<T> Accumulator<T> {
    pub fn new(settings: Settings) -> Self {
        Accumulator { settings, open: None, closed: VecDeque::new(), next_order: 0 }
    }

    /// Takes a record. Errors give the waiter back: the record is above a limit by itself.
    pub fn push(&mut self, now: Tick, contents: Contents<'_>, waiter: T) -> Result<Pushed, (BatchError, T)> {
        let mut closed = false;
        if self.open.as_ref().is_some_and(|open| self.is_over(now, open, contents.cost())) {
            closed = self.close();
        }
        if let Some(open) = &mut self.open {
            if open.push(&contents).is_ok() {
                open.took(&contents, waiter);
                return Ok(Pushed::Joined);
            }
            // Whatever the reason, an empty batch shows whether it lies in the record alone.
            closed = self.close();
        }
        let mut open = OpenBatch {
            builder: BatchBuilder::new(self.settings.compression, None).limits(self.limits()),
            waiters: Vec::new(),
            cost: 0,
            first_at: now,
        };
        if let Err(error) = open.push(&contents) {
            return Err((error, waiter));
        }
        open.took(&contents, waiter);
        self.open = Some(open);
        Ok(Pushed::Opened { due: now.after_us(self.settings.linger_us), closed })
    }

    fn is_over(&self, now: Tick, open: &OpenBatch<T>, cost: usize) -> bool {
        let spread_us = self.settings.linger_us.max(self.settings.deadline_us / SPREAD_DIVISOR);
        let full = match self.settings.compression {
            // The builder knows to the byte.
            Compression::None => false,
            Compression::Lz4 => open.builder.approx_bytes() + cost > self.settings.max_batch_bytes,
        };
        full || now.since(open.first_at) > spread_us
    }

    fn limits(&self) -> BatchLimits {
        let max = self.settings.max_batch_bytes;
        let max_batch_bytes = match self.settings.compression {
            Compression::None => max,
            // What does not compress grows a little: a word per block, and the frame around it.
            Compression::Lz4 => max + max / 1024 + 256,
        };
        BatchLimits { max_batch_bytes, ..BatchLimits::default() }
    }

    fn close(&mut self) -> bool {
        let Some(open) = self.open.take() else {
            return false;
        };
        let OpenBatch { builder, waiters, cost, first_at } = open;
        let deadline = first_at.after_us(self.settings.deadline_us);
        self.closed.push_back(ClosedBatch { order: self.next_order, builder, waiters, cost, deadline });
        self.next_order += 1;
        true
    }

    /// The next batch that is to go: closed, or due now.
    pub fn take(&mut self, now: Tick) -> Option<ClosedBatch<T>> {
        if self.closed.is_empty() && self.due().is_some_and(|due| due <= now) {
            self.close();
        }
        self.closed.pop_front()
    }

    /// The next batch whose deadline is over.
    pub fn take_expired(&mut self, now: Tick) -> Option<ClosedBatch<T>> {
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            if self.closed.is_empty() {
                self.close();
            }
            return self.closed.pop_front();
        }
        None
    }

    /// Closes the open batch. Returns the order below which everything was taken before this call.
    pub fn flush(&mut self) -> u64 {
        self.close();
        self.next_order
    }

    /// When the open batch is due.
    pub fn due(&self) -> Option<Tick> {
        self.open.as_ref().map(|open| open.first_at.after_us(self.settings.linger_us))
    }

    /// When [`Accumulator::take_expired`] has something, if nothing is taken before.
    pub fn next_deadline(&self) -> Option<Tick> {
        let open = || self.open.as_ref().map(|open| open.first_at.after_us(self.settings.deadline_us));
        self.closed.front().map(|batch| batch.deadline).or_else(open)
    }

    /// Whether a record of this [`Contents::cost`] would join the open batch.
    pub fn has_room_for(&self, cost: usize) -> bool {
        let fits = |open: &OpenBatch<T>| open.builder.approx_bytes() + cost <= self.settings.max_batch_bytes;
        self.open.as_ref().is_some_and(fits)
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_none() && self.closed.is_empty()
    }

    /// The order of the oldest batch here; of the next one if there is none.
    pub fn first_order(&self) -> u64 {
        self.closed.front().map_or(self.next_order, |batch| batch.order)
    }

    /// Batches opened from now on are at most this large. For a router that takes less than we would send.
    pub fn limit_batch_bytes(&mut self, max_batch_bytes: usize) {
        self.settings.max_batch_bytes = self.settings.max_batch_bytes.min(max_batch_bytes);
    }
}

impl<T> OpenBatch<T> {
    fn push(&mut self, contents: &Contents<'_>) -> Result<(), BatchError> {
        self.builder.push(contents.timestamp_ms, contents.key, contents.value, contents.headers)
    }

    fn took(&mut self, contents: &Contents<'_>, waiter: T) {
        self.cost += contents.cost();
        self.waiters.push(waiter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000;

    fn settings(linger_ms: u64) -> Settings {
        Settings {
            linger_us: linger_ms * MS,
            deadline_us: 16_000 * MS,
            max_batch_bytes: 1_000,
            compression: Compression::None,
        }
    }

    fn value(bytes: &[u8]) -> Contents<'_> {
        Contents { timestamp_ms: 0, key: None, value: Some(bytes), headers: &[] }
    }

    fn at(ms: u64) -> Tick {
        Tick(ms * MS)
    }

    #[test]
    fn a_batch_goes_when_its_first_record_has_lingered() {
        let mut acc = Accumulator::new(settings(5));
        assert_eq!(acc.push(at(1), value(b"a"), 'a').unwrap(), Pushed::Opened { due: at(6), closed: false });
        assert_eq!(acc.push(at(3), value(b"b"), 'b').unwrap(), Pushed::Joined);
        assert!(acc.take(at(5)).is_none());
        let batch = acc.take(at(6)).unwrap();
        assert_eq!((batch.order, batch.waiters, batch.deadline), (0, vec!['a', 'b'], at(16_001)));
        assert!(acc.is_empty());
    }

    #[test]
    fn without_linger_what_is_queued_goes_together() {
        let mut acc = Accumulator::new(settings(0));
        acc.push(at(1), value(b"a"), 'a').unwrap();
        acc.push(at(1), value(b"b"), 'b').unwrap();
        assert_eq!(acc.take(at(1)).unwrap().waiters, ['a', 'b']);
    }

    #[test]
    fn a_record_that_does_not_fit_closes_the_batch_before_it() {
        let mut acc = Accumulator::new(settings(5));
        acc.push(at(0), value(&[0; 600]), 'a').unwrap();
        assert_eq!(acc.push(at(1), value(&[0; 600]), 'b').unwrap(), Pushed::Opened { due: at(6), closed: true });
        assert_eq!(acc.take(at(1)).unwrap().waiters, ['a']);
        assert!(acc.take(at(1)).is_none());
        let (error, waiter) = acc.push(at(2), value(&[0; 2_000]), 'c').unwrap_err();
        assert!(matches!(error, BatchError::TooLarge { .. }) && waiter == 'c', "{error}");
        assert_eq!(acc.take(at(2)).unwrap().waiters, ['b'], "the refused record leaves the others alone");
        assert!(acc.is_empty());
    }

    #[test]
    fn records_far_apart_do_not_share_a_deadline() {
        let mut acc = Accumulator::new(settings(0));
        acc.push(at(0), value(b"a"), 'a').unwrap();
        assert_eq!(acc.push(at(1_001), value(b"b"), 'b').unwrap(), Pushed::Opened { due: at(1_001), closed: true });
        assert!(acc.take_expired(at(15_999)).is_none());
        assert_eq!(acc.take_expired(at(16_000)).unwrap().waiters, ['a']);
        assert_eq!(acc.next_deadline(), Some(at(17_001)));
        assert_eq!(acc.take_expired(at(17_001)).unwrap().waiters, ['b']);
    }

    #[test]
    fn flush_closes_what_is_open() {
        let mut acc = Accumulator::new(settings(1_000));
        acc.push(at(0), value(b"a"), 'a').unwrap();
        assert_eq!(acc.flush(), 1);
        assert_eq!(acc.first_order(), 0);
        assert_eq!(acc.take(at(0)).unwrap().order, 0);
        assert_eq!((acc.first_order(), acc.flush()), (1, 1));
    }

    proptest! {
        /// Whatever the sizes and times: every record is in exactly one batch, in order, none is above the limit, and no
        /// batch is older than the linger allows when it is asked for at every step.
        #[test]
        fn every_record_is_in_one_batch_in_order(
            steps in prop::collection::vec((0usize..900, 0u64..4), 1..200),
            lz4: bool,
            linger_ms in 0u64..4,
        ) {
            let compression = if lz4 { Compression::Lz4 } else { Compression::None };
            let mut acc = Accumulator::new(Settings { compression, ..settings(linger_ms) });
            let (mut now, mut seen, mut orders) = (0, Vec::new(), Vec::new());
            let mut check = |batch: ClosedBatch<(usize, u64)>, now: u64| {
                let first = batch.waiters[0].1;
                prop_assert!(now - first <= linger_ms, "waited {} ms of {linger_ms}", now - first);
                orders.push(batch.order);
                seen.extend(batch.waiters.iter().map(|(index, _)| *index));
                let bytes = batch.builder.build().expect("within the limits");
                prop_assert!(bytes.len() <= 1_300, "{}", bytes.len());
                Ok(())
            };
            for (index, (size, pause)) in steps.iter().enumerate() {
                for _ in 0..*pause {
                    now += 1;
                    while let Some(batch) = acc.take(at(now)) {
                        check(batch, now)?;
                    }
                }
                // Bytes that do not compress.
                let filler: Vec<u8> = (0..*size).map(|n| (n * n * 31 + n * 7 + index) as u8).collect();
                acc.push(at(now), value(&filler), (index, now)).map_err(|(error, _)| error).unwrap();
                while let Some(batch) = acc.take(at(now)) {
                    check(batch, now)?;
                }
            }
            acc.flush();
            while let Some(batch) = acc.take(at(now)) {
                check(batch, now)?;
            }
            prop_assert_eq!(seen, (0..steps.len()).collect::<Vec<_>>());
            prop_assert!(orders.iter().copied().eq(0..orders.len() as u64));
        }
    }
}
