//! Dialing: a channel that connects when first used and again whenever it must.

use super::GrpcConfig;
use crate::tls::TlsMaterial;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::error::Error;
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Uri};

/// A channel that can never connect.
#[derive(Debug, Error)]
pub enum ChannelError {
    #[error("{addr:?} is no address: {source}; write host:port")]
    Address { addr: String, source: tonic::transport::Error },
    #[error("{0:?} is no server name; use the name or role in the server's certificate")]
    ServerName(String),
}

/// A channel to `addr` (`host:port`), whose certificate must carry `server_name`. It connects lazily; calls fail with
/// `Unavailable` while it cannot, and the next call tries again. Reloaded certificates count from the next connect.
pub fn channel(addr: &str, server_name: &str, tls: &TlsMaterial, config: &GrpcConfig) -> Result<Channel, ChannelError> {
    let name =
        ServerName::try_from(server_name.to_owned()).map_err(|_| ChannelError::ServerName(server_name.to_owned()))?;
    // "http", because TLS is in the connector below and tonic must not add its own.
    let endpoint = Endpoint::from_shared(format!("http://{addr}"))
        .map_err(|source| ChannelError::Address { addr: addr.to_owned(), source })?
        .http2_keep_alive_interval(config.keep_alive())
        .keep_alive_timeout(config.keep_alive_timeout())
        .keep_alive_while_idle(true)
        .initial_stream_window_size(config.stream_window_bytes)
        .initial_connection_window_size(config.connection_window_bytes);
    let (addr, tls, timeout) = (addr.to_owned(), tls.clone(), config.connect_timeout());
    Ok(endpoint.connect_with_connector_lazy(tower::service_fn(move |_: Uri| {
        let (addr, tls, name) = (addr.clone(), tls.clone(), name.clone());
        async move { dial(&addr, name, &tls, timeout).await.map(TokioIo::new) }
    })))
}

async fn dial(
    addr: &str,
    name: ServerName<'static>,
    tls: &TlsMaterial,
    timeout: Duration,
) -> io::Result<TlsStream<TcpStream>> {
    let connect = async {
        let tcp = TcpStream::connect(addr)
            .await
            .map_err(|error| explain(&error, format!("cannot reach {addr}; check that the process listens there")))?;
        tcp.set_nodelay(true)?;
        TlsConnector::from(tls.grpc_client()).connect(name.clone(), tcp).await.map_err(|error| {
            let name = name.to_str();
            explain(&error, format!("TLS with {addr} as {name} failed; check the CA, the dates and the server name"))
        })
    };
    match tokio::time::timeout(timeout, connect).await {
        Ok(result) => result,
        Err(_) => Err(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no connection to {addr} within {} ms; check that the process listens there", timeout.as_millis()),
        )),
    }
}

fn explain(error: &io::Error, what: String) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// The innermost cause of an error, for people: tonic's own words are "transport error".
pub fn root_cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
