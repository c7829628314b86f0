//! What must be true, seen from outside: of what producers were told, of what readers were shown, of what is on disks, of what
//! was decided. Each file is one rule and knows nothing of how the cluster keeps it.

mod acks;
mod decided;
mod promises;
mod readers;
mod records;

pub use records::Value;

use super::plan::Plan;
use decided::Decided;
use promises::Promises;
use readers::Readers;
use records::Records;
use seam_wire::meta::MetaItem;
use seam_wire::msg::Decision;
use seam_wire::{Offset, SegmentId};

/// (moment, microseconds taken), both in microseconds of simulated time.
pub type Latencies = Vec<(u64, u64)>;

pub struct Oracle {
    pub records: Records,
    readers: Readers,
    decided: Decided,
    pub promises: Promises,
}

impl Oracle {
    pub fn new(plan: &Plan) -> Self {
        Oracle {
            records: Records::default(),
            readers: Readers::new(plan.topic.ranges, plan.sizes.consumers),
            decided: Decided::default(),
            promises: Promises::default(),
        }
    }

    pub fn sent(&mut self, value: Value, range: u32, now: u64, is_probe: bool) {
        self.records.sent(value, range, now, is_probe);
    }

    pub fn acked(&mut self, now: u64, value: Value, offset: Offset) {
        self.records.acked(now, value, offset);
    }

    pub fn failed(&mut self, value: Value, definite: bool, why: &str) {
        self.records.failed(value, definite, why);
    }

    pub fn delivered(&mut self, now: u64, consumer: u8, range: u32, offset: Offset, value: Value) {
        self.readers.delivered(consumer, range, offset, value);
        if consumer == 0 {
            self.records.delivered(now, value);
        }
    }

    /// Retention moved the start of a range's log: committed.
    pub fn log_starts(&mut self, range: u32, start: Offset) {
        self.readers.log_starts(range, start);
    }

    /// Somebody acts on where a range's log starts: only on what is committed.
    pub fn told_log_start(&self, range: u32, start: Offset) {
        self.readers.check_log_start(range, start);
    }

    /// A consumer was told that `[from, start)` is deleted.
    pub fn missed(&mut self, consumer: u8, range: u32, from: Offset, start: Offset) {
        self.readers.missed(consumer, range, from, start);
    }

    /// A consumer begins anew, from the earliest offset.
    pub fn begins_anew(&mut self, consumer: u8) {
        self.readers.begins_anew(consumer);
    }

    pub fn published(&mut self, segment: SegmentId, start: Option<Offset>, decision: Option<Decision>) {
        if let Some(start) = start {
            self.decided.starts(segment, start);
        }
        if let Some(decision) = decision {
            self.decided.ends(segment, decision);
        }
    }

    pub fn ended(&mut self, segment: SegmentId, decision: Decision) {
        self.decided.ends(segment, decision);
    }

    /// Segments known to start here.
    pub fn starting_at(&self, at: Offset) -> impl Iterator<Item = SegmentId> + '_ {
        self.decided.starting_at(at)
    }

    pub fn recorded(&mut self, items: &[MetaItem]) {
        self.decided.recorded(items);
    }

    /// Everything of `range` was read once more, from its beginning to its end.
    pub fn check_full_read(&self, consumer: u8, range: u32) {
        let log = self.readers.log(range);
        self.readers.check_read_all(consumer, range);
        self.records.check_log(range, log, self.readers.log_start(range));
    }

    /// Of acks, and of deliveries at the first consumer: the moment, and microseconds since the record was sent.
    pub fn take_latencies(&mut self) -> (Latencies, Latencies) {
        (std::mem::take(&mut self.records.ack_latencies), std::mem::take(&mut self.records.delivery_latencies))
    }
}
