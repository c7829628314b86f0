//! What readers were shown: each one contiguous from its start (R6, I11), and all of them the same, for ever (R7, I10).

use super::Value;
use seam_wire::Offset;

pub struct Readers {
    /// By range: what was shown at each offset, by anybody.
    shown: Vec<Vec<Option<Value>>>,
    /// By consumer: the offset due next.
    next: Vec<Option<Offset>>,
}

impl Readers {
    pub fn new(ranges: u32, consumers: u8) -> Self {
        Readers { shown: vec![Vec::new(); ranges as usize], next: vec![None; usize::from(consumers)] }
    }

    pub fn begins_anew(&mut self, consumer: u8) {
        self.next[usize::from(consumer)] = Some(Offset(0));
    }

    pub fn delivered(&mut self, consumer: u8, range: u32, offset: Offset, value: Value) {
        let next = &mut self.next[usize::from(consumer)];
        assert!(next.is_none_or(|due| due == offset), "R6: consumer {consumer} was due {next:?} and got {offset}");
        *next = Some(offset.plus(1));
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

    /// A reader that began at 0 and came to its end saw all that anybody was ever shown.
    pub fn check_read_all(&self, consumer: u8, range: u32) {
        let next = self.next[usize::from(consumer)].unwrap_or_default();
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
}
