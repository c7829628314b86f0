//! From three PEM files to rustls configurations: mutual TLS 1.3, our CA only, no session tickets.
//!
//! `TlsMaterial` is a handle to what was loaded last. gRPC reads it at every handshake, so `reload` takes effect for
//! new connections; a QUIC endpoint is told with `quic::refresh`.

use crate::crypto::provider;
use crate::identity::{Identity, IdentityError};
use arc_swap::ArcSwap;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig, version};
use rustls_pki_types::pem::PemObject;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

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

struct Loaded {
    identity: Identity,
    chain: Vec<CertificateDer<'static>>,
    grpc_server: Arc<ServerConfig>,
    grpc_client: Arc<ClientConfig>,
    quic_server: Arc<ServerConfig>,
    quic_client: Arc<ClientConfig>,
}

/// A process's certificates and the configurations made of them. Clones share one state.
#[derive(Clone)]
pub struct TlsMaterial {
    loaded: Arc<ArcSwap<Loaded>>,
}

impl TlsMaterial {
    /// Loads and checks: the files parse, key and certificate belong together, the certificate is accepted under the
    /// CA today, and it names a role. A process that would be turned away by its peers fails here instead.
    pub fn load(paths: &TlsPaths) -> Result<TlsMaterial, TlsError> {
        Ok(TlsMaterial { loaded: Arc::new(ArcSwap::from_pointee(Loaded::read(paths, Check::Trust)?)) })
    }

    /// `load` without asking whether our own CA accepts our own certificate. For a peer that trusts one authority and
    /// is vouched for by another, and for tests of exactly that.
    pub fn load_untrusted(paths: &TlsPaths) -> Result<TlsMaterial, TlsError> {
        Ok(TlsMaterial { loaded: Arc::new(ArcSwap::from_pointee(Loaded::read(paths, Check::PairOnly)?)) })
    }

    /// Replaces what was loaded, for connections made from now on. On an error the old state stays.
    pub fn reload(&self, paths: &TlsPaths) -> Result<(), TlsError> {
        self.loaded.store(Arc::new(Loaded::read(paths, Check::Trust)?));
        Ok(())
    }

    /// Who this process is.
    pub fn identity(&self) -> Identity {
        self.loaded.load().identity.clone()
    }

    /// This process's certificate chain, leaf first.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.loaded.load().chain.clone()
    }

    /// Server side of gRPC: client certificate required, ALPN `h2`.
    pub fn grpc_server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.load().grpc_server)
    }

    /// Client side of gRPC.
    pub fn grpc_client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.loaded.load().grpc_client)
    }

    /// Server side of QUIC: client certificate required, ALPN `seamlog/1`.
    pub fn quic_server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.loaded.load().quic_server)
    }

    /// Client side of QUIC.
    pub fn quic_client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.loaded.load().quic_client)
    }
}

/// How much of our own certificate to check.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    Trust,
    PairOnly,
}

impl Loaded {
    fn read(paths: &TlsPaths, check: Check) -> Result<Loaded, TlsError> {
        let roots = Arc::new(read_roots(&paths.ca)?);
        let chain = read_certificates(&paths.cert)?;
        let key = read_key(&paths.key)?;
        check_pair(paths, &chain, &key)?;
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider()).build()?;
        if check == Check::Trust {
            check_trust(paths, &chain, verifier.as_ref())?;
        }
        let identity = Identity::from_chain(Some(&chain))
            .map_err(|source| TlsError::NoIdentity { cert: paths.cert.clone(), source })?;
        let server = |alpn: &[u8]| server_config(Arc::clone(&verifier), chain.clone(), key.clone_key(), alpn);
        let client = |alpn: &[u8]| client_config(Arc::clone(&roots), chain.clone(), key.clone_key(), alpn);
        Ok(Loaded {
            identity,
            grpc_server: server(ALPN_GRPC)?,
            grpc_client: client(ALPN_GRPC)?,
            quic_server: server(ALPN_QUIC)?,
            quic_client: client(ALPN_QUIC)?,
            chain,
        })
    }
}

fn server_config(
    verifier: Arc<dyn ClientCertVerifier>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    alpn: &[u8],
) -> Result<Arc<ServerConfig>, TlsError> {
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_client_cert_verifier(verifier)
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![alpn.to_vec()];
    // Without tickets every connection shows its certificate anew: a resumed session would outlive its expiry.
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn client_config(
    roots: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    alpn: &[u8],
) -> Result<Arc<ClientConfig>, TlsError> {
    let mut config = ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&version::TLS13])?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![alpn.to_vec()];
    Ok(Arc::new(config))
}

fn read_file(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|error| TlsError::Read { path: path.to_path_buf(), detail: error.to_string() })
}

fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read_file(path)?;
    let bad = |detail: String| TlsError::BadCertificate { path: path.to_path_buf(), detail };
    let chain: Vec<_> =
        CertificateDer::pem_slice_iter(&pem).collect::<Result<_, _>>().map_err(|error| bad(error.to_string()))?;
    if chain.is_empty() { Err(bad("it holds no certificate".to_owned())) } else { Ok(chain) }
}

fn read_roots(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for cert in read_certificates(path)? {
        roots
            .add(cert)
            .map_err(|error| TlsError::BadCertificate { path: path.to_path_buf(), detail: error.to_string() })?;
    }
    Ok(roots)
}

fn read_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let pem = read_file(path)?;
    PrivateKeyDer::from_pem_slice(&pem)
        .map_err(|error| TlsError::Read { path: path.to_path_buf(), detail: format!("no private key in it ({error})") })
}

fn check_pair(
    paths: &TlsPaths,
    chain: &[CertificateDer<'static>],
    key: &PrivateKeyDer<'static>,
) -> Result<(), TlsError> {
    rustls::sign::CertifiedKey::from_der(chain.to_vec(), key.clone_key(), &provider()).map(drop).map_err(|error| {
        TlsError::Mismatch { cert: paths.cert.clone(), key: paths.key.clone(), detail: error.to_string() }
    })
}

fn check_trust(
    paths: &TlsPaths,
    chain: &[CertificateDer<'static>],
    verifier: &dyn ClientCertVerifier,
) -> Result<(), TlsError> {
    let (leaf, rest) = chain.split_first().expect("read_certificates returns at least one");
    verifier.verify_client_cert(leaf, rest, UnixTime::now()).map(drop).map_err(|error| TlsError::NotTrusted {
        cert: paths.cert.clone(),
        ca: paths.ca.clone(),
        detail: error.to_string(),
    })
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
