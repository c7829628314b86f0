//! Trace contexts between spans, frames and gRPC metadata.

use super::spans::{remote, sampled};
use opentelemetry::trace::TraceContextExt;
use seam_wire::TraceContext;
use tonic::metadata::{MetadataMap, MetadataValue};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// The W3C header that carries a trace context.
pub const TRACEPARENT: &str = "traceparent";

/// The context of the current span, if it is sampled: only then does it travel.
pub fn current() -> Option<TraceContext> {
    let context = Span::current().context();
    sampled(context.span().span_context())
}

/// Makes `span` a child of a context that came from another process. Call it before the span is entered.
pub fn set_parent(span: &Span, parent: &TraceContext) {
    // It fails where traces go nowhere or the span is filtered out: nothing is lost then.
    let _ = span.set_parent(remote(parent));
}

/// The W3C text form.
pub fn to_traceparent(context: &TraceContext) -> String {
    format!("00-{:032x}-{:016x}-{:02x}", context.trace_id, context.span_id, context.flags)
}

/// Reads the W3C text form; `None` for anything else, or for ids of zero.
pub fn from_traceparent(text: &str) -> Option<TraceContext> {
    let mut parts = text.split('-');
    let version = hex(parts.next()?, 2)?;
    let trace_id = hex(parts.next()?, 32)?;
    let span_id = hex(parts.next()?, 16)?;
    let flags = hex(parts.next()?, 2)?;
    // Version 0 has four parts; later ones may have more, ff is none.
    let sound = version != 0xff && trace_id != 0 && span_id != 0 && (version > 0 || parts.next().is_none());
    sound.then_some(TraceContext { trace_id, span_id: u64::try_from(span_id).ok()?, flags: u8::try_from(flags).ok()? })
}

fn hex(text: &str, digits: usize) -> Option<u128> {
    let lower = text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    (text.len() == digits && lower).then(|| u128::from_str_radix(text, 16).ok()).flatten()
}

/// Puts the current span's context into outgoing metadata.
pub fn inject(metadata: &mut MetadataMap) {
    inject_context(metadata, current().as_ref());
}

/// Puts a context, if there is one, into outgoing metadata.
pub fn inject_context(metadata: &mut MetadataMap, context: Option<&TraceContext>) {
    if let Some(context) = context {
        let value = MetadataValue::try_from(to_traceparent(context)).expect("hex and dashes are ASCII");
        metadata.insert(TRACEPARENT, value);
    }
}

/// The context in incoming metadata, if there is a sound one.
pub fn extract(metadata: &MetadataMap) -> Option<TraceContext> {
    metadata.get(TRACEPARENT)?.to_str().ok().and_then(from_traceparent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traceparent_round_trips() {
        let context = TraceContext { trace_id: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c, span_id: 0xb7ad, flags: 1 };
        let text = to_traceparent(&context);
        assert_eq!(text, "00-0af7651916cd43dd8448eb211c80319c-000000000000b7ad-01");
        assert_eq!(from_traceparent(&text), Some(context));
        let mut metadata = MetadataMap::new();
        metadata.insert(TRACEPARENT, text.parse().unwrap());
        assert_eq!(extract(&metadata), Some(context));
    }

    #[test]
    fn unsound_traceparents_are_ignored() {
        for text in [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-000000000000b7ad",
            "00-00000000000000000000000000000000-000000000000b7ad-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
            "ff-0af7651916cd43dd8448eb211c80319c-000000000000b7ad-01",
            "00-0AF7651916CD43DD8448EB211C80319C-000000000000b7ad-01",
            "00-0af7651916cd43dd8448eb211c80319c-000000000000b7ad-01-x",
        ] {
            assert_eq!(from_traceparent(text), None, "{text}");
        }
    }
}
