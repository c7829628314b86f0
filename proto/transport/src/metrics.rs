//! Metrics by name, and the small HTTP server that shows them: `/metrics`, `/healthz`, `/status`.
//!
//! No label holds a segment or a producer: their number has no bound.

mod registry;
mod server;

pub use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};
pub use registry::{FloatGauge, Registry};
pub use server::{MetricsServer, serve_metrics};
