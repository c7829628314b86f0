//! The traces that begin here: of rolls that somebody asked for, and of recoveries. The context goes into the command, and so
//! into the state and to everyone; the span stays here until the end is recorded.

use metad_core::{Command, Step, Tick};
use seam_transport::telemetry::{self, OpenSpan};
use seam_wire::{SegmentId, TraceContext};
use std::collections::BTreeMap;
use std::time::Instant;

/// Spans that may be open at once; the oldest segment's is ended beyond it.
const MAX_OPEN: usize = 1024;

#[derive(Default)]
pub struct Traces {
    /// By the segment that ends.
    open: BTreeMap<SegmentId, OpenSpan>,
}

impl Traces {
    /// Gives a command that begins a roll or a recovery its trace, if it has none.
    pub fn begin(&mut self, command: &mut Command) {
        if let Command::RequestRoll { segment, trace, .. } | Command::Prepare { prior: segment, trace, .. } = command
            && trace.is_none()
        {
            *trace = self.context(*segment, "roll");
        }
        if let Command::Recover { segment, trace, .. } = command {
            // Another story than the roll that it may cut short.
            self.end(*segment);
            *trace = self.context(*segment, "recovery");
        }
    }

    fn context(&mut self, segment: SegmentId, name: &'static str) -> Option<TraceContext> {
        if let Some(span) = self.open.get(&segment) {
            return Some(span.context());
        }
        let mut span = OpenSpan::root(name, Instant::now())?;
        span.attribute("segment", segment);
        let context = span.context();
        self.open.insert(segment, span);
        if self.open.len() > MAX_OPEN {
            self.open.pop_first();
        }
        Some(context)
    }

    /// The end of this segment is recorded.
    pub fn end(&mut self, segment: SegmentId) {
        if let Some(span) = self.open.remove(&segment) {
            span.end();
        }
    }

    /// Leadership is lost: what is open ends here.
    pub fn clear(&mut self) {
        self.open.clear();
    }
}

/// Records a finished step. `at` gives the moment of a tick.
pub fn record(step: &Step, at: impl Fn(Tick) -> Instant) {
    let span = telemetry::Step { name: step.name, parent: &step.trace, from: at(step.from), to: at(step.to) };
    span.record(&[("segment", &step.segment)]);
}
