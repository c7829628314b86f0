//! When to announce a roll, when to switch, when to hold appends: fill, rates and roll latency of one open segment.
//!
//! Measurement only, kept out of the sub-machines. Rates are those of the segment itself; the roll latency is what rolls
//! really took, handed on with the write head.

use seam_wire::Tick;
use seam_wire::meta::RollReason;
use seam_wire::msg::Pace;
use seam_wire::report::{Announcement, MarkBasis, RollCause};
use seam_wire::topic::{Anticipation, TopicConfig};

/// Times the p99 roll latency by which the announcement leads the hard cap.
const SAFETY: u64 = 3;
/// Until a roll was measured the soft mark is at 90 % of the hard cap, or this much time before it, whichever is earlier.
const UNMEASURED_LATENCY_US: u64 = 500_000;
/// The announcement leads by at least this part of the hard cap.
const FLOOR_DIVISOR: u64 = 10;
/// Rates are averaged over windows of this length.
const WINDOW_US: u64 = 100_000;
/// After so many windows nothing of an older average is left.
const FORGOTTEN_WINDOWS: u64 = 64;
/// Past the hard cap writes go on for at most this long at the measured rate.
const OVERRUN_US: u64 = 10_000_000;

/// Bytes or records a second: the higher of a quick and a slow average, so that a sudden rise is believed at once.
#[derive(Clone, Debug, Default)]
struct Rate {
    window_start: Tick,
    in_window: u64,
    quick_per_s: u64,
    slow_per_s: u64,
}

impl Rate {
    fn seeded(now: Tick, per_s: u64) -> Self {
        Rate { window_start: now, in_window: 0, quick_per_s: per_s, slow_per_s: per_s }
    }

    fn add(&mut self, now: Tick, amount: u64) {
        self.roll_window(now);
        self.in_window += amount;
    }

    fn roll_window(&mut self, now: Tick) {
        let elapsed = now.since(self.window_start);
        let windows = elapsed / WINDOW_US;
        if windows == 0 {
            return;
        }
        let per_s = self.in_window.saturating_mul(1_000_000) / elapsed;
        let settled = if windows == 1 { (self.quick_per_s + per_s) / 2 } else { per_s };
        self.quick_per_s = settled.max(per_s);
        for _ in 0..windows.min(FORGOTTEN_WINDOWS) {
            self.slow_per_s = (self.slow_per_s * 7 + per_s) / 8;
        }
        self.window_start = now;
        self.in_window = 0;
    }

    fn per_s(&self) -> u64 {
        self.quick_per_s.max(self.slow_per_s)
    }
}

/// Why a primary wants to switch now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Below every limit.
    Nothing,
    /// Announce: prepare a successor.
    Announce,
    /// Switch as soon as a successor open on all its replicas is ready (asked by hand, a drain, age).
    Switch,
    /// The hard cap: switch to any ready successor.
    HardCap,
    /// Past the ceiling: hold appends until one is ready.
    Hold,
}

#[derive(Clone, Debug)]
pub struct Marks {
    hard_bytes: u64,
    hard_records: u64,
    max_age_us: u64,
    anticipation: Anticipation,
    opened: Tick,
    bytes: u64,
    records: u64,
    byte_rate: Rate,
    record_rate: Rate,
    /// A decaying maximum of announce-to-ready; 0: unmeasured.
    roll_latency_us: u64,
    asked: Option<RollReason>,
}

impl Marks {
    /// A segment opened now. `pace` is what the predecessor measured.
    pub fn new(config: &TopicConfig, now: Tick, pace: Pace) -> Self {
        Marks {
            hard_bytes: config.segment_bytes,
            hard_records: if config.segment_records == 0 { u64::MAX } else { config.segment_records },
            max_age_us: config.max_age_ms.saturating_mul(1000),
            anticipation: config.anticipation,
            opened: now,
            bytes: 0,
            records: 0,
            byte_rate: Rate::seeded(now, pace.rate_bytes_per_s),
            record_rate: Rate::seeded(now, pace.rate_records_per_s),
            roll_latency_us: pace.roll_latency_us,
            asked: None,
        }
    }

    pub fn appended(&mut self, now: Tick, bytes: u64, records: u64) {
        self.bytes += bytes;
        self.records += records;
        self.byte_rate.add(now, bytes);
        self.record_rate.add(now, records);
    }

