//! New certificates while everything runs: on QUIC and gRPC, as server and as client, a new CA included. What is no good is not
//! taken, loudly, and the old ones stay.

use crate::grpc;
use crate::world::{PATIENCE, any_port, eventually, soon};
use quinn::{Connection, Endpoint};
use seam_transport::grpc::GrpcConfig;
use seam_transport::metrics::Registry;
use seam_transport::pki::{DevCa, IssueOptions};
use seam_transport::quic::{self, Acceptor, QuicConfig};
use seam_transport::stream::open_uni;
use seam_transport::{CertWatch, Role, TlsMaterial, TlsPaths};
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A process with files of its own, and what it noticed of them.
struct Process {
    name: &'static str,
    role: Role,
    paths: TlsPaths,
    tls: TlsMaterial,
    watch: CertWatch,
}

impl Process {
    fn new(dir: &Path, name: &'static str, role: Role, ca: &DevCa) -> Process {
        let file = |kind: &str| dir.join(format!("{name}-{kind}.pem"));
        let paths = TlsPaths { ca: file("ca"), cert: file("cert"), key: file("key") };
        fs::copy(ca.ca_cert(), &paths.ca).unwrap();
        let issued = ca.issue(name, role).unwrap();
        fs::copy(issued.cert, &paths.cert).unwrap();
        fs::copy(issued.key, &paths.key).unwrap();
        let tls = TlsMaterial::load(&paths).unwrap();
        let watch = CertWatch::start_at(&tls, &paths, LOOK_EVERY);
        Process { name, role, paths, tls, watch }
    }

    async fn taken(&self, times: u64) {
        eventually("the new files are taken", || self.watch.reloads() >= times).await;
        assert_eq!((self.watch.reloads(), self.watch.failures()), (times, 0), "{}", self.name);
    }

    fn show(&self, ca: &DevCa) {
        let issued = ca.issue(self.name, self.role).unwrap();
        fs::copy(issued.key, &self.paths.key).unwrap();
        fs::copy(issued.cert, &self.paths.cert).unwrap();
    }

    fn trust(&self, cas: &[&DevCa]) {
        let bundle: Vec<u8> = cas.iter().flat_map(|ca| fs::read(ca.ca_cert()).unwrap()).collect();
        fs::write(&self.paths.ca, bundle).unwrap();
    }
}

async fn crosses(from: &Connection, to: &Connection) {
    let mut send = open_uni(from, PATIENCE).await.unwrap();
    send.write_all(b"still here").await.unwrap();
    send.finish().unwrap();
    let mut receive = soon("the stream arrives", to.accept_uni()).await.unwrap();
    assert_eq!(receive.read_to_end(16).await.unwrap(), b"still here");
}

