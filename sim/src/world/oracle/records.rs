//! Every record's fate against the log: acked ones are in it exactly once, at their offset (R1, R9); those that certainly
//! failed are not in it; the rest at most once (I20); each producer's in the order they were sent (I15).

use seam_wire::Offset;
use std::collections::BTreeMap;

/// What a record holds: who sent it, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Value {
    pub producer: u8,
    pub record: u32,
}

impl Value {
    /// Padded to `bytes`.
    pub fn encode(self, bytes: usize) -> Vec<u8> {
        let mut out = vec![self.producer];
        out.extend_from_slice(&self.record.to_le_bytes());
        out.resize(bytes.max(5), 0xa5);
        out
    }

    pub fn decode(bytes: &[u8]) -> Value {
        assert!(bytes.len() >= 5, "a record that nobody sent: {bytes:?}");
        Value { producer: bytes[0], record: u32::from_le_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fate {
    Open,
    Acked(Offset),
    /// It did not happen.
    Failed,
    /// It may have happened.
    Unknown,
}

#[derive(Clone, Debug)]
struct Record {
    range: u32,
    sent_at: u64,
    is_probe: bool,
    is_delivered: bool,
    fate: Fate,
}

#[derive(Default)]
pub struct Records {
    records: BTreeMap<Value, Record>,
    last_acked: BTreeMap<u8, (u32, Offset)>,
    pub ack_latencies: Vec<(u64, u64)>,
    pub delivery_latencies: Vec<(u64, u64)>,
}

impl Records {
    pub fn sent(&mut self, value: Value, range: u32, now: u64, is_probe: bool) {
        let record = Record { range, sent_at: now, is_probe, is_delivered: false, fate: Fate::Open };
        assert!(self.records.insert(value, record).is_none(), "{value:?} is sent once");
    }

    pub fn acked(&mut self, now: u64, value: Value, offset: Offset) {
        let record = self.records.get_mut(&value).expect("only what was sent is acked");
        assert_eq!(record.fate, Fate::Open, "{value:?} has two outcomes");
        record.fate = Fate::Acked(offset);
        self.ack_latencies.push((now, now - record.sent_at));
        // I15: of one session's records, those sent later lie later.
        if let Some((last, at)) = self.last_acked.insert(value.producer, (value.record, offset)) {
            let ordered = (last < value.record) == (at < offset);
            assert!(
                ordered,
                "I15: producer {}: record {last} is at {at}, {} at {offset}",
                value.producer, value.record
            );
        }
    }

    pub fn delivered(&mut self, now: u64, value: Value) {
        // Only the first time: a record that is read again later was not late.
        if let Some(record) = self.records.get_mut(&value).filter(|record| !record.is_delivered) {
            record.is_delivered = true;
            self.delivery_latencies.push((now, now - record.sent_at));
        }
    }

    pub fn failed(&mut self, value: Value, definite: bool, why: &str) {
        let record = self.records.get_mut(&value).expect("only what was sent fails");
        assert_eq!(record.fate, Fate::Open, "{value:?} has two outcomes");
        assert!(!record.is_probe, "liveness: after all was healed {value:?} failed: {why}");
        record.fate = if definite { Fate::Failed } else { Fate::Unknown };
    }

    /// `log`: every record of the range, by offset, as it was read. What lies below `log_start` was deleted, read or not.
    pub fn check_log(&self, range: u32, log: &[Option<Value>], log_start: Offset) {
        let mut at: BTreeMap<Value, Offset> = BTreeMap::new();
        let mut last: BTreeMap<u8, u32> = BTreeMap::new();
        for (offset, value) in log.iter().enumerate() {
            let offset = Offset(offset as u64);
            let Some(value) = *value else {
                assert!(offset < log_start, "R2: a hole at {offset} of range {range}");
                continue;
            };
            let twice = at.insert(value, offset);
            assert!(twice.is_none(), "R9: {value:?} is at {twice:?} and at {offset}");
            let before = last.insert(value.producer, value.record);
            assert!(before < Some(value.record), "I15: {value:?} at {offset} comes after {before:?} of its producer");
        }
        for (value, record) in self.records.iter().filter(|(_, record)| record.range == range) {
            let found = at.remove(value);
            match &record.fate {
                Fate::Acked(offset) if *offset < log_start && found.is_none() => {}
                Fate::Acked(offset) => {
                    assert_eq!(
                        found,
                        Some(*offset),
                        "R1: {value:?} was acked at {offset}; the log has it at {found:?}"
                    );
                }
                Fate::Failed => {
                    assert_eq!(found, None, "I20: {value:?} was said not to be written, and is at {found:?}")
                }
                Fate::Unknown => {}
                Fate::Open => panic!("liveness: {value:?} never had an outcome"),
            }
        }
        assert!(at.is_empty(), "records nobody sent: {at:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(record: u32) -> Value {
        Value { producer: 1, record }
    }

    fn records(fates: &[(u32, Option<u64>)]) -> Records {
        let mut records = Records::default();
        for (record, acked) in fates {
            records.sent(value(*record), 0, 0, false);
            match acked {
                Some(offset) => records.acked(1, value(*record), Offset(*offset)),
                None => records.failed(value(*record), true, "refused"),
            }
        }
        records
    }

    fn log(values: &[u32]) -> Vec<Option<Value>> {
        values.iter().map(|record| Some(value(*record))).collect()
    }

    #[test]
    fn what_was_acked_is_there_once() {
        records(&[(0, Some(0)), (1, Some(1)), (2, None)]).check_log(0, &log(&[0, 1]), Offset(0));
    }

    #[test]
    #[should_panic(expected = "R1")]
    fn an_acked_record_that_is_missing_is_seen() {
        records(&[(0, Some(0)), (1, Some(1))]).check_log(0, &log(&[0]), Offset(0));
    }

    #[test]
    #[should_panic(expected = "R1")]
    fn an_acked_record_elsewhere_is_seen() {
        records(&[(0, Some(0)), (1, Some(1))]).check_log(0, &log(&[1, 0])[..1], Offset(0));
    }

    #[test]
    #[should_panic(expected = "R9")]
    fn a_record_twice_is_seen() {
        records(&[(0, Some(0))]).check_log(0, &log(&[0, 0]), Offset(0));
    }

    #[test]
    #[should_panic(expected = "R2")]
    fn a_hole_is_seen() {
        records(&[(0, Some(0))]).check_log(0, &[Some(value(0)), None], Offset(0));
    }

    #[test]
    #[should_panic(expected = "I20")]
    fn a_refused_record_that_is_there_is_seen() {
        records(&[(0, Some(0)), (1, None)]).check_log(0, &log(&[0, 1]), Offset(0));
    }

    #[test]
    #[should_panic(expected = "I15")]
    fn records_out_of_order_are_seen() {
        let mut records = Records::default();
        records.sent(value(0), 0, 0, false);
        records.sent(value(1), 0, 0, false);
        records.acked(1, value(0), Offset(5));
        records.acked(1, value(1), Offset(4));
    }

    #[test]
    #[should_panic(expected = "nobody sent")]
    fn an_invented_record_is_seen() {
        records(&[(0, Some(0))]).check_log(0, &log(&[0, 7]), Offset(0));
    }
}