    /// An operator, a drain or a failing replica wants this segment rolled.
    pub fn ask(&mut self, reason: RollReason) {
        self.asked = Some(reason);
    }

    /// A roll took so long from announcement to ready. The estimate is a maximum that decays by an eighth a roll: it
    /// follows a rise at once and a fall slowly.
    pub fn observe_roll_latency(&mut self, sample_us: u64) {
        let decayed = self.roll_latency_us - self.roll_latency_us / 8;
        self.roll_latency_us = decayed.max(sample_us).max(1);
    }

    fn lead_us(&self) -> u64 {
        let latency = if self.roll_latency_us == 0 { UNMEASURED_LATENCY_US } else { self.roll_latency_us };
        latency.saturating_mul(SAFETY)
    }

    fn soft(&self, hard: u64, rate_per_s: u64) -> u64 {
        match self.anticipation {
            Anticipation::AtOpen => 0,
            Anticipation::Off => hard,
            Anticipation::Soft => {
                let lead = u128::from(rate_per_s) * u128::from(self.lead_us()) / 1_000_000;
                let lead = u64::try_from(lead).unwrap_or(u64::MAX).max(hard / FLOOR_DIVISOR);
                hard.saturating_sub(lead)
            }
        }
    }

    /// The fill in bytes at which the roll is announced, as of now.
    pub fn soft_bytes(&self) -> u64 {
        self.soft(self.hard_bytes, self.byte_rate.per_s())
    }

    /// Past this fill appends are held back if no successor is ready.
    pub fn ceiling_bytes(&self) -> u64 {
        if self.anticipation == Anticipation::Off {
            return self.hard_bytes;
        }
        let overrun = u128::from(self.byte_rate.per_s()) * u128::from(OVERRUN_US) / 1_000_000;
        let overrun = u64::try_from(overrun).unwrap_or(u64::MAX);
        self.hard_bytes.saturating_mul(2).max(self.hard_bytes.saturating_add(overrun))
    }

    fn ceiling_records(&self) -> u64 {
        if self.anticipation == Anticipation::Off { self.hard_records } else { self.hard_records.saturating_mul(2) }
    }

    pub fn want(&self, now: Tick) -> Want {
        let age_us = now.since(self.opened);
        let aged = self.max_age_us != 0 && self.records > 0;
        if self.bytes >= self.ceiling_bytes() || self.records >= self.ceiling_records() {
            Want::Hold
        } else if self.bytes >= self.hard_bytes || self.records >= self.hard_records {
            Want::HardCap
        } else if self.asked.is_some() || (aged && age_us >= self.max_age_us) {
            Want::Switch
        } else if self.announces(age_us, aged) {
            Want::Announce
        } else {
            Want::Nothing
        }
    }

    fn announces(&self, age_us: u64, aged: bool) -> bool {
        let by_bytes = self.bytes >= self.soft_bytes();
        let by_records =
            self.hard_records != u64::MAX && self.records >= self.soft(self.hard_records, self.record_rate.per_s());
        let by_age = aged && self.anticipation != Anticipation::Off && age_us >= self.max_age_us - self.age_lead_us();
        by_bytes || by_records || by_age
    }

    /// When age alone changes what is wanted; `None` without a maximum age.
    pub fn next_age_deadline(&self, now: Tick) -> Option<Tick> {
        if self.max_age_us == 0 || self.records == 0 {
            return None;
        }
        let announce = self.opened.after_us(self.max_age_us - self.age_lead_us());
        let switch = self.opened.after_us(self.max_age_us);
        [announce, switch].into_iter().find(|at| *at > now)
    }

