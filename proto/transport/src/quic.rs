//! QUIC: endpoints, dialing, accepting, and who is at the other end. Frames over streams are in `crate::stream`.
//!
//! An endpoint drives all its UDP traffic from one task: give replication and clients an endpoint each. Connections are
//! kept and shared; a handshake costs a millisecond, a stream nothing.

mod accept;
mod config;
mod connect;
mod endpoint;

pub use accept::{Accepted, Acceptor};
pub use config::{QuicConfig, QuicConfigError};
pub use connect::{ConnectError, connect};
pub use endpoint::{EndpointError, client_endpoint, endpoint, server_endpoint};

use crate::identity::{Identity, IdentityError};
use quinn::VarInt;
use rustls_pki_types::CertificateDer;

/// Why a connection or a stream was closed, as it travels in QUIC's application error codes.
pub mod code {
    use quinn::VarInt;

    /// All is well.
    pub const DONE: VarInt = VarInt::from_u32(0);
    /// A frame did not parse; the stream is over, the connection is not.
    pub const BAD_FRAME: VarInt = VarInt::from_u32(1);
    /// The peer's certificate does not give it this right.
    pub const NOT_AUTHORIZED: VarInt = VarInt::from_u32(2);
    /// The process is going down.
    pub const SHUTDOWN: VarInt = VarInt::from_u32(3);
    /// The other side no longer wants what the stream carries.
    pub const CANCELLED: VarInt = VarInt::from_u32(4);
}

/// Who is at the other end, from its verified certificate.
pub fn peer_identity(connection: &quinn::Connection) -> Result<Identity, IdentityError> {
    let chain = connection.peer_identity().and_then(|any| any.downcast::<Vec<CertificateDer<'static>>>().ok());
    Identity::from_chain(chain.as_ref().map(|certs| certs.as_slice()))
}

/// Closes with a reason for people. Undelivered data is dropped: where it matters, the last receiver closes.
pub fn close(connection: &quinn::Connection, code: VarInt, reason: &str) {
    connection.close(code, reason.as_bytes());
}
