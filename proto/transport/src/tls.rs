//! From three PEM files to rustls configurations: mutual TLS 1.3, our CA only, no session tickets.
//!
//! `TlsMaterial` is a handle to what was loaded last. The configurations it gives ask it at every handshake (`current`), so
//! that `reload` holds for all new connections, on QUIC and gRPC, as server and as client. `watch` calls it when the files
//! change.

mod current;
mod watch;

pub use watch::CertWatch;

use crate::crypto::provider;
use crate::identity::{Identity, IdentityError};
use arc_swap::ArcSwap;
use current::Current;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};
use rustls_pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The application protocol of our QUIC connections.
pub const ALPN_QUIC: &[u8] = b"seamlog/1";
/// The application protocol of gRPC.
pub const ALPN_GRPC: &[u8] = b"h2";

/// Where a process finds its certificates. PEM, all three.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsPaths {
    /// The authorities that both sides trust.
    pub ca: PathBuf,
    /// This process's chain, leaf first.
    pub cert: PathBuf,
    /// The leaf's private key.
    pub key: PathBuf,
}

/// Certificates that cannot be used. Each names the file and what to do.
#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot read {}: {detail}; issue it with the development CA, or correct the path in the [tls] section", .path.display())]
    Read { path: PathBuf, detail: String },
    #[error("{} is not usable: {detail}; it must hold PEM certificates", .path.display())]
    BadCertificate { path: PathBuf, detail: String },
    #[error("{} and {} do not make a pair: {detail}; issue both again together", .cert.display(), .key.display())]
    Mismatch { cert: PathBuf, key: PathBuf, detail: String },
    #[error("{} is not accepted under the CA {}: {detail}; issue it again from this CA, and check the clock", .cert.display(), .ca.display())]
    NotTrusted { cert: PathBuf, ca: PathBuf, detail: String },
    #[error("{}: {source}; issue it again with a role", .cert.display())]
    NoIdentity { cert: PathBuf, source: IdentityError },
    #[error("no TLS configuration can be made of these certificates: {0}")]
    Config(#[from] rustls::Error),
    #[error("no verifier can be made of the CA certificates: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

/// The three files as they were read.
#[derive(Clone, PartialEq, Eq)]
struct Files {
    ca: Vec<u8>,
    cert: Vec<u8>,
    key: Vec<u8>,
}

impl Files {
    fn read(paths: &TlsPaths) -> Result<Files, TlsError> {
        Ok(Files { ca: read_file(&paths.ca)?, cert: read_file(&paths.cert)?, key: read_file(&paths.key)? })
    }
}

/// What is shown and whom we trust, from the next handshake on.
struct Loaded {
    files: Files,
    identity: Identity,
    chain: Vec<CertificateDer<'static>>,
    key: Arc<CertifiedKey>,
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<dyn ServerCertVerifier>,
    expires_at: i64,
}

/// A process's certificates and the configurations made of them. Clones share one state.
#[derive(Clone)]
pub struct TlsMaterial {
    loaded: Arc<ArcSwap<Loaded>>,
    grpc_server: Arc<ServerConfig>,
    grpc_client: Arc<ClientConfig>,
    quic_server: Arc<ServerConfig>,
    quic_client: Arc<ClientConfig>,
}

impl TlsMaterial {
    /// Loads and checks: the files parse, key and certificate belong together, the certificate is accepted under the
    /// CA today, and it names a role. A process that would be turned away by its peers fails here instead.
    pub fn load(paths: &TlsPaths) -> Result<TlsMaterial, TlsError> {
        TlsMaterial::of(Loaded::make(paths, Files::read(paths)?, Check::Trust)?)
    }

    /// `load` without asking whether our own CA accepts our own certificate. For a peer that trusts one authority and
    /// is vouched for by another, and for tests of exactly that.
    pub fn load_untrusted(paths: &TlsPaths) -> Result<TlsMaterial, TlsError> {
        TlsMaterial::of(Loaded::make(paths, Files::read(paths)?, Check::PairOnly)?)
    }

    fn of(loaded: Loaded) -> Result<TlsMaterial, TlsError> {
        let loaded = Arc::new(ArcSwap::from_pointee(loaded));
        let current = Arc::new(Current(Arc::clone(&loaded)));
        Ok(TlsMaterial {
            grpc_server: server_config(&current, ALPN_GRPC)?,
            grpc_client: client_config(&current, ALPN_GRPC)?,
            quic_server: server_config(&current, ALPN_QUIC)?,
            quic_client: client_config(&current, ALPN_QUIC)?,
            loaded,
        })
    }

    /// Replaces what was loaded, for handshakes made from now on, on either side, of every endpoint and channel made of
    /// this. Connections that stand go on. On an error the old state stays.
    pub fn reload(&self, paths: &TlsPaths) -> Result<(), TlsError> {
        self.loaded.store(Arc::new(Loaded::make(paths, Files::read(paths)?, Check::Trust)?));
        Ok(())
    }

    /// A secret that the next process with the same private key has too, for `purpose` alone.
    pub(crate) fn secret(&self, purpose: &str) -> [u8; 32] {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.loaded.load().files.key);
        let tag = ring::hmac::sign(&key, purpose.as_bytes());
        tag.as_ref().try_into().expect("SHA-256 gives 32 bytes")
    }

    /// Who this process is.
    pub fn identity(&self) -> Identity {
        self.loaded.load().identity.clone()
    }

    /// This process's certificate chain, leaf first.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.loaded.load().chain.clone()
    }

    /// When this process's certificate expires: seconds since 1970.
    pub fn expires_at(&self) -> i64 {
        self.loaded.load().expires_at
    }

    /// Server side of gRPC: client certificate required, ALPN `h2`.
    pub fn grpc_server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.grpc_server)
    }

    /// Client side of gRPC.
    pub fn grpc_client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.grpc_client)
    }

    /// Server side of QUIC: client certificate required, ALPN `seamlog/1`.
    pub fn quic_server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.quic_server)
    }

    /// Client side of QUIC.
    pub fn quic_client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.quic_client)
    }
}

