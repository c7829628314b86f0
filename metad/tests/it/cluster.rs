//! Three real members in this process: mutual TLS, loopback, disks in a temporary folder.

use metad::Metad;
use metad::config::{LimitsConfig, MemberConfig, MetadConfig, TimingConfig};
use seam_transport::grpc::GrpcConfig;
use seam_transport::meta_client::{MetaClient, MetaClientConfig, MetaMember};
use seam_transport::pki::DevCa;
use seam_transport::{Role, TlsMaterial};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Bound of every wait. Reaching it is a failure, never a matter of speed.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Addresses given out by this process so far.
static ADDRESSES: AtomicU8 = AtomicU8::new(0);

pub struct Cluster {
    dir: TempDir,
    ca: DevCa,
    addrs: Vec<SocketAddr>,
    /// The address at which `from` reaches `to`, where that is not its own.
    pub detours: BTreeMap<(usize, usize), SocketAddr>,
    pub limits: LimitsConfig,
    /// Silence after which a node is taken for dead.
    pub suspect_ms: u64,
    pub members: Vec<Option<Metad>>,
}

impl Cluster {
    /// Three members, none of them started.
    pub fn new() -> Cluster {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path().join("pki")).unwrap();
        let addrs = (1..=3).map(|id| {
            ca.issue(&format!("metad-{id}"), Role::Metad).unwrap();
            // A loopback address of its own: nobody else takes the port while the member is down.
            let pid = std::process::id().to_le_bytes();
            let nth = ADDRESSES.fetch_add(1, Ordering::Relaxed) + 1;
            let ip = Ipv4Addr::new(127, pid[0] | 128, pid[1], nth);
            std::net::TcpListener::bind((ip, 0)).unwrap().local_addr().unwrap()
        });
        let addrs: Vec<SocketAddr> = addrs.collect();
        let limits = LimitsConfig { watch_idle_ms: 100, ..LimitsConfig::default() };
        let members = vec![None, None, None];
        Cluster { dir, ca, addrs, detours: BTreeMap::new(), limits, suspect_ms: 20_000, members }
    }

    pub async fn started() -> Cluster {
        let mut cluster = Cluster::new();
        cluster.start_all().await;
        cluster
    }

    pub fn addr(&self, at: usize) -> SocketAddr {
        self.addrs[at]
    }

    /// The settings of member `at`.
    pub fn settings(&self, at: usize) -> MetadConfig {
        let name = format!("metad-{}", at + 1);
        let members = (0..3).map(|other| MemberConfig {
            id: other as u64 + 1,
            name: format!("metad-{}", other + 1),
            addr: self.detours.get(&(at, other)).unwrap_or(&self.addrs[other]).to_string(),
        });
        let slow = !self.detours.is_empty();
        let clocks = TimingConfig { node_suspect_ms: self.suspect_ms, ..TimingConfig::default() };
        MetadConfig {
            id: at as u64 + 1,
            listen: self.addrs[at],
            data_dir: self.dir.path().join(&name),
            metrics_listen: None,
            tls: self.ca.paths(&name),
            members: members.collect(),
            timing: if slow {
                clocks
            } else {
                TimingConfig { heartbeat_ms: 100, election_min_ms: 400, election_max_ms: 800, ..clocks }
            },
            limits: self.limits.clone(),
            grpc: GrpcConfig { drain_ms: 100, ..GrpcConfig::default() },
            name,
        }
    }

    pub async fn start(&mut self, at: usize) {
        let started = Instant::now();
        // The port and the folder of a member that was just killed are let go a moment later.
        loop {
            match Metad::start(self.settings(at)).await {
                Ok(member) => {
                    self.members[at] = Some(member);
                    return;
                }
                Err(why) => assert!(started.elapsed() < PATIENCE, "{why}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn start_all(&mut self) {
        for at in 0..3 {
            self.start(at).await;
        }
    }

    pub async fn kill(&mut self, at: usize) {
        if let Some(member) = self.members[at].take() {
            member.kill().await;
        }
    }

    pub async fn leader(&self) -> usize {
        until("a leader", || self.members.iter().position(|member| member.as_ref().is_some_and(Metad::leads))).await
    }

    /// Waits until all members present have the same state; returns its version and hash.
    pub async fn fingerprint(&self) -> (u64, u64) {
        until("equal states", || {
            let mut prints = self.members.iter().flatten().map(Metad::fingerprint);
            let first = prints.next()?;
            prints.all(|print| print == first).then_some(first)
        })
        .await
    }

    pub fn tls(&self, name: &str, role: Role) -> TlsMaterial {
        // Issued once; a name may be asked for again.
        drop(self.ca.issue(name, role));
        TlsMaterial::load(&self.ca.paths(name)).unwrap()
    }

    pub fn member_list(&self) -> Vec<MetaMember> {
        (0..3).map(|at| MetaMember { name: format!("metad-{}", at + 1), addr: self.addrs[at].to_string() }).collect()
    }

    pub fn client(&self, name: &str, role: Role) -> MetaClient {
        let config = MetaClientConfig {
            call_timeout_ms: PATIENCE.as_millis() as u64,
            stall_ms: 2000,
            ..MetaClientConfig::default()
        };
        MetaClient::new(&self.member_list(), &self.tls(name, role), &GrpcConfig::default(), config).unwrap()
    }
}

pub async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
