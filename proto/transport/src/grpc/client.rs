//! Dialing: a channel that connects when first used and again whenever it must.

use super::GrpcConfig;
use crate::tls::TlsMaterial;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use std::error::Error;
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

/// Why there is no connection. Nothing was asked of the peer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoConnection {
    /// Nobody listens there, or nobody answers. This may pass.
    #[error("{0}")]
    Unreachable(String),
    /// One side does not take the other's certificate. This stays until somebody changes certificates or settings.
    #[error("{0}")]
    Untrusted(String),
}

/// How rustls words what the peer says of our certificate, which comes after the handshake and through HTTP/2, as text alone.
const ALERT: &str = "received fatal alert";

impl NoConnection {
    /// What a failed call says of its connection; `None` if it failed in another way.
    pub fn of(error: &(dyn Error + 'static)) -> Option<NoConnection> {
        let mut at = Some(error);
        while let Some(error) = at {
            if let Some(found) = error.downcast_ref::<NoConnection>() {
                return Some(found.clone());
            }
            at = error.source();
        }
        let cause = root_cause(error);
        let what =
            "the certificate shown there was refused; check that the CA of the other side signed it, and its dates";
        cause.contains(ALERT).then(|| NoConnection::Untrusted(format!("{what}: {cause}")))
    }
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
) -> Result<TlsStream<TcpStream>, NoConnection> {
    let unreachable = |error| {
        NoConnection::Unreachable(format!("cannot reach {addr}; check that the process listens there: {error}"))
    };
    let connect = async {
        let tcp = TcpStream::connect(addr).await.map_err(unreachable)?;
        tcp.set_nodelay(true).map_err(unreachable)?;
        TlsConnector::from(tls.grpc_client()).connect(name.clone(), tcp).await.map_err(|error| {
            let name = name.to_str();
            let why = format!("TLS with {addr} as {name} failed; check the CA, the dates and the server name: {error}");
            // A peer that dies in the middle of it is no matter of certificates.
            if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
                NoConnection::Untrusted(why)
            } else {
                NoConnection::Unreachable(why)
            }
        })
    };
    match tokio::time::timeout(timeout, connect).await {
        Ok(result) => result,
        Err(_) => Err(NoConnection::Unreachable(format!(
            "no connection to {addr} within {} ms; check that the process listens there",
            timeout.as_millis()
        ))),
    }
}

/// The innermost cause of an error, for people: tonic's own words are "transport error".
pub fn root_cause(error: &dyn Error) -> String {
    let mut innermost = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    innermost.to_string()
}
