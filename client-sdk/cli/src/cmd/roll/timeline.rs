//! The phases of one roll or recovery on one timeline.
//!
//! The record holds durations, each measured on one clock. A phase begins with the message that ends another, so they chain
//! without comparing clocks. What is known of a message's two ways is their sum only; it is split evenly between them.

use super::explain::Places;
use seamlog::{RollRecord, RollRecovery};
use serde::Serialize;

/// A stretch of the timeline, in microseconds from the roll's beginning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Phase {
    pub phase: &'static str,
    /// The process whose clock measured it.
    #[serde(rename = "where")]
    pub place: String,
    pub start_us: u64,
    pub end_us: u64,
    pub took_us: u64,
    /// On the critical path: all these together are the total, one after the other.
    pub critical: bool,
    pub about: &'static str,
}

/// All of them, in the order they begin.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    pub phases: Vec<Phase>,
    /// The end of the critical path: from the announcement (or the last sign of life) until the successor serves.
    pub total_us: u64,
}

impl Timeline {
    pub fn of(record: &RollRecord, places: &Places) -> Timeline {
        let mut line = Timeline::default();
        match &record.recovery {
            Some(recovery) => line.recovery(record, recovery, places),
            None => line.planned(record, places),
        }
        line.phases.sort_by_key(|phase| (phase.start_us, phase.end_us));
        line
    }

    /// A stretch beside the critical path.
    fn beside(&mut self, phase: &'static str, place: &str, start_us: u64, took_us: u64, about: &'static str) {
        let place = place.to_owned();
        self.phases.push(Phase { phase, place, start_us, end_us: start_us + took_us, took_us, critical: false, about });
    }

    /// The next stretch of the critical path.
    fn then(&mut self, phase: &'static str, place: &str, took_us: u64, about: &'static str) {
        self.beside(phase, place, self.total_us, took_us, about);
        self.phases.last_mut().expect("one was just added").critical = true;
        self.total_us += took_us;
    }

    fn planned(&mut self, record: &RollRecord, places: &Places) {
        let (old, new) = (places.primary(record.segment), places.primary(record.next));
        let (metad, there) = ("metad", record.announce_us / 2);
        self.then("announce", &old, there, "the soft mark on its way to metad");
        self.then("placement", metad, record.placement_us, "the successor's nodes are chosen");
        let commit_us = record.commit_us.saturating_sub(record.placement_us);
        self.then("commit", metad, commit_us, "the plan goes through metad's log");
        self.then("open", metad, record.open_us, "the successor's replicas open it");
        self.then("ready", metad, record.ready_us, "that it is ready goes through the log");
        self.then("deliver", &old, record.announce_us - there, "that word on its way to the old primary");
        // Wanted before it was ready: the wait lies beside the phases above.
        let held_us = record.switch_us.min(record.slack_us);
        self.then("slack", &old, record.slack_us - held_us, "a ready successor stands by");
        self.then("switch", &old, held_us, "due, until the head moved");
        let switched = self.total_us;
        if record.switch_us > record.slack_us {
            let from = switched.saturating_sub(record.switch_us);
            self.beside("due", &old, from, switched - from, "due already, with no successor ready");
        }

        // Seal and begin run side by side; the successor's own clock starts with the begin's arrival.
        let there = record.begin_us / 2;
        let begun = switched + there;
        let opened = begun + record.gate_us;
        let sealed = switched + record.seal_us;
        let answered = switched + record.begin_us;
        let served = serves(record).map_or(opened, |us| begun + us);
        let by_gate = served >= sealed && served >= answered;
        if by_gate {
            self.then("begin", &old, there, "the begin on its way to the successor");
            self.then("gate", &new, record.gate_us, "until the old segment was known to be decided there");
            self.first_commit(record, &new, begun, opened);
        } else {
            self.beside("begin", &old, switched, there, "the begin on its way to the successor");
            self.beside("gate", &new, begun, record.gate_us, "until the old segment was known to be decided there");
            self.first_commit_beside(record, &new, begun, opened);
        }
        let seal = "until the seal entry was durable on a quorum";
        if !by_gate && sealed >= answered {
            self.then("seal", &old, record.seal_us, seal);
        } else {
            self.beside("seal", &old, switched, record.seal_us, seal);
        }
        let back = "the successor's answer on its way back";
        if !by_gate && sealed < answered {
            self.phases.iter_mut().filter(|phase| phase.phase == "begin").for_each(|phase| phase.critical = true);
            self.total_us += there;
            self.then("begun", &old, record.begin_us - there, back);
        } else {
            self.beside("begun", &old, begun, record.begin_us - there, back);
        }
        self.first_delivery(record, &new, begun);
        let told = sealed + record.record_after_us;
        self.beside("record", metad, told, record.record_us, "the roll goes through metad's log, off the write path");
    }

