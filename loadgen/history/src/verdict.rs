//! The whole judgement of a history, and the figures that go with it.

use crate::checks;
use crate::findings::Findings;
use crate::history::{History, Outcome};
use crate::index::Index;
use crate::limits::{Limits, Vacuity};
use serde::{Deserialize, Serialize};

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    pub findings: Findings,
    /// Of what there was too little: with any, the run proves nothing.
    pub vacuous: Vec<Vacuity>,
    pub figures: Figures,
}

/// Counts over the whole history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Figures {
    pub sent: u64,
    pub acked: u64,
    /// Certainly not written.
    pub failed: u64,
    pub indeterminate: u64,
    /// Of `indeterminate`: found in the log.
    pub indeterminate_written: u64,
    pub unanswered: u64,
    /// Records of the final read.
    pub read: u64,
    pub start: u64,
    pub end: u64,
    /// Decided segments of the last chain.
    pub rolls: u64,
    pub faults: u64,
    pub queries: u64,
    pub chains: u64,
    pub tails: Vec<TailFigures>,
    pub silences: Silences,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TailFigures {
    pub client: u32,
    pub delivered: u64,
    /// Boundaries between segments that it crossed.
    pub crossings: u64,
    /// Times it had to be opened again.
    pub reopened: u64,
}

/// Longest times without an ack or a delivery while something waited for one, away from faults and in them. Microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Silences {
    pub ack_us: u64,
    pub fault_ack_us: u64,
    pub delivery_us: u64,
    pub fault_delivery_us: u64,
}

impl Verdict {
    /// Nothing wrong was found, and enough happened for that to mean something.
    pub fn holds(&self) -> bool {
        self.findings.total() == 0 && self.vacuous.is_empty()
    }
}

/// Judges a history.
pub fn check(history: &History, limits: &Limits) -> Verdict {
    let index = Index::new(history);
    let mut findings = Findings::default();
    checks::content::check(&index, &mut findings);
    checks::real_time::check(&index, &mut findings);
    checks::session::check(&index, &mut findings);
    checks::present::check(&index, &mut findings);
    checks::known::check(&index, &mut findings);
    checks::contiguous::check(&index, &mut findings);
    checks::committed::check(&index, &mut findings);
    checks::monotone::check(&index, &mut findings);
    checks::chain::check(&index, &mut findings);
    let silences = checks::gaps::check(&index, limits, &mut findings);
    let figures = figures(&index, silences);
    Verdict { findings, vacuous: limits.vacuities(&figures), figures }
}

fn figures(index: &Index<'_>, silences: Silences) -> Figures {
    let history = index.history;
    let segments = history.chains.last().map_or(&[][..], |chain| &chain.segments);
    let boundaries: Vec<u64> = segments.iter().filter_map(|segment| segment.end).collect();
    let tails = history.tails.iter().map(|tail| {
        let first = tail.deliveries().map(|delivery| delivery.offset).min();
        let last = tail.deliveries().map(|delivery| delivery.offset).max();
        let crossed = |at: &&u64| first.is_some_and(|first| first < **at) && last.is_some_and(|last| last >= **at);
        TailFigures {
            client: tail.client,
            delivered: tail.deliveries().count() as u64,
            crossings: boundaries.iter().filter(crossed).count() as u64,
            reopened: tail.readings.len().saturating_sub(1) as u64,
        }
    });
    let mut figures = Figures {
        read: history.final_read.deliveries.len() as u64,
        start: index.start,
        end: index.end,
        rolls: boundaries.len() as u64,
        faults: history.faults.len() as u64,
        queries: history.queries.len() as u64,
        chains: history.chains.len() as u64,
        tails: tails.collect(),
        silences,
        ..Figures::default()
    };
    for session in &history.sessions {
        for append in &session.appends {
            figures.sent += 1;
            match append.outcome {
                Outcome::Acked { .. } => figures.acked += 1,
                Outcome::Failed => figures.failed += 1,
                Outcome::Open => figures.unanswered += 1,
                Outcome::Indeterminate => {
                    figures.indeterminate += 1;
                    let op = crate::history::Op { client: session.client, sequence: append.sequence };
                    figures.indeterminate_written += u64::from(index.place_of(op).is_some());
                }
            }
        }
    }
    figures
}
