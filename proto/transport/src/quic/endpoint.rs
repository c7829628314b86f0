//! Endpoints: one UDP socket that dials, accepts, or does both.

use super::config::{QuicConfig, QuicConfigError};
use crate::tls::TlsMaterial;
use quinn::crypto::rustls::{NoInitialCipherSuite, QuicClientConfig, QuicServerConfig};
use quinn::{ClientConfig, Endpoint, EndpointConfig, ServerConfig, TokioRuntime, TransportConfig};
use quinn_proto::HashedConnectionIdGenerator;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use thiserror::Error;

/// Handshakes that may wait unanswered; more are refused.
const MAX_INCOMING: usize = 1024;

/// Why there is no endpoint.
#[derive(Debug, Error)]
pub enum EndpointError {
    #[error("cannot bind UDP {addr}: {source}; check that the address is ours and the port is free")]
    Bind { addr: SocketAddr, source: io::Error },
    #[error(transparent)]
    Config(#[from] QuicConfigError),
    #[error("TLS for QUIC: {0}; the provider must have TLS13_AES_128_GCM_SHA256")]
    Crypto(#[from] NoInitialCipherSuite),
}

/// Accepts and dials on one socket. Must be called inside a tokio runtime.
pub fn endpoint(addr: SocketAddr, tls: &TlsMaterial, config: &QuicConfig) -> Result<Endpoint, EndpointError> {
    let transport = config.transport()?;
    let server = server_config(tls, Arc::clone(&transport))?;
    build(addr, Some(server), client_config(tls, transport)?, recognizing_itself(tls, config)?, config)
}

/// Accepts on `addr` (port 0: any). It can dial too: the same as `endpoint`.
pub fn server_endpoint(addr: SocketAddr, tls: &TlsMaterial, config: &QuicConfig) -> Result<Endpoint, EndpointError> {
    endpoint(addr, tls, config)
}

/// Dials only, from any free port, IPv6 and IPv4 where the host has both.
pub fn client_endpoint(tls: &TlsMaterial, config: &QuicConfig) -> Result<Endpoint, EndpointError> {
    let client = client_config(tls, config.transport()?)?;
    let any_v6 = SocketAddr::from((std::net::Ipv6Addr::UNSPECIFIED, 0));
    match build(any_v6, None, client.clone(), config.endpoint()?, config) {
        Err(EndpointError::Bind { .. }) => {
            build(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), None, client, config.endpoint()?, config)
        }
        other => other,
    }
}

fn build(
    addr: SocketAddr,
    server: Option<ServerConfig>,
    client: ClientConfig,
    endpoint: EndpointConfig,
    config: &QuicConfig,
) -> Result<Endpoint, EndpointError> {
    let socket = bind(addr, config).map_err(|source| EndpointError::Bind { addr, source })?;
    let mut endpoint = Endpoint::new(endpoint, server, socket, Arc::new(TokioRuntime))
        .map_err(|source| EndpointError::Bind { addr, source })?;
    endpoint.set_default_client_config(client);
    Ok(endpoint)
}

/// What a process that comes back at the same address needs to know the connections of its life before: it answers them
/// with a stateless reset, and the peer dials again at once, not when its idle timeout is over.
fn recognizing_itself(tls: &TlsMaterial, config: &QuicConfig) -> Result<EndpointConfig, EndpointError> {
    let mut endpoint = config.endpoint()?;
    let reset = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &tls.secret("seamlog quic stateless reset"));
    let ids = tls.secret("seamlog quic connection ids");
    let id = u64::from_le_bytes(*ids.first_chunk().expect("32 bytes"));
    endpoint.reset_key(Arc::new(reset));
    endpoint.cid_generator(move || Box::new(HashedConnectionIdGenerator::from_key(id)));
    Ok(endpoint)
}

fn server_config(tls: &TlsMaterial, transport: Arc<TransportConfig>) -> Result<ServerConfig, EndpointError> {
    let crypto = QuicServerConfig::try_from(tls.quic_server())?;
    let mut config = ServerConfig::with_crypto(Arc::new(crypto));
    config.transport_config(transport).max_incoming(MAX_INCOMING);
    Ok(config)
}

fn client_config(tls: &TlsMaterial, transport: Arc<TransportConfig>) -> Result<ClientConfig, EndpointError> {
    let crypto = QuicClientConfig::try_from(tls.quic_client())?;
    let mut config = ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport);
    Ok(config)
}

fn bind(addr: SocketAddr, config: &QuicConfig) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_recv_buffer_size(config.socket_buffer_bytes)?;
    socket.set_send_buffer_size(config.socket_buffer_bytes)?;
    let got = socket.recv_buffer_size()?.min(socket.send_buffer_size()?);
    if got < config.socket_buffer_bytes {
        // The kernel clamps silently; bursts are lost then.
        tracing::warn!(
            asked = config.socket_buffer_bytes,
            got,
            "UDP socket buffers are smaller than quic.socket_buffer_bytes; raise net.core.rmem_max and wmem_max"
        );
    }
    socket.bind(&addr.into())?;
    Ok(socket.into())
}