    fn recovery(&mut self, record: &RollRecord, recovery: &RollRecovery, places: &Places) {
        let (metad, agent, new) = ("metad", places.node(recovery.agent), places.primary(record.next));
        self.then("detect", metad, recovery.detect_us, "the old primary was last heard of, until given up");
        self.then("wait", metad, recovery.wait_us, "until the agent's appointment was proposed");
        self.then("appoint", metad, recovery.appoint_us, "the appointment goes through metad's log");
        let appointed = self.total_us;
        self.beside("open", metad, appointed, record.open_us, "the candidate's replicas open it");
        let opened = appointed + record.open_us;
        self.beside("ready", metad, opened, record.ready_us, "that it is ready goes through the log");
        let trips = recovery.work_us.saturating_sub(recovery.safe_us);
        self.then("deliver", &agent, trips / 2, "the appointment on its way to the agent");
        let seen = self.total_us;
        let fence_us = recovery.fence_us.min(recovery.safe_us);
        self.then("fence", &agent, fence_us, "a quorum promises to ack the old primary nothing more");
        self.then("copy", &agent, recovery.safe_us - fence_us, "records are copied until the end is safe");
        self.then("report", &agent, trips - trips / 2, "that word on its way to metad");
        self.then("decide", metad, record.record_us, "the end goes through metad's log");
        let decided = self.total_us;
        // Begun by the agent, ahead of the decision; or by the decision itself.
        let begun = recovery.begin_us.map_or(decided, |us| seen + us);
        let opened = begun + record.gate_us;
        self.beside("gate", &new, begun, record.gate_us, "begun, until the decision opened its gate");
        self.then("push", &new, opened.saturating_sub(decided), "the decision on its way to the successor");
        self.first_commit(record, &new, begun, opened.max(decided));
        self.first_delivery(record, &new, begun);
    }

    /// On the critical path only if an append was there before the gate opened: else it is the application's own time.
    fn first_commit(&mut self, record: &RollRecord, place: &str, begun: u64, opened: u64) {
        match serves(record) {
            Some(us) => self.then("first_commit", place, (begun + us).saturating_sub(opened), FIRST_COMMIT),
            None => self.first_commit_beside(record, place, begun, opened),
        }
    }

    fn first_commit_beside(&mut self, record: &RollRecord, place: &str, begun: u64, opened: u64) {
        if let Some(us) = record.first_commit_us {
            let from = (begun + record.first_append_us.unwrap_or(us)).max(opened);
            self.beside("first_commit", place, from, (begun + us).saturating_sub(from), FIRST_COMMIT);
        }
    }

    fn first_delivery(&mut self, record: &RollRecord, place: &str, begun: u64) {
        if let Some(us) = record.first_delivery_us {
            let from = record.first_commit_us.map_or(us, |commit| commit.min(us));
            self.beside("first_delivery", place, begun + from, us - from, "its first records leave for a tail");
        }
    }
}

const FIRST_COMMIT: &str = "its first records, until they were committed and acked";

