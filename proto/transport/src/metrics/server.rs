//! The HTTP side: plain HTTP/1.1, read only. Bind it where only operators reach.

use super::Registry;
use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A running server; it ends when this is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    local_addr: SocketAddr,
    task: JoinHandle<()>,
}

impl MetricsServer {
    /// Where it listens: the port, where 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Serves `registry` at `/metrics`, `ok` at `/healthz`, and what `status` returns at `/status`: a JSON document about
/// the process, made anew for each request. `status` must not block.
pub async fn serve_metrics(
    addr: SocketAddr,
    registry: Registry,
    status: impl Fn() -> String + Send + Sync + 'static,
) -> io::Result<MetricsServer> {
    let explain = |error: io::Error| {
        io::Error::new(error.kind(), format!("cannot serve metrics on {addr}: {error}; choose a free address"))
    };
    let listener = TcpListener::bind(addr).await.map_err(explain)?;
    let local_addr = listener.local_addr()?;
    let status = Arc::new(status);
    let routes = Router::new()
        .route("/metrics", get(async move || ([(CONTENT_TYPE, OPEN_METRICS)], registry.render())))
        .route("/healthz", get(async || "ok\n"))
        .route("/status", get(async move || ([(CONTENT_TYPE, "application/json")], status())));
    let task = tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, routes).await {
            tracing::error!(%error, "the metrics server ended");
        }
    });
    Ok(MetricsServer { local_addr, task })
}
