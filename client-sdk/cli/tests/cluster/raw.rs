//! Clients of our own making, past the SDK: with any certificate or none, and with any bytes on a stream.

use crate::harness::{Cluster, PATIENCE, soon};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{Connection, ConnectionError, Endpoint};
use rustls::RootCertStore;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use seam_transport::quic::{self, QuicConfig};
use seam_transport::stream::{FrameReader, FrameWriter, open_bi};
use seam_transport::{TlsMaterial, TlsPaths};
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use std::path::Path;
use std::sync::Arc;

/// An endpoint with the certificate of `paths`, whoever signed it.
pub fn endpoint(paths: &TlsPaths) -> Endpoint {
    let tls = TlsMaterial::load_untrusted(paths).expect("a pair");
    quic::client_endpoint(&tls, &QuicConfig::default()).expect("a socket")
}

/// An endpoint that shows no certificate.
pub fn nameless_endpoint(ca: &Path) -> Endpoint {
    let crypto = QuicClientConfig::try_from(nameless(ca, seam_transport::tls::ALPN_QUIC)).expect("TLS 1.3");
    let mut endpoint = Endpoint::client("127.0.0.1:0".parse().expect("an address")).expect("a socket");
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    endpoint
}

/// TLS that trusts the cluster's CA and shows no certificate.
pub fn nameless(ca: &Path, alpn: &[u8]) -> rustls::ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(ca).expect("readable")).expect("a CA");
    let builder = rustls::ClientConfig::builder_with_provider(seam_transport::provider());
    let builder = builder.with_protocol_versions(&[&rustls::version::TLS13]).expect("known");
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    config
}

/// Why a server turned this peer away: in the handshake, or right after it, before it answered anything.
pub async fn turned_away(endpoint: &Endpoint, addr: &str, name: &str) -> ConnectionError {
    match quic::connect(endpoint, addr, name, PATIENCE).await {
        Ok(connection) => soon("the connection's end", connection.closed()).await,
        Err(quic::ConnectError::Handshake { source, .. }) => source,
        Err(other) => panic!("{other}"),
    }
}

/// A connection to a router that says what it likes.
pub struct Rude {
    connection: Connection,
}

impl Rude {
    pub async fn connect(cluster: &Cluster, router: &str) -> Rude {
        let endpoint = endpoint(&cluster.settings().tls);
        let connection = quic::connect(&endpoint, &cluster.addr(router), router, PATIENCE).await.expect("let in");
        Rude { connection }
    }

    pub async fn open(&self) -> (FrameWriter, FrameReader) {
        let (send, receive) = open_bi(&self.connection, PATIENCE).await.expect("a stream");
        (FrameWriter::new(send), FrameReader::new(receive))
    }

    /// A stream that begins like this.
    pub async fn say(&self, hello: ToRouter) -> (FrameWriter, FrameReader) {
        let (mut writer, reader) = self.open().await;
        writer.write(&Frame::new(hello)).await.expect("taken");
        (writer, reader)
    }

    /// A produce stream on the topic's only range.
    pub async fn produce(&self, topic: &str) -> (FrameWriter, FrameReader) {
        let (writer, mut reader) = self.say(ToRouter::ProduceOpen { topic: topic.to_owned(), range_index: 0 }).await;
        assert!(matches!(hear(&mut reader).await, FromRouter::ProduceOpened { .. }));
        (writer, reader)
    }
}

/// The next message.
pub async fn hear(reader: &mut FrameReader) -> FromRouter {
    soon("a frame", reader.read::<FromRouter>()).await.expect("sound").expect("a frame, not the end").msg
}

/// The code of the error that ends the stream: definite, final, and with words.
pub async fn refusal(reader: &mut FrameReader) -> ErrorCode {
    match hear(reader).await {
        FromRouter::Error { error } => clear(&error),
        other => panic!("{other:?}"),
    }
}

/// The code of an error that says all it has to.
pub fn clear(error: &WireError) -> ErrorCode {
    assert!(error.certainty == Certainty::Definite && !error.retryable && !error.detail.is_empty(), "{error:?}");
    error.code
}
