//! Spans of one range at this router: of the rolls it comes over, and of sampled appends.

use router_core::producer::ClientStream;
use seam_transport::telemetry::{OpenSpan, Step};
use seam_wire::{SegmentId, TraceContext};
use std::collections::HashMap;
use std::time::Instant;

/// Sampled appends that may be open at once; beyond it no more are followed.
const MAX_OPEN: usize = 4096;

#[derive(Default)]
pub struct Traces {
    appends: HashMap<(ClientStream, u64), OpenSpan>,
    /// What the next answer to a client carries: it is the first out of a successor.
    pub first_ack: Option<TraceContext>,
}

impl Traces {
    /// A sampled append goes on under a span of this router.
    pub fn append(&mut self, client: ClientStream, seq: u64, trace: Option<TraceContext>) -> Option<TraceContext> {
        let trace = trace?;
        if self.appends.len() >= MAX_OPEN {
            return Some(trace);
        }
        let Some(span) = OpenSpan::child("router.append", &trace, Instant::now()) else { return Some(trace) };
        let context = span.context();
        self.appends.insert((client, seq), span);
        Some(context)
    }

    pub fn answered(&mut self, client: ClientStream, seq: u64) {
        if let Some(span) = self.appends.remove(&(client, seq)) {
            span.end();
        }
    }

    pub fn gone(&mut self, client: ClientStream) {
        self.appends.retain(|(of, _), _| *of != client);
    }
}

/// A stream to a successor, from its dialing on.
#[derive(Clone, Copy)]
pub struct Ahead {
    pub trace: TraceContext,
    pub since: Instant,
}

impl Ahead {
    pub fn now(trace: TraceContext) -> Ahead {
        Ahead { trace, since: Instant::now() }
    }

    /// The successor's primary took the stream.
    pub fn opened(&self, name: &'static str, segment: SegmentId) {
        record(name, &self.trace, self.since, segment);
    }
}

/// A step that ends now; its context, for what hangs below it.
pub fn record(name: &'static str, trace: &TraceContext, from: Instant, segment: SegmentId) -> Option<TraceContext> {
    Step { name, parent: trace, from, to: Instant::now() }.record(&[("segment", &segment)])
}
