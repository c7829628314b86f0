//! Serving tonic routes to verified peers.

use super::GrpcConfig;
use super::accept::{Accepted, accept_loop};
use crate::handshake::HandshakeFailures;
use crate::tls::TlsMaterial;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::Routes;
use tonic::transport::Server;

/// Verified connections not yet taken.
const BACKLOG: usize = 64;

/// Why a server does not serve.
#[derive(Debug, Error)]
pub enum GrpcError {
    #[error("cannot listen on {addr}: {source}; check that the address is ours and the port is free")]
    Bind { addr: SocketAddr, source: io::Error },
    #[error("the gRPC server failed: {0}")]
    Server(#[from] tonic::transport::Error),
}

/// A listener with its certificates, not yet serving.
pub struct GrpcServer {
    listener: TcpListener,
    tls: TlsMaterial,
    config: GrpcConfig,
    failures: Arc<HandshakeFailures>,
}

impl GrpcServer {
    /// Listens on `addr` (port 0: any).
    pub async fn bind(addr: SocketAddr, tls: &TlsMaterial, config: GrpcConfig) -> Result<GrpcServer, GrpcError> {
        let listener = TcpListener::bind(addr).await.map_err(|source| GrpcError::Bind { addr, source })?;
        Ok(GrpcServer::new(listener, tls, config))
    }

    /// Takes over a listener.
    pub fn new(listener: TcpListener, tls: &TlsMaterial, config: GrpcConfig) -> GrpcServer {
        GrpcServer { listener, tls: tls.clone(), config, failures: Arc::default() }
    }

    /// Where it listens.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Handshakes that failed, for a metric.
    pub fn failures(&self) -> Arc<HandshakeFailures> {
        Arc::clone(&self.failures)
    }

    /// Serves until `shutdown` resolves; then accepts no more, lets running calls end for `drain_ms`, and cuts the
    /// rest. Dropping the future cuts everything at once.
    pub async fn serve(self, routes: Routes, shutdown: impl Future<Output = ()>) -> Result<(), GrpcError> {
        let GrpcServer { listener, tls, config, failures } = self;
        // Dropped when this function ends, however it ends: every connection ends with it.
        let (_kill, killed) = watch::channel(false);
        let (sender, accepted) = mpsc::channel::<Accepted>(BACKLOG);
        tokio::spawn(accept_loop(listener, tls, config.clone(), failures, killed, sender));

        let (draining, drain) = oneshot::channel();
        let serving = builder(&config).add_routes(routes).serve_with_incoming_shutdown(
            ReceiverStream::new(accepted),
            async move {
                shutdown.await;
                let _ = draining.send(());
            },
        );
        let drained = async {
            match drain.await {
                Ok(()) => tokio::time::sleep(config.drain()).await,
                // The server ended before it was told to.
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            result = serving => Ok(result?),
            () = drained => Ok(()),
        }
    }
}

/// `GrpcServer::new` and `serve` in one.
pub async fn serve(
    listener: TcpListener,
    tls: &TlsMaterial,
    config: GrpcConfig,
    routes: Routes,
    shutdown: impl Future<Output = ()>,
) -> Result<(), GrpcError> {
    GrpcServer::new(listener, tls, config).serve(routes, shutdown).await
}

fn builder(config: &GrpcConfig) -> Server {
    Server::builder()
        .http2_keepalive_interval(Some(config.keep_alive()))
        .http2_keepalive_timeout(Some(config.keep_alive_timeout()))
        .initial_stream_window_size(config.stream_window_bytes)
        .initial_connection_window_size(config.connection_window_bytes)
}
