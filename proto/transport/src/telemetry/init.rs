//! Setting up logs and traces, once, at the start of a process.

use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider;
use opentelemetry_otlp::{ExporterBuildError, SpanExporter, WithExportConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use std::env;
use std::io::IsTerminal;
use std::time::Duration;
use thiserror::Error;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Of traces alone; wins.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
/// The network stack logs every packet it moves, and tracing it traces the export of traces without end.
const QUIET: &str = "h2=warn,hyper=warn,hyper_util=warn,quinn=warn,quinn_proto=warn,quinn_udp=error,tonic=warn,\
                     tower=warn,rustls=warn,openraft=error,opentelemetry=warn,opentelemetry_sdk=warn,opentelemetry_otlp=warn";
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Why logs and traces are not set up.
#[derive(Debug, Error)]
pub enum TelemetryError {
    #[error("{variable}={value:?} is no filter: {source}; write it like info,segd=debug")]
    Filter { variable: &'static str, value: String, source: ParseError },
    #[error("traces cannot go to {endpoint:?}: {source}; {ENDPOINT} must be like http://host:4317, or unset")]
    Exporter { endpoint: String, source: ExporterBuildError },
    #[error("{variable}={value:?} is not spoken here; set it to grpc, or unset it")]
    Protocol { variable: &'static str, value: String },
    #[error("logs are set up already: {0}; call init once, first in main")]
    AlreadySet(#[from] TryInitError),
}

/// Keeps traces flowing; when dropped, sends what is left, for 3 s at most.
#[must_use = "traces end when this is dropped"]
pub struct TelemetryGuard {
    provider: Option<SdkTracerProvider>,
}

impl TelemetryGuard {
    /// Sends what is left and ends. Better than dropping inside async code, which blocks its thread.
    pub async fn shutdown(mut self) {
        if let Some(provider) = self.provider.take() {
            // It fails only if the runtime is going down itself.
            let _ = tokio::task::spawn_blocking(move || flush(&provider)).await;
        }
    }
}

impl Drop for TelemetryGuard {
    fn drop(&mut self) {
        if let Some(provider) = self.provider.take() {
            flush(&provider);
        }
    }
}

fn flush(provider: &SdkTracerProvider) {
    if let Err(error) = provider.shutdown_with_timeout(FLUSH_TIMEOUT) {
        tracing::warn!(%error, "the last traces may be lost");
    }
}

/// Starts logging, and tracing where a collector is named. `service` is the program (`segd`), `instance` its name in
/// the cluster (`segd-3`). Call it inside the runtime.
pub fn init(service: &'static str, instance: &str) -> Result<TelemetryGuard, TelemetryError> {
    init_with(service, instance, collector()?)
}

/// Whether the environment names a place for spans.
pub fn has_collector() -> bool {
    [TRACES_ENDPOINT, ENDPOINT].iter().any(|variable| set(variable).is_some())
}

fn set(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

/// Where spans go by the environment; `None`: nowhere.
fn collector() -> Result<Option<String>, TelemetryError> {
    let off = set("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || set("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    let Some(endpoint) = set(TRACES_ENDPOINT).or_else(|| set(ENDPOINT)).filter(|_| !off) else { return Ok(None) };
    for variable in PROTOCOLS {
        if let Some(value) = set(variable).filter(|value| value != "grpc") {
            return Err(TelemetryError::Protocol { variable, value });
        }
    }
    Ok(Some(endpoint))
}

/// `init` with the collector given by the caller instead of the environment; `None`: no traces.
pub fn init_with(
    service: &'static str,
    instance: &str,
    collector: Option<String>,
) -> Result<TelemetryGuard, TelemetryError> {
    let provider = collector.map(|endpoint| provider(service, instance, endpoint)).transpose()?;
    let traces = match &provider {
        Some(provider) => {
            Some(tracing_opentelemetry::layer().with_tracer(provider.tracer(service)).with_filter(filter()?))
        }
        None => None,
    };
    if let Some(provider) = &provider {
        opentelemetry::global::set_tracer_provider(provider.clone());
    }
    let stderr = std::io::stderr();
    let logs = tracing_subscriber::fmt::layer().with_ansi(stderr.is_terminal()).with_writer(std::io::stderr);
    tracing_subscriber::registry().with(logs.with_filter(filter()?)).with(traces).try_init()?;
    Ok(TelemetryGuard { provider })
}

fn provider(service: &'static str, instance: &str, endpoint: String) -> Result<SdkTracerProvider, TelemetryError> {
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_endpoint(endpoint.clone())
        .with_timeout(FLUSH_TIMEOUT)
        .build()
        .map_err(|source| TelemetryError::Exporter { endpoint, source })?;
    let resource = Resource::builder()
        .with_service_name(set("OTEL_SERVICE_NAME").unwrap_or_else(|| service.to_owned()))
        .with_attribute(KeyValue::new("service.instance.id", instance.to_owned()))
        .build();
    // The sampler stays the SDK's: it follows the parent, and the environment for new traces.
    Ok(SdkTracerProvider::builder().with_resource(resource).with_batch_exporter(exporter).build())
}

/// The user's filter, over a quiet network stack.
fn filter() -> Result<EnvFilter, TelemetryError> {
    let given = ["SEAM_LOG", "RUST_LOG"]
        .into_iter()
        .find_map(|variable| env::var(variable).ok().filter(|value| !value.is_empty()).map(|value| (variable, value)));
    let (variable, value) = given.unwrap_or(("SEAM_LOG", "info".to_owned()));
    parse_filter(variable, value)
}

fn parse_filter(variable: &'static str, value: String) -> Result<EnvFilter, TelemetryError> {
    EnvFilter::try_new(format!("{QUIET},{value}")).map_err(|source| TelemetryError::Filter { variable, value, source })
}

/// A panic anywhere ends the process, after the usual message: a service whose owner task is gone but whose heartbeats go
/// on would be worse than one that is down. For `main` of services only.
pub fn abort_on_panic() {
    let tell = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        tell(info);
        std::process::abort();
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_that_does_not_parse_is_told() {
        parse_filter("SEAM_LOG", "info,segd=debug".to_owned()).unwrap();
        let error = parse_filter("SEAM_LOG", "segd=loud".to_owned()).unwrap_err().to_string();
        assert!(error.contains("SEAM_LOG") && error.contains("segd=loud"), "{error}");
    }

    #[test]
    fn what_the_user_asks_of_the_network_stack_wins() {
        let filter = parse_filter("SEAM_LOG", "info,quinn=debug".to_owned()).unwrap().to_string();
        assert!(filter.contains("quinn=debug") && !filter.contains("quinn=warn"), "{filter}");
    }
}
