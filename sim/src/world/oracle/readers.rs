//! What readers were shown: each one contiguous from its start (R6, I11) but for what retention deleted, which it was told of;
//! and all of them the same, for ever (R7, I10). Nobody is told that more is deleted than metad committed.

use super::Value;
use seam_wire::Offset;

pub struct Readers {
    /// By range: what was shown at each offset, by anybody.
    shown: Vec<Vec<Option<Value>>>,
    /// By consumer: the offset due next.
    next: Vec<Due>,
    /// By range: where the log starts, as committed.
    starts: Vec<Offset>,
}

/// What a consumer is to get next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// It began where the log ended.
    Any,
    /// The first that there is.
    Earliest,
    At(Offset),
}

impl Readers {
    pub fn new(ranges: u32, consumers: u8) -> Self {
        Readers {
            shown: vec![Vec::new(); ranges as usize],
            next: vec![Due::Any; usize::from(consumers)],
            starts: vec![Offset(0); ranges as usize],
        }
    }

    pub fn begins_anew(&mut self, consumer: u8) {
        self.next[usize::from(consumer)] = Due::Earliest;
    }

    pub fn log_starts(&mut self, range: u32, start: Offset) {
        let known = &mut self.starts[range as usize];
        assert!(*known <= start, "I6: the log of range {range} starts at {known}, and now at {start}");
        *known = start;
    }

    pub fn log_start(&self, range: u32) -> Offset {
        self.starts[range as usize]
    }

    pub fn check_log_start(&self, range: u32, start: Offset) {
        let committed = self.starts[range as usize];
        assert!(
            start <= committed,
            "range {range} is said to start at {start}, before that is committed ({committed})"
        );
    }

    pub fn missed(&mut self, consumer: u8, range: u32, from: Offset, start: Offset) {
        self.check_log_start(range, start);
        let next = &mut self.next[usize::from(consumer)];
        let due = *next == Due::Any || *next == Due::At(from) || (*next == Due::Earliest && from == Offset(0));
        assert!(due && from < start, "R6: consumer {consumer} was due {next:?} and misses {from} to {start}");
        *next = Due::At(start);
    }

    pub fn delivered(&mut self, consumer: u8, range: u32, offset: Offset, value: Value) {
        let next = &mut self.next[usize::from(consumer)];
        let due = match *next {
            Due::Any => true,
            Due::Earliest => offset <= self.starts[range as usize],
            Due::At(due) => due == offset,
        };
        assert!(due, "R6: consumer {consumer} was due {next:?} and got {offset}");
        *next = Due::At(offset.plus(1));
        let shown = &mut self.shown[range as usize];
        let at = usize::try_from(offset.0).expect("small");
        if shown.len() <= at {
            shown.resize(at + 1, None);
        }
        let before = *shown[at].get_or_insert(value);
        assert_eq!(before, value, "R7: {offset} of range {range} was shown as {before:?}, now as {value:?}");
    }

    pub fn log(&self, range: u32) -> &[Option<Value>] {
        &self.shown[range as usize]
    }

    /// A reader that began at the log's start and came to its end saw all that anybody was ever shown, from there on.
    pub fn check_read_all(&self, consumer: u8, range: u32) {
        let next = match self.next[usize::from(consumer)] {
            Due::At(next) => next,
            Due::Any | Due::Earliest => Offset(0),
        };
        let shown = self.shown[range as usize].len() as u64;
        assert_eq!(next.0, shown, "R7: a full read of range {range} ends before what others were shown");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readers() -> Readers {
        let mut readers = Readers::new(1, 2);
        readers.delivered(0, 0, Offset(0), Value { producer: 0, record: 0 });
        readers
    }

    #[test]
    #[should_panic(expected = "R6")]
    fn a_skipped_offset_is_seen() {
        readers().delivered(0, 0, Offset(2), Value { producer: 0, record: 1 });
    }

    #[test]
    #[should_panic(expected = "R6")]
    fn a_repeated_offset_is_seen() {
        readers().delivered(0, 0, Offset(0), Value { producer: 0, record: 0 });
    }

    #[test]
    #[should_panic(expected = "R7")]
    fn a_changed_record_is_seen() {
        readers().delivered(1, 0, Offset(0), Value { producer: 0, record: 1 });
    }

    #[test]
    #[should_panic(expected = "R7")]
    fn what_is_taken_back_is_seen() {
        let mut readers = readers();
        readers.begins_anew(1);
        readers.check_read_all(1, 0);
    }

    #[test]
    fn what_is_deleted_by_committed_word_may_be_missed() {
        let mut readers = readers();
        readers.log_starts(0, Offset(5));
        readers.missed(0, 0, Offset(1), Offset(5));
        readers.delivered(0, 0, Offset(5), Value { producer: 0, record: 5 });
    }

    #[test]
    #[should_panic(expected = "committed")]
    fn what_is_said_to_be_deleted_and_is_not_is_seen() {
        readers().missed(0, 0, Offset(1), Offset(2));
    }

    #[test]
    #[should_panic(expected = "R6")]
    fn a_reader_from_the_earliest_that_skips_what_is_kept_is_seen() {
        let mut readers = readers();
        readers.log_starts(0, Offset(5));
        readers.begins_anew(1);
        readers.delivered(1, 0, Offset(6), Value { producer: 0, record: 6 });
    }
}
