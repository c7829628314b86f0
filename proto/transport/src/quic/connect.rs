//! Dialing: resolve, try each address, one deadline over all, and errors that say what to check.

use quinn::{ConnectError as StartError, Connection, ConnectionError, Endpoint};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};

/// Why there is no connection. `addr` is what the caller asked for.
#[derive(Debug, Error)]
pub enum ConnectError {
    #[error("cannot resolve {addr:?}: {source}; it must be host:port with a host that resolves here")]
    Resolve { addr: String, source: io::Error },
    #[error("{addr:?} has no address that an endpoint bound to {local} can reach; bind it to the same IP version")]
    NoAddress { addr: String, local: SocketAddr },
    #[error(
        "no answer from {addr:?} within {after_ms} ms; check that the process listens there on UDP and nothing filters it"
    )]
    Timeout { addr: String, after_ms: u128 },
    #[error("cannot dial {addr:?} as {server_name:?}: {source}; check the address and the server name")]
    Start { addr: String, server_name: String, source: StartError },
    #[error("connection to {addr:?} as {server_name:?} failed: {source}; {}", hint(.source))]
    Handshake { addr: String, server_name: String, source: ConnectionError },
}

/// Connects to `addr` (`host:port`), whose certificate must carry `server_name` (its own name, or its role).
///
/// In TLS 1.3 the server judges our certificate after our side of the handshake is done: if it turns us away, the
/// connection returned here closes a round trip later and the first use of it fails.
pub async fn connect(
    endpoint: &Endpoint,
    addr: &str,
    server_name: &str,
    timeout: Duration,
) -> Result<Connection, ConnectError> {
    let deadline = Instant::now() + timeout;
    let timed_out = || ConnectError::Timeout { addr: addr.to_owned(), after_ms: timeout.as_millis() };
    let mut failure = None;
    for target in resolve(endpoint, addr, deadline).await?.ok_or_else(timed_out)? {
        let started = endpoint.connect(target, server_name).map_err(|source| ConnectError::Start {
            addr: addr.to_owned(),
            server_name: server_name.to_owned(),
            source,
        })?;
        match timeout_at(deadline, started).await {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(source)) => {
                let (addr, server_name) = (addr.to_owned(), server_name.to_owned());
                failure = Some(ConnectError::Handshake { addr, server_name, source });
            }
            Err(_) => return Err(timed_out()),
        }
    }
    Err(failure.expect("resolve returns at least one address, and each fails or returns"))
}

/// At least one address that this endpoint can reach, or `None` at the deadline.
async fn resolve(endpoint: &Endpoint, addr: &str, deadline: Instant) -> Result<Option<Vec<SocketAddr>>, ConnectError> {
    let resolve_error = |source| ConnectError::Resolve { addr: addr.to_owned(), source };
    let Ok(found) = timeout_at(deadline, tokio::net::lookup_host(addr)).await else {
        return Ok(None);
    };
    let local = endpoint.local_addr().map_err(resolve_error)?;
    // A socket on IPv6 carries IPv4 too; the reverse does not hold.
    let reachable: Vec<_> =
        found.map_err(resolve_error)?.filter(|target| local.is_ipv6() || target.is_ipv4()).collect();
    if reachable.is_empty() {
        return Err(ConnectError::NoAddress { addr: addr.to_owned(), local });
    }
    Ok(Some(reachable))
}

fn hint(error: &ConnectionError) -> &'static str {
    match error {
        ConnectionError::TransportError(_) | ConnectionError::ConnectionClosed(_) => {
            "check that both sides use the same CA, that both certificates are in date, and that the server's names this server name"
        }
        ConnectionError::VersionMismatch => "the other side speaks another QUIC version; upgrade the older one",
        ConnectionError::TimedOut | ConnectionError::Reset => {
            "the other side went away in the handshake; see whether it is restarting"
        }
        ConnectionError::ApplicationClosed(_) => "the other side closed it on purpose; its reason stands before this",
        ConnectionError::LocallyClosed => "this endpoint is closed",
        ConnectionError::CidsExhausted => "too many connections; close some",
    }
}
