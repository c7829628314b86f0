//! Logs to stderr, traces to an OpenTelemetry collector where one is named, and the trace context that travels in
//! frames and gRPC metadata.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `SEAM_LOG`, else `RUST_LOG` | what is logged, as in `info,segd=debug`; default `info` |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | where spans go, as in `http://collector:4317`; unset: nowhere |
//! | `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | the same, of traces alone |
//! | `OTEL_EXPORTER_OTLP_PROTOCOL` | `grpc`, if anything |
//! | `OTEL_BSP_*` | how spans are gathered before they are sent |
//! | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | other names than the program's own (`segd`); more attributes |
//! | `OTEL_TRACES_EXPORTER=none`, `OTEL_SDK_DISABLED=true` | nowhere after all |
//! | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | which traces begin here; a parent's decision is kept |
//!
//! No span is made for a record, only for batches and steps of a roll.

mod context;
mod init;
mod spans;

pub use context::{
    TRACEPARENT, current, extract, from_traceparent, inject, inject_context, set_parent, to_traceparent,
};
pub use init::{TelemetryError, TelemetryGuard, abort_on_panic, has_collector, init, init_with};
pub use spans::{OpenSpan, Step};
