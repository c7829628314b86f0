//! Spans with times of their own: of steps that are known when they are over, and of those that are begun by one task and
//! ended by another. They are made whatever the logs show. Each is timed on one process's clock.

use opentelemetry::global::{self, BoxedSpan};
use opentelemetry::trace::{Span, SpanContext, SpanId, TraceContextExt, TraceFlags, TraceId, TraceState, Tracer};
use opentelemetry::{Context, KeyValue};
use seam_wire::TraceContext;
use std::sync::OnceLock;
use std::time::{Instant, SystemTime};

/// Name of the instrumentation, in every span.
const SCOPE: &str = "seamlog";

/// A sampled span under way. Dropping it ends it now.
pub struct OpenSpan {
    span: BoxedSpan,
    context: TraceContext,
}

impl OpenSpan {
    /// Begins a trace; `None` where traces go nowhere or the sampler leaves this one out.
    pub fn root(name: &'static str, from: Instant) -> Option<OpenSpan> {
        Self::start(name, &Context::new(), from)
    }

    /// A step below `parent`; `None` where traces go nowhere or the parent was not sampled.
    pub fn child(name: &'static str, parent: &TraceContext, from: Instant) -> Option<OpenSpan> {
        Self::start(name, &remote(parent), from)
    }

    fn start(name: &'static str, parent: &Context, from: Instant) -> Option<OpenSpan> {
        let tracer = global::tracer(SCOPE);
        let builder = tracer.span_builder(name).with_start_time(wall(from));
        let span = tracer.build_with_context(builder, parent);
        let context = sampled(span.span_context())?;
        Some(OpenSpan { span, context })
    }

    /// What travels, so that others can hang their spans below this one.
    pub fn context(&self) -> TraceContext {
        self.context
    }

    pub fn attribute(&mut self, key: &'static str, value: impl ToString) {
        self.span.set_attribute(KeyValue::new(key, value.to_string()));
    }

    pub fn end_at(mut self, at: Instant) {
        self.span.end_with_timestamp(wall(at));
    }

    pub fn end(self) {
        self.end_at(Instant::now());
    }
}

/// A step that is over.
pub struct Step<'a> {
    pub name: &'static str,
    pub parent: &'a TraceContext,
    pub from: Instant,
    pub to: Instant,
}

impl Step<'_> {
    /// Records it; the context of its span, if it is sampled.
    pub fn record(&self, attributes: &[(&'static str, &dyn ToString)]) -> Option<TraceContext> {
        let mut span = OpenSpan::child(self.name, self.parent, self.from)?;
        let context = span.context();
        attributes.iter().for_each(|(key, value)| span.attribute(key, value.to_string()));
        span.end_at(self.to);
        Some(context)
    }
}

/// The wall clock's word for a moment of this process. The two clocks are compared once: moments in order stay in order,
/// however long the process waits between two looks at a clock.
fn wall(at: Instant) -> SystemTime {
    static COMPARED: OnceLock<(Instant, SystemTime)> = OnceLock::new();
    let (here, there) = *COMPARED.get_or_init(|| (Instant::now(), SystemTime::now()));
    match at.checked_duration_since(here) {
        Some(later) => there + later,
        None => there.checked_sub(here - at).unwrap_or(there),
    }
}

/// A context as it travels, if its span is sampled: only then does it.
pub(super) fn sampled(span: &SpanContext) -> Option<TraceContext> {
    (span.is_valid() && span.is_sampled()).then(|| TraceContext {
        trace_id: u128::from_be_bytes(span.trace_id().to_bytes()),
        span_id: u64::from_be_bytes(span.span_id().to_bytes()),
        flags: span.trace_flags().to_u8(),
    })
}

/// The context of a span in another process.
pub(super) fn remote(parent: &TraceContext) -> Context {
    let remote = SpanContext::new(
        TraceId::from_bytes(parent.trace_id.to_be_bytes()),
        SpanId::from_bytes(parent.span_id.to_be_bytes()),
        TraceFlags::new(parent.flags),
        true,
        TraceState::default(),
    );
    Context::new().with_remote_span_context(remote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A step of no length ended before it began, by what passed between two looks at two clocks.
    #[test]
    fn moments_keep_their_order_and_distance_on_the_wall_clock() {
        let first = Instant::now();
        let before = first.checked_sub(Duration::from_millis(5)).unwrap_or(first);
        for at in [before, first, first, first + Duration::from_micros(3)].windows(2) {
            let apart = wall(at[1]).duration_since(wall(at[0])).expect("in order");
            assert_eq!(apart, at[1] - at[0]);
        }
    }
}