/// A new connection in each direction between two endpoints that accept and dial.
async fn meet(a: (&Endpoint, &mut Acceptor, &str), b: (&Endpoint, &mut Acceptor, &str)) {
    for (from, to, acceptor, name) in [(a.0, b.0, b.1, b.2), (b.0, a.0, a.1, a.2)] {
        let addr = to.local_addr().unwrap().to_string();
        let dialed = quic::connect(from, &addr, name, PATIENCE).await.unwrap();
        let accepted = soon("it is accepted", acceptor.accept()).await.unwrap();
        crosses(&dialed, &accepted.connection).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_authority_takes_over_with_no_connection_lost() {
    let dir = TempDir::new().unwrap();
    let old = DevCa::create(dir.path().join("old")).unwrap();
    let new = DevCa::create(dir.path().join("new")).unwrap();
    let segd = Process::new(dir.path(), "segd-1", Role::Segd, &old);
    let router = Process::new(dir.path(), "router-1", Role::Router, &old);
    let left_behind = Process::new(dir.path(), "router-7", Role::Router, &old);
    let config = QuicConfig::default();
    let segd_end = quic::endpoint(any_port(), &segd.tls, &config).unwrap();
    let router_end = quic::endpoint(any_port(), &router.tls, &config).unwrap();
    let mut segd_door = Acceptor::new(segd_end.clone(), config.handshake_timeout());
    let mut router_door = Acceptor::new(router_end.clone(), config.handshake_timeout());
    let server = grpc::serve(&segd.tls, GrpcConfig::default()).await;

    // Connections made before any change, and a channel that stays.
    let addr = segd_end.local_addr().unwrap().to_string();
    let dialed = quic::connect(&router_end, &addr, "segd-1", PATIENCE).await.unwrap();
    let accepted = soon("it is accepted", segd_door.accept()).await.unwrap().connection;
    let channel = grpc::dial(&server, &router.tls);
    grpc::call(&channel, "/whoami").await.unwrap();

    // Both are trusted, then the new one is shown, then it alone is trusted.
    for step in 1..=3u64 {
        for process in [&segd, &router] {
            match step {
                1 => process.trust(&[&old, &new]),
                2 => process.show(&new),
                _ => process.trust(&[&new]),
            }
            process.taken(step).await;
            // In between the two are at different steps: that must do no harm.
            let a = (&segd_end, &mut segd_door, "segd-1");
            meet(a, (&router_end, &mut router_door, "router-1")).await;
            grpc::call(&grpc::dial(&server, &router.tls), "/whoami").await.unwrap();
        }
        crosses(&dialed, &accepted).await;
        grpc::call(&channel, "/whoami").await.unwrap();
    }

    // Who has only the old authority gets nowhere, whoever dials.
    let left_end = quic::endpoint(any_port(), &left_behind.tls, &config).unwrap();
    quic::connect(&left_end, &addr, "segd-1", PATIENCE).await.expect_err("it does not trust the new one");
    let left_addr = left_end.local_addr().unwrap().to_string();
    let _refuses = Acceptor::new(left_end.clone(), config.handshake_timeout());
    quic::connect(&router_end, &left_addr, "router-7", PATIENCE).await.expect_err("nobody trusts the old one");
    grpc::call(&grpc::dial(&server, &left_behind.tls), "/whoami").await.expect_err("nor on gRPC");
    // Nor who trusts the new one and is vouched for by the old.
    left_behind.trust(&[&old, &new]);
    left_behind.taken(1).await;
    let before = segd_door.failures().count();
    if let Ok(connection) = quic::connect(&left_end, &addr, "segd-1", PATIENCE).await {
        soon("it is turned away", connection.closed()).await;
    }
    eventually("that is counted", || segd_door.failures().count() > before).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_good_is_counted_and_the_old_certificate_stays() {
    let dir = TempDir::new().unwrap();
    let ca = DevCa::create(dir.path().join("ours")).unwrap();
    let other = DevCa::create(dir.path().join("theirs")).unwrap();
    let segd = Process::new(dir.path(), "segd-1", Role::Segd, &ca);
    let router = Process::new(dir.path(), "router-1", Role::Router, &ca);
    let server = grpc::serve(&segd.tls, GrpcConfig::default()).await;
    let first = segd.tls.chain();
    let day = Duration::from_secs(86_400);
    let expired = IssueOptions {
        valid_from: Some(SystemTime::now() - 3 * day),
        valid_until: Some(SystemTime::now() - day),
        ..IssueOptions::default()
    };

    let put = |issued: seam_transport::pki::Issued| {
        fs::copy(issued.key, &segd.paths.key).unwrap();
        fs::copy(issued.cert, &segd.paths.cert).unwrap();
    };
    let mut bad = 0;
    for case in ["garbage", "no key", "another's key", "another authority", "expired"] {
        match case {
            "garbage" => fs::write(&segd.paths.cert, "no certificate").unwrap(),
            "no key" => fs::remove_file(&segd.paths.key).unwrap(),
            "another's key" => {
                fs::copy(ca.issue("segd-2", Role::Segd).unwrap().key, &segd.paths.key).unwrap();
                fs::copy(ca.issue("segd-1", Role::Segd).unwrap().cert, &segd.paths.cert).unwrap();
            }
            "another authority" => put(other.issue("segd-1", Role::Segd).unwrap()),
            _ => put(ca.issue_with("segd-1", Role::Segd, &expired).unwrap()),
        }
        bad += 1;
        eventually("it is noticed", || segd.watch.failures() >= bad).await;
        // Told once, however often it is looked at.
        tokio::time::sleep(LOOK_EVERY * 10).await;
        assert!(segd.watch.reloads() == 0 && segd.tls.chain() == first, "{case} was taken");
        grpc::call(&grpc::dial(&server, &router.tls), "/whoami").await.unwrap_or_else(|why| panic!("{case}: {why}"));
        bad = segd.watch.failures();
    }
    assert!((5..=10).contains(&bad), "{bad}: once for each, and perhaps for what was half written");

    segd.show(&ca);
    eventually("a good one is taken", || segd.watch.reloads() == 1).await;
    assert_ne!(segd.tls.chain(), first);
    grpc::call(&grpc::dial(&server, &router.tls), "/whoami").await.unwrap();

    let registry = Registry::new("test");
    segd.watch.show(&registry);
    let shown = registry.render();
    assert!(shown.contains("test_tls_reloads_total 1"), "{shown}");
    assert!(shown.contains(&format!("test_tls_reload_failures_total {bad}")), "{shown}");
    let left = shown.lines().find_map(|line| line.strip_prefix("test_tls_certificate_expires_in_seconds "));
    let days = left.unwrap().parse::<i64>().unwrap() / 86_400;
    assert!((820..=825).contains(&days), "{days}");
}
