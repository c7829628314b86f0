//! Logs to stderr, traces to an OpenTelemetry collector where one is named, and the trace context that travels in
//! frames and gRPC metadata.
//!
//! | variable | meaning |
//! | --- | --- |
//! | `SEAM_LOG`, else `RUST_LOG` | what is logged, as in `info,segd=debug`; default `info` |
//! | `OTEL_EXPORTER_OTLP_ENDPOINT` | where spans go, as in `http://collector:4317`; unset: nowhere |
//! | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | which traces begin here; a parent's decision is kept |
//!
//! No span is made for a record, only for batches and steps of a roll.

mod context;
mod init;

pub use context::{TRACEPARENT, current, extract, from_traceparent, inject, set_parent, to_traceparent};
pub use init::{TelemetryError, TelemetryGuard, abort_on_panic, init, init_with};
