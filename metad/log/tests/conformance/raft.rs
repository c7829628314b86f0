//! The embedded Raft under the suite: three members in this process, real gRPC over mutual TLS, real disks.

use crate::cluster::Cluster;
use crate::recorder::{Recorder, Seen};
use crate::relay::{Delay, relay};
use futures::future::{BoxFuture, FutureExt};
use metad_log::MetaLog;
use metad_log::raft::{Dialer, Limits, Member, RaftLog, Settings, Timing};
use seam_transport::grpc::{GrpcConfig, GrpcServer, Peer, channel};
use seam_transport::pki::DevCa;
use seam_transport::{Role, TlsMaterial};
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tonic::Status;
use tonic::service::Routes;

/// Members made by this process so far.
static CLUSTERS: AtomicU8 = AtomicU8::new(0);

struct Running {
    log: Arc<RaftLog>,
    server: JoinHandle<()>,
    _alive: oneshot::Sender<()>,
}

pub struct Embedded {
    dir: TempDir,
    tls: Vec<TlsMaterial>,
    addrs: Vec<SocketAddr>,
    running: [Option<Running>; 3],
    seen: [Seen; 3],
    timing: Timing,
    /// The address at which `from` reaches `to`, where that is not its own.
    detours: BTreeMap<(usize, usize), SocketAddr>,
}

impl Embedded {
    /// A cluster whose links have a round trip of twice `delay`, with the default clocks.
    pub async fn with_long_links(delay: Delay) -> Self {
        let mut cluster = Embedded::new().await;
        cluster.timing = Timing::default();
        for from in 0..3 {
            for to in (0..3).filter(|to| *to != from) {
                cluster.detours.insert((from, to), relay(cluster.addrs[to], delay.clone()).await);
            }
        }
        cluster
    }

    pub fn addr(&self, at: usize) -> SocketAddr {
        self.addrs[at]
    }

    /// Round trips as member `at` measured them, in microseconds.
    pub fn round_trips_us(&self, at: usize) -> Vec<u64> {
        let log = &self.running[at].as_ref().expect("the member runs").log;
        log.round_trips_us().into_iter().map(|(_, micros)| micros).collect()
    }

    pub async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = DevCa::create(dir.path().join("pki")).unwrap();
        let mut tls = Vec::new();
        let mut addrs = Vec::new();
        for id in 1..=3 {
            let name = format!("metad-{id}");
            ca.issue(&name, Role::Metad).unwrap();
            tls.push(TlsMaterial::load(&ca.paths(&name)).unwrap());
            // A loopback address of its own: no outgoing connection of another test takes the port while a member is
            // down.
            let nth = CLUSTERS.fetch_add(1, Ordering::Relaxed);
            let pid = std::process::id().to_le_bytes();
            let listener = std::net::TcpListener::bind((Ipv4Addr::new(127, pid[0] | 64, pid[1], nth + 1), 0)).unwrap();
            addrs.push(listener.local_addr().unwrap());
        }
        Embedded {
            dir,
            tls,
            addrs,
            running: Default::default(),
            seen: Default::default(),
            timing: Timing { heartbeat_ms: 100, election_min_ms: 400, election_max_ms: 800 },
            detours: BTreeMap::new(),
        }
    }

    fn settings(&self, at: usize) -> Settings {
        let members = (0..3).map(|other| Member {
            id: other as u64 + 1,
            name: format!("metad-{}", other + 1),
            addr: self.detours.get(&(at, other)).unwrap_or(&self.addrs[other]).to_string(),
        });
        Settings {
            id: at as u64 + 1,
            data_dir: self.dir.path().join(format!("metad-{}", at + 1)),
            members: members.collect(),
            timing: self.timing,
            limits: Limits {
                snapshot_log_entries: 32,
                keep_log_entries: 4,
                propose_timeout: Duration::from_secs(3),
                journal_file_bytes: 2 << 20,
                ..Limits::default()
            },
        }
    }

    async fn listen(&self, at: usize) -> GrpcServer {
        let started = Instant::now();
        loop {
            match GrpcServer::bind(self.addrs[at], &self.tls[at], GrpcConfig::default()).await {
                Ok(server) => return server,
                Err(why) => assert!(started.elapsed() < crate::cluster::PATIENCE, "{why}"),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

fn admit(extensions: &tonic::Extensions) -> Result<(), Status> {
    match extensions.get::<Peer>() {
        Some(peer) if peer.identity.role == Role::Metad => Ok(()),
        _ => Err(Status::permission_denied("members only")),
    }
}

impl Cluster for Embedded {
    fn size(&self) -> usize {
        3
    }

    fn log(&self, at: usize) -> Option<Arc<dyn MetaLog>> {
        self.running[at].as_ref().map(|running| running.log.clone() as Arc<dyn MetaLog>)
    }

    fn seen(&self, at: usize) -> Seen {
        self.seen[at].clone()
    }

    fn start(&mut self, at: usize) -> BoxFuture<'_, ()> {
        async move {
            let server = self.listen(at).await;
            let tls = self.tls[at].clone();
            let dial: Dialer = Arc::new(move |member: &Member| {
                channel(&member.addr, &member.name, &tls, &GrpcConfig::default()).unwrap()
            });
            self.seen[at] = Seen::default();
            let state = Box::new(Recorder(self.seen[at].clone()));
            let log = RaftLog::start(self.settings(at), state, dial).await.unwrap();
            let routes = Routes::new(log.service(Arc::new(admit)));
            let (alive, gone) = oneshot::channel::<()>();
            let serving = tokio::spawn(async move {
                let ended = async move { drop(gone.await) };
                server.serve(routes, ended).await.unwrap();
            });
            self.running[at] = Some(Running { log, server: serving, _alive: alive });
        }
        .boxed()
    }

    fn kill(&mut self, at: usize) -> BoxFuture<'_, ()> {
        async move {
            if let Some(running) = self.running[at].take() {
                running.server.abort();
                running.log.shutdown().await;
            }
        }
        .boxed()
    }

    fn snapshot_entries(&self) -> u64 {
        32
    }
}
