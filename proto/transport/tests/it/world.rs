//! Two authorities, the certificates the tests need, and waiting on conditions.

use quinn::{Connection, Endpoint};
use seam_transport::pki::{DevCa, IssueOptions};
use seam_transport::quic::{self, Acceptor, QuicConfig};
use seam_transport::{Role, TlsMaterial, TlsPaths, provider};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};
use tempfile::TempDir;

pub const PATIENCE: Duration = Duration::from_secs(20);

/// Any free port on loopback.
pub fn any_port() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

pub struct World {
    pub ca: DevCa,
    pub other: DevCa,
    _dir: TempDir,
}

impl World {
    pub fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path().join("ours")).unwrap();
        let other = DevCa::create(dir.path().join("theirs")).unwrap();
        World { ca, other, _dir: dir }
    }

    /// A sound member of the cluster.
    pub fn member(&self, name: &str, role: Role) -> TlsMaterial {
        self.ca.issue(name, role).unwrap();
        TlsMaterial::load(&self.ca.paths(name)).unwrap()
    }

    /// Trusts our authority, but is vouched for by another.
    pub fn foreigner(&self) -> TlsMaterial {
        self.other.issue("router-9", Role::Router).unwrap();
        let paths = TlsPaths { ca: self.ca.ca_cert(), ..self.other.paths("router-9") };
        TlsMaterial::load_untrusted(&paths).unwrap()
    }

    /// Ours, but no longer valid.
    pub fn expired(&self) -> TlsMaterial {
        let day = Duration::from_secs(86_400);
        let options = IssueOptions {
            valid_from: Some(SystemTime::now() - 3 * day),
            valid_until: Some(SystemTime::now() - day),
            ..IssueOptions::default()
        };
        self.ca.issue_with("router-8", Role::Router, &options).unwrap();
        TlsMaterial::load_untrusted(&self.ca.paths("router-8")).unwrap()
    }

    /// A client that shows no certificate at all.
    pub fn nameless(&self, alpn: &[u8]) -> rustls::ClientConfig {
        use rustls_pki_types::pem::PemObject;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls_pki_types::CertificateDer::from_pem_file(self.ca.ca_cert()).unwrap()).unwrap();
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        config
    }
}

/// A client and a server endpoint with one connection between them.
pub struct Pair {
    pub client: Connection,
    pub server: Connection,
    _endpoints: (Endpoint, Endpoint),
    _acceptor: Acceptor,
}

pub async fn pair(config: &QuicConfig) -> Pair {
    let world = World::new();
    let server = quic::server_endpoint(any_port(), &world.member("segd-1", Role::Segd), config).unwrap();
    let client = quic::client_endpoint(&world.member("router-1", Role::Router), config).unwrap();
    let mut acceptor = Acceptor::new(server.clone(), config.handshake_timeout());
    let addr = server.local_addr().unwrap().to_string();
    let dialed = quic::connect(&client, &addr, "segd-1", PATIENCE).await.unwrap();
    let accepted = acceptor.accept().await.unwrap();
    Pair { client: dialed, server: accepted.connection, _endpoints: (client, server), _acceptor: acceptor }
}

/// Waits until `condition` holds; fails the test if it never does.
pub async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The result of `future`; fails the test if it never comes.
pub async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("never: {what}"))
}