    pub fn pace(&self, now: Tick) -> Pace {
        let mut bytes = self.byte_rate.clone();
        let mut records = self.record_rate.clone();
        bytes.roll_window(now);
        records.roll_window(now);
        Pace {
            rate_bytes_per_s: bytes.per_s(),
            rate_records_per_s: records.per_s(),
            roll_latency_us: self.roll_latency_us,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    pub fn over_hard_bytes(&self) -> u64 {
        self.bytes.saturating_sub(self.hard_bytes)
    }

    /// What makes a switch due at this moment.
    pub fn switch_cause(&self, now: Tick) -> RollCause {
        if self.bytes >= self.hard_bytes {
            RollCause::Bytes
        } else if self.records >= self.hard_records {
            RollCause::Records
        } else {
            self.asked_or_aged(now)
        }
    }

    fn asked_or_aged(&self, now: Tick) -> RollCause {
        let aged = self.max_age_us != 0 && now.since(self.opened) >= self.max_age_us;
        match self.asked {
            Some(reason) if !aged => RollCause::Asked(reason),
            Some(_) | None => RollCause::Age,
        }
    }

    /// Why the roll is announced at this moment: what makes it due, and how the mark came about.
    pub fn announcement(&self, now: Tick) -> Announcement {
        let lead_us = self.lead_us();
        let ahead = |rate_per_s: u64| {
            u64::try_from(u128::from(rate_per_s) * u128::from(lead_us) / 1_000_000).unwrap_or(u64::MAX)
        };
        let (byte_rate, record_rate) = (self.byte_rate.per_s(), self.record_rate.per_s());
        let cause = if self.bytes >= self.soft(self.hard_bytes, byte_rate) {
            RollCause::Bytes
        } else if self.hard_records != u64::MAX && self.records >= self.soft(self.hard_records, record_rate) {
            RollCause::Records
        } else {
            self.asked_or_aged(now)
        };
        let (hard, fill, rate_per_s, lead, mark) = match cause {
            RollCause::Bytes | RollCause::Asked(_) => {
                let mark = self.soft(self.hard_bytes, byte_rate);
                (self.hard_bytes, self.bytes, byte_rate, ahead(byte_rate), mark)
            }
            RollCause::Records => {
                let mark = self.soft(self.hard_records, record_rate);
                (self.hard_records, self.records, record_rate, ahead(record_rate), mark)
            }
            RollCause::Age => {
                let kept = if self.anticipation == Anticipation::Off { 0 } else { self.age_lead_us() };
                let mark = self.max_age_us.saturating_sub(kept) / 1000;
                (self.max_age_us / 1000, now.since(self.opened) / 1000, 1000, lead_us / 1000, mark)
            }
        };
        let basis = match self.anticipation {
            Anticipation::AtOpen => MarkBasis::AtOpen,
            Anticipation::Off => MarkBasis::Off,
            Anticipation::Soft if self.roll_latency_us == 0 => MarkBasis::Unmeasured,
            Anticipation::Soft if lead >= hard / FLOOR_DIVISOR => MarkBasis::Lead,
            Anticipation::Soft => MarkBasis::Floor,
        };
        let roll_latency_us = lead_us / SAFETY;
        Announcement { cause, basis, hard, mark, fill, lead, rate_per_s, roll_latency_us, safety: SAFETY }
    }

    fn age_lead_us(&self) -> u64 {
        self.lead_us().max(self.max_age_us / FLOOR_DIVISOR).min(self.max_age_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(anticipation: Anticipation) -> TopicConfig {
        TopicConfig { segment_bytes: 1_000_000, anticipation, ..TopicConfig::default() }
    }
    fn pace(rate: u64, latency: u64) -> Pace {
        Pace { rate_bytes_per_s: rate, rate_records_per_s: 0, roll_latency_us: latency }
    }

    #[test]
    fn the_soft_mark_follows_rate_and_latency() {
        let slow = Marks::new(&config(Anticipation::Soft), Tick(0), pace(100_000, 100_000));
        assert_eq!(slow.soft_bytes(), 900_000, "the floor");
        let fast = Marks::new(&config(Anticipation::Soft), Tick(0), pace(1_000_000, 100_000));
        assert_eq!(fast.soft_bytes(), 700_000);
        let faster = Marks::new(&config(Anticipation::Soft), Tick(0), pace(10_000_000, 1_000_000));
        assert_eq!(faster.soft_bytes(), 0, "never below 0");
    }

    #[test]
    fn the_modes_differ_in_the_threshold_alone() {
        let mut off = Marks::new(&config(Anticipation::Off), Tick(0), pace(1, 1));
        let mut at_open = Marks::new(&config(Anticipation::AtOpen), Tick(0), pace(1, 1));
        assert_eq!(at_open.want(Tick(1)), Want::Announce);
        off.appended(Tick(1), 999_999, 1);
        assert_eq!(off.want(Tick(1)), Want::Nothing);
        off.appended(Tick(1), 1, 1);
        assert_eq!(off.want(Tick(1)), Want::Hold);
        at_open.appended(Tick(1), 1_000_000, 1);
        assert_eq!(at_open.want(Tick(1)), Want::HardCap);
        at_open.appended(Tick(1), 1_000_000, 1);
        assert_eq!(at_open.want(Tick(1)), Want::Hold);
    }

    #[test]
    fn an_announcement_says_what_made_it_due_and_how_its_mark_came_about() {
        let told = |anticipation, pace, bytes| {
            let mut marks = Marks::new(&config(anticipation), Tick(0), pace);
            marks.appended(Tick(1), bytes, 1);
            marks.announcement(Tick(1))
        };
        let floor = told(Anticipation::Soft, pace(100_000, 100_000), 900_000);
        assert_eq!((floor.cause, floor.basis), (RollCause::Bytes, MarkBasis::Floor));
        assert_eq!((floor.hard, floor.mark, floor.fill, floor.lead), (1_000_000, 900_000, 900_000, 30_000));
        let lead = told(Anticipation::Soft, pace(1_000_000, 100_000), 700_000);
        assert_eq!((lead.basis, lead.mark, lead.lead), (MarkBasis::Lead, 700_000, 300_000));
        assert_eq!((lead.rate_per_s, lead.roll_latency_us, lead.safety), (1_000_000, 100_000, 3));
        let unmeasured = told(Anticipation::Soft, pace(1, 0), 900_000);
        assert_eq!((unmeasured.basis, unmeasured.mark), (MarkBasis::Unmeasured, 900_000));
        assert_eq!(told(Anticipation::AtOpen, pace(1, 1), 0).basis, MarkBasis::AtOpen);
        assert_eq!(told(Anticipation::Off, pace(1, 1), 1_000_000).basis, MarkBasis::Off);
    }

    #[test]
    fn who_asked_is_told_and_so_are_age_and_records() {
        let limits = TopicConfig { max_age_ms: 10_000, segment_records: 10, ..config(Anticipation::Soft) };
        let mut marks = Marks::new(&limits, Tick(0), pace(0, 100_000));
        marks.appended(Tick(1), 10, 1);
        let aged = marks.announcement(Tick(9_000_000));
        assert_eq!((aged.cause, aged.hard, aged.mark, aged.fill), (RollCause::Age, 10_000, 9_000, 9_000));
        marks.ask(RollReason::Drain);
        assert_eq!(marks.announcement(Tick(2)).cause, RollCause::Asked(RollReason::Drain));
        assert_eq!(marks.switch_cause(Tick(2)), RollCause::Asked(RollReason::Drain));
        marks.appended(Tick(2), 10, 8);
        let full = marks.announcement(Tick(2));
        assert_eq!((full.cause, full.hard, full.mark, full.fill), (RollCause::Records, 10, 9, 9));
        marks.appended(Tick(3), 10, 1);
        assert_eq!(marks.switch_cause(Tick(3)), RollCause::Records);
    }

    #[test]
    fn a_sudden_rise_of_the_rate_is_believed_within_two_windows() {
        let mut marks = Marks::new(&config(Anticipation::Soft), Tick(0), pace(100_000, 100_000));
        for step in 1..=3u64 {
            marks.appended(Tick(step * WINDOW_US), 100_000, 100);
        }
        assert!(marks.pace(Tick(3 * WINDOW_US)).rate_bytes_per_s >= 900_000);
    }

    #[test]
    fn an_idle_segment_has_no_rate() {
        let mut marks = Marks::new(&config(Anticipation::Soft), Tick(0), pace(0, 100_000));
        for step in 1..=20u64 {
            marks.appended(Tick(step * WINDOW_US), 100_000, 100);
        }
        assert!(marks.pace(Tick(21 * WINDOW_US)).rate_bytes_per_s > 500_000);
        assert!(marks.pace(Tick(60_000_000)).rate_bytes_per_s < 5_000);
    }

    #[test]
    fn age_announces_then_switches_a_segment_with_records() {
        let config = TopicConfig { max_age_ms: 10_000, ..config(Anticipation::Soft) };
        let mut marks = Marks::new(&config, Tick(0), pace(0, 100_000));
        assert_eq!(marks.want(Tick(20_000_000)), Want::Nothing, "an empty segment does not age");
        marks.appended(Tick(1), 10, 1);
        assert_eq!(marks.next_age_deadline(Tick(1)), Some(Tick(9_000_000)));
        assert_eq!(marks.want(Tick(9_000_000)), Want::Announce);
        assert_eq!(marks.want(Tick(10_000_000)), Want::Switch);
    }
}
