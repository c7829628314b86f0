//! Spans of a producer's range: of sampled appends, and of the first ack out of the successor of a traced roll.

use client_core::producer::StreamId;
use seam_transport::telemetry::{OpenSpan, Step};
use seam_wire::TraceContext;
use std::collections::VecDeque;
use std::time::Instant;

/// A batch on its way.
struct Sent {
    stream: StreamId,
    seq: u64,
    at: Instant,
    span: Option<OpenSpan>,
}

pub(super) struct Traces {
    /// Share of batches that begin a trace, 0 to 1.
    share: f64,
    /// In order; as many as may be in flight.
    sent: VecDeque<Sent>,
}

impl Traces {
    pub fn new(share: f64) -> Self {
        Traces { share, sent: VecDeque::new() }
    }

    /// A batch is sent; the context it carries if it is sampled.
    pub fn sent(&mut self, stream: StreamId, seq: u64) -> Option<TraceContext> {
        let at = Instant::now();
        let sampled = self.share > 0.0 && rand::random::<f64>() < self.share;
        let span = sampled.then(|| OpenSpan::root("producer.append", at)).flatten();
        let context = span.as_ref().map(OpenSpan::context);
        self.sent.push_back(Sent { stream, seq, at, span });
        context
    }

    /// Its answer came, with the trace of a roll where it is the first ack out of a successor.
    pub fn answered(&mut self, stream: StreamId, seq: u64, first: Option<TraceContext>) {
        let Some(index) = self.sent.iter().position(|sent| (sent.stream, sent.seq) == (stream, seq)) else { return };
        let Some(sent) = self.sent.remove(index) else { return };
        if let Some(trace) = first {
            Step { name: "producer.first_ack", parent: &trace, from: sent.at, to: Instant::now() }.record(&[]);
        }
        if let Some(span) = sent.span {
            span.end();
        }
    }

    /// A new stream is opened: what was on the last one is sent again.
    pub fn clear(&mut self) {
        self.sent.clear();
    }
}
