//! How Seamlog processes talk: mutual TLS, QUIC streams of frames, gRPC, and what every process shows of itself.
//!
//! | module | what it is |
//! | --- | --- |
//! | `crypto` | the one TLS crypto provider |
//! | `identity` | who a peer is, read from its verified certificate |
//! | `pki` | a small certificate authority for development and tests |
//! | `tls` | certificates from files to rustls configurations |
//! | `quic` | endpoints, dialing, accepting |
//! | `stream` | frames over QUIC streams |
//! | `grpc` | tonic over mutual TLS |
//! | `meta_client` | calls to the metadata cluster, its leader and its watch stream |
//! | `metrics`, `telemetry`, `config` | `/metrics` and `/status`, logs and traces, settings files |
//!
//! No decision of the log's protocol is taken here, and nothing here knows a segment from a range.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod config;
pub mod crypto;
pub mod grpc;
pub mod handshake;
pub mod identity;
pub mod meta_client;
pub mod metrics;
pub mod pki;
pub mod quic;
pub mod stream;
pub mod telemetry;
pub mod tls;

pub use crypto::{install_default, provider};
pub use identity::{Identity, IdentityError, Role};
pub use tls::{CertWatch, TlsError, TlsMaterial, TlsPaths};