/// How much of our own certificate to check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Trust,
    PairOnly,
}

impl Loaded {
    fn make(paths: &TlsPaths, files: Files, check: Check) -> Result<Loaded, TlsError> {
        let roots = Arc::new(roots_of(&paths.ca, &files.ca)?);
        let chain = certificates_of(&paths.cert, &files.cert)?;
        let key = key_of(&paths.key, &files.key)?;
        let key = Arc::new(pair(paths, &chain, key)?);
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider()).build()?;
        let servers = WebPkiServerVerifier::builder_with_provider(roots, provider()).build()?;
        if check == Check::Trust {
            check_trust(paths, &chain, clients.as_ref())?;
        }
        let identity = Identity::from_chain(Some(&chain))
            .map_err(|source| TlsError::NoIdentity { cert: paths.cert.clone(), source })?;
        let expires_at = expiry_of(&paths.cert, &chain)?;
        Ok(Loaded { files, identity, chain, key, clients, servers, expires_at })
    }
}

fn server_config(current: &Arc<Current>, alpn: &[u8]) -> Result<Arc<ServerConfig>, TlsError> {
    let (clients, shown) = (Arc::clone(current), Arc::clone(current));
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(clients)
        .with_cert_resolver(shown);
    config.alpn_protocols = vec![alpn.to_vec()];
    // Without tickets every connection shows its certificate anew: a resumed session would outlive its expiry.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn client_config(current: &Arc<Current>, alpn: &[u8]) -> Result<Arc<ClientConfig>, TlsError> {
    let (servers, shown) = (Arc::clone(current), Arc::clone(current));
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        // "Dangerous" is a verifier of one's own; this one asks rustls' own verifier over the roots loaded last.
        .dangerous()
        .with_custom_certificate_verifier(servers)
        .with_client_cert_resolver(shown);
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(Arc::new(config))
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read { path: path.to_path_buf(), detail: error.to_string() })
}

fn certificates_of(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |detail: String| TlsError::BadCertificate { path: path.to_path_buf(), detail };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
    if chain.is_empty() { Err(bad("it holds no certificate".to_owned())) } else { Ok(chain) }
}

fn roots_of(path: &Path, pem: &[u8]) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for cert in certificates_of(path, pem)? {
        roots
            .add(cert)
            .map_err(|error| TlsError::BadCertificate { path: path.to_path_buf(), detail: error.to_string() })?;
    }
    Ok(roots)
}

