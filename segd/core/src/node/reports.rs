//! Reports to metad: each is repeated until answered; a newer one of the same kind and segment replaces it.

use super::{Node, Outbox, TimerKey};
use crate::io::{Effect, ReportId};
use seam_wire::report::Report;
use seam_wire::{SegmentId, Tick};
use std::collections::BTreeMap;

/// One report of a kind stands per segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    SoftMark,
    Ready,
    Sealed,
    GateOpened,
    Released,
    Reclaimed,
    Stalled,
    Undecidable,
    Recovered,
}

fn subject(report: &Report) -> (Kind, SegmentId) {
    match report {
        Report::SoftMark { segment, .. } => (Kind::SoftMark, *segment),
        Report::Ready { segment, .. } => (Kind::Ready, *segment),
        Report::Sealed { segment, .. } => (Kind::Sealed, *segment),
        Report::GateOpened { segment, .. } => (Kind::GateOpened, *segment),
        Report::Released { segment } => (Kind::Released, *segment),
        Report::Reclaimed { segment, .. } => (Kind::Reclaimed, *segment),
        Report::Stalled { segment } => (Kind::Stalled, *segment),
        Report::Undecidable { segment, .. } => (Kind::Undecidable, *segment),
        Report::Recovered { segment, .. } => (Kind::Recovered, *segment),
    }
}

#[derive(Debug, Default)]
pub(super) struct Reports {
    next_id: u64,
    standing: BTreeMap<ReportId, Report>,
    by_subject: BTreeMap<(Kind, SegmentId), ReportId>,
}

impl Reports {
    fn put(&mut self, report: Report) -> (ReportId, Option<ReportId>) {
        let id = ReportId(self.next_id);
        self.next_id += 1;
        let replaced = self.by_subject.insert(subject(&report), id);
        if let Some(replaced) = replaced {
            self.standing.remove(&replaced);
        }
        self.standing.insert(id, report);
        (id, replaced)
    }

    fn take(&mut self, id: ReportId) {
        if let Some(report) = self.standing.remove(&id) {
            self.by_subject.remove(&subject(&report));
        }
    }
}

impl Node {
    pub(super) fn report(&mut self, now: Tick, report: Report, out: &mut Outbox) {
        let id = self.report_after(now, self.settings.report_retry_us, report.clone());
        let trace = self.report_trace(&report);
        out.push(Effect::Report { id, report, trace });
    }

    /// Reports for the first time when `delay_us` is over, if it still matters then.
    pub(super) fn report_after(&mut self, now: Tick, delay_us: u64, report: Report) -> ReportId {
        let (id, replaced) = self.reports.put(report);
        if let Some(replaced) = replaced {
            self.timers.cancel(TimerKey::Report(replaced));
        }
        self.timers.set(TimerKey::Report(id), now.after_us(delay_us));
        id
    }

    /// The matter is settled otherwise: stop repeating.
    pub(super) fn drop_report(&mut self, kind: Kind, segment: SegmentId) {
        if let Some(id) = self.reports.by_subject.get(&(kind, segment)).copied() {
            self.reports.take(id);
            self.timers.cancel(TimerKey::Report(id));
        }
    }

    pub(super) fn on_report_answered(&mut self, now: Tick, id: ReportId, done: bool) {
        if done {
            self.reports.take(id);
            self.timers.cancel(TimerKey::Report(id));
        } else if self.reports.standing.contains_key(&id) {
            self.timers.set(TimerKey::Report(id), now.after_us(self.settings.report_later_us));
        }
    }

    pub(super) fn repeat_report(&mut self, now: Tick, id: ReportId, out: &mut Outbox) {
        if let Some(report) = self.reports.standing.get(&id) {
            let trace = self.report_trace(report);
            out.push(Effect::Report { id, report: report.clone(), trace });
            self.timers.set(TimerKey::Report(id), now.after_us(self.settings.report_retry_us));
        }
    }
}