/// From the begin, when the first append that waited for the gate was committed.
fn serves(record: &RollRecord) -> Option<u64> {
    let waited = record.first_append_us.is_some_and(|us| us <= record.gate_us);
    record.first_commit_us.filter(|us| waited && *us >= record.gate_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(record: &RollRecord) -> Timeline {
        let line = Timeline::of(record, &Places::default());
        let mut at = 0;
        for phase in line.phases.iter().filter(|phase| phase.critical) {
            assert_eq!(phase.start_us, at, "a gap before {phase:?} in {:#?}", line.phases);
            assert_eq!(phase.end_us, phase.start_us + phase.took_us);
            at = phase.end_us;
        }
        assert_eq!(at, line.total_us, "the critical path is the total: {:#?}", line.phases);
        line
    }

    fn find<'a>(line: &'a Timeline, name: &str) -> &'a Phase {
        let found = line.phases.iter().find(|phase| phase.phase == name);
        found.unwrap_or_else(|| panic!("no {name} in {:#?}", line.phases))
    }

    fn planned() -> RollRecord {
        RollRecord {
            announce_us: 100,
            placement_us: 10,
            commit_us: 1_000,
            open_us: 800,
            ready_us: 900,
            slack_us: 50_000,
            seal_us: 400,
            begin_us: 200,
            gate_us: 350,
            record_us: 1_100,
            record_after_us: 20_000,
            announce_to_ready_us: 2_800,
            first_append_us: Some(20),
            first_commit_us: Some(360),
            first_delivery_us: Some(380),
            ..RollRecord::default()
        }
    }

    #[test]
    fn a_planned_roll_chains_to_the_first_commit() {
        let line = check(&planned());
        assert_eq!(line.total_us, 2_800 + 50_000 + 100 + 360);
        assert_eq!((find(&line, "slack").start_us, find(&line, "switch").took_us), (2_800, 0));
        assert_eq!((find(&line, "seal").start_us, find(&line, "seal").critical), (52_800, false));
        assert_eq!(find(&line, "first_delivery").end_us, 52_800 + 100 + 380);
        assert_eq!(find(&line, "record").start_us, 52_800 + 400 + 20_000);
    }

    #[test]
    fn the_slower_of_seal_and_begin_is_critical() {
        let sealed = check(&RollRecord { seal_us: 9_000, ..planned() });
        assert!(find(&sealed, "seal").critical && !find(&sealed, "gate").critical);
        assert_eq!(sealed.total_us, 52_800 + 9_000);
        let begun = check(&RollRecord { begin_us: 9_000, gate_us: 1, first_commit_us: Some(2), ..planned() });
        assert!(find(&begun, "begun").critical && !find(&begun, "seal").critical);
        assert_eq!(begun.total_us, 52_800 + 9_000);
    }

    #[test]
    fn who_had_to_wait_for_a_successor_sees_it_beside() {
        let line = check(&RollRecord { slack_us: 5, switch_us: 2_000, not_ready: true, ..planned() });
        let due = find(&line, "due");
        assert_eq!((due.start_us, due.end_us, due.critical), (805, 2_805, false));
        assert_eq!((find(&line, "slack").took_us, find(&line, "switch").took_us), (0, 5));
    }

    #[test]
    fn idle_time_before_the_first_append_is_not_the_rolls() {
        let idle = RollRecord { first_append_us: Some(7_000_000), first_commit_us: Some(7_000_500), ..planned() };
        let line = check(&idle);
        assert_eq!(line.total_us, 52_800 + 100 + 350);
        let commit = find(&line, "first_commit");
        assert_eq!((commit.took_us, commit.critical), (500, false));
    }

    #[test]
    fn odd_records_have_a_sound_timeline_too() {
        check(&RollRecord::default());
        check(&RollRecord { first_commit_us: Some(1), first_delivery_us: Some(0), ..RollRecord::default() });
        check(&RollRecord { commit_us: 1, placement_us: 5, switch_us: 1_000_000, ..RollRecord::default() });
        check(&RollRecord { recovery: Some(RollRecovery::default()), ..RollRecord::default() });
        let lost = RollRecovery { fence_us: 9, safe_us: 3, ..RollRecovery::default() };
        check(&RollRecord { recovery: Some(lost), gate_us: 5, ..planned() });
    }

    #[test]
    fn a_recovery_chains_from_the_last_sign_of_life() {
        let recovery = RollRecovery {
            detect_us: 300_000,
            wait_us: 100,
            appoint_us: 1_000,
            work_us: 2_000,
            fence_us: 700,
            begin_us: Some(800),
            safe_us: 1_500,
            ..RollRecovery::default()
        };
        let record = RollRecord {
            by_recovery: true,
            recovery: Some(recovery),
            open_us: 900,
            ready_us: 800,
            record_us: 1_000,
            gate_us: 2_000,
            first_append_us: Some(1_900),
            first_commit_us: Some(2_400),
            ..RollRecord::default()
        };
        let line = check(&record);
        let decided = 300_000 + 100 + 1_000 + 2_000 + 1_000;
        assert_eq!(find(&line, "decide").end_us, decided);
        assert_eq!(find(&line, "gate").start_us, 301_100 + 250 + 800);
        assert_eq!((decided, find(&line, "push").took_us), (304_100, 50));
        assert_eq!(line.total_us, 304_150 + 400);
        assert_eq!(find(&line, "fence").start_us, 301_100 + 250);
    }
}