fn key_of(path: &Path, pem: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_slice(pem)
        .map_err(|error| TlsError::Read { path: path.to_path_buf(), detail: format!("no private key in it ({error})") })
}

/// The certificate with its key, if they belong together.
fn pair(
    paths: &TlsPaths,
    chain: &[CertificateDer<'static>],
    key: PrivateKeyDer<'static>,
) -> Result<CertifiedKey, TlsError> {
    CertifiedKey::from_der(chain.to_vec(), key, &provider()).map_err(|error| TlsError::Mismatch {
        cert: paths.cert.clone(),
        key: paths.key.clone(),
        detail: error.to_string(),
    })
}

fn check_trust(
    paths: &TlsPaths,
    chain: &[CertificateDer<'static>],
    verifier: &dyn ClientCertVerifier,
) -> Result<(), TlsError> {
    let (leaf, rest) = chain.split_first().expect("certificates_of returns at least one");
    verifier.verify_client_cert(leaf, rest, UnixTime::now()).map(drop).map_err(|error| TlsError::NotTrusted {
        cert: paths.cert.clone(),
        ca: paths.ca.clone(),
        detail: error.to_string(),
    })
}

fn expiry_of(path: &Path, chain: &[CertificateDer<'static>]) -> Result<i64, TlsError> {
    let leaf = chain.first().expect("certificates_of returns at least one");
    let bad = |detail: String| TlsError::BadCertificate { path: path.to_path_buf(), detail };
    let (_, parsed) = X509Certificate::from_der(leaf).map_err(|error| bad(error.to_string()))?;
    Ok(parsed.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Role;
    use crate::pki::{DevCa, IssueOptions};
    use std::time::{Duration, SystemTime};

    fn failure(paths: &TlsPaths) -> TlsError {
        TlsMaterial::load(paths).err().expect("these certificates must not load")
    }

    #[test]
    fn errors_name_the_file_and_the_remedy() {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path().join("a")).unwrap();
        let other = DevCa::create(dir.path().join("b")).unwrap();
        ca.issue("segd-1", Role::Segd).unwrap();
        other.issue("segd-1", Role::Segd).unwrap();
        let good = ca.paths("segd-1");

        let missing = failure(&ca.paths("segd-9"));
        assert!(missing.to_string().contains("segd-9.crt"), "{missing}");

        let mixed = failure(&TlsPaths { key: other.paths("segd-1").key, ..good.clone() });
        assert!(matches!(mixed, TlsError::Mismatch { .. }), "{mixed}");

        let foreign = failure(&TlsPaths { ca: other.ca_cert(), ..good.clone() });
        assert!(matches!(foreign, TlsError::NotTrusted { .. }), "{foreign}");

        let key_as_cert = failure(&TlsPaths { cert: good.key.clone(), ..good.clone() });
        assert!(matches!(key_as_cert, TlsError::BadCertificate { .. }), "{key_as_cert}");
    }

    #[test]
    fn an_expired_certificate_is_told_at_load() {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path()).unwrap();
        let yesterday = SystemTime::now() - Duration::from_secs(86_400);
        let options = IssueOptions {
            valid_from: Some(yesterday - Duration::from_secs(86_400)),
            valid_until: Some(yesterday),
            ..IssueOptions::default()
        };
        ca.issue_with("segd-1", Role::Segd, &options).unwrap();
        let error = failure(&ca.paths("segd-1"));
        assert!(matches!(error, TlsError::NotTrusted { .. }), "{error}");
    }

    #[test]
    fn reload_replaces_the_state_and_a_failed_one_keeps_it() {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path()).unwrap();
        ca.issue("segd-1", Role::Segd).unwrap();
        ca.issue("segd-2", Role::Segd).unwrap();
        let tls = TlsMaterial::load(&ca.paths("segd-1")).unwrap();
        assert!(tls.reload(&ca.paths("segd-9")).is_err());
        assert_eq!(&*tls.identity().name, "segd-1");
        tls.reload(&ca.paths("segd-2")).unwrap();
        assert_eq!(&*tls.identity().name, "segd-2");
    }
}
