//! One member from its settings to its end.

use crate::admin::AdminService;
use crate::config::MetadConfig;
use crate::engine::Engine;
use crate::hub::Hub;
use crate::machine::Machine;
use crate::nodes::NodesService;
use crate::{lead, metrics};
use metad_log::MetaLog;
use metad_log::raft::{Admit, Dialer, Member, RaftLog, StartError as LogError};
use seam_grpc::admin_server::AdminServer;
use seam_grpc::metadata_server::MetadataServer;
use seam_transport::grpc::{ChannelError, GrpcError, GrpcServer, MAX_MESSAGE_BYTES, Peer, channel};
use seam_transport::metrics::{MetricsServer, Registry, serve_metrics};
use seam_transport::{CertWatch, Role, TlsError, TlsMaterial};
use std::collections::BTreeSet;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tonic::Status;
use tonic::service::Routes;

/// How often the log is asked whether it still works.
const HEALTH_EVERY: Duration = Duration::from_millis(250);

/// Why a member does not run.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error("this is {name} by its settings and {certificate} by its certificate; make them agree")]
    Name { name: String, certificate: String },
    #[error("{name} is not the name of member {id} in [[members]]; make them agree")]
    Member { id: u64, name: String },
    #[error(transparent)]
    Address(#[from] ChannelError),
    #[error(transparent)]
    Grpc(#[from] GrpcError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("{0}")]
    Metrics(io::Error),
    #[error("the metadata log failed: {0}; look at the disk, then start again")]
    Failed(String),
}

/// A running member.
pub struct Metad {
    engine: Arc<Engine>,
    log: Arc<RaftLog>,
    addr: SocketAddr,
    registry: Registry,
    stop_serving: oneshot::Sender<()>,
    serving: JoinHandle<Result<(), GrpcError>>,
    tasks: JoinSet<()>,
    _metrics: Option<MetricsServer>,
}

/// Members only, by certificate.
fn admit(config: &MetadConfig) -> Admit {
    let names: BTreeSet<String> = config.members.iter().map(|member| member.name.clone()).collect();
    Arc::new(move |extensions| match extensions.get::<Peer>() {
        Some(peer) if peer.identity.role == Role::Metad && names.contains(&*peer.identity.name) => Ok(()),
        Some(peer) => Err(Status::permission_denied(format!("{} is not a member; see [[members]]", peer.identity))),
        None => Err(Status::unauthenticated("no verified peer")),
    })
}

fn check_names(config: &MetadConfig, tls: &TlsMaterial) -> Result<(), StartError> {
    let identity = tls.identity();
    if *identity.name != *config.name || identity.role != Role::Metad {
        return Err(StartError::Name { name: config.name.clone(), certificate: identity.to_string() });
    }
    if !config.members.iter().any(|member| member.id == config.id && member.name == config.name) {
        return Err(StartError::Member { id: config.id, name: config.name.clone() });
    }
    Ok(())
}

impl Metad {
    /// Opens the log, begins to serve and to take part. Returns before there is a leader.
    ///
    /// # Errors
    /// Settings, certificates, addresses or a disk that cannot be used.
    pub async fn start(config: MetadConfig) -> Result<Metad, StartError> {
        let tls = TlsMaterial::load(&config.tls)?;
        check_names(&config, &tls)?;
        // Bad addresses are told now, not when a member is first dialed.
        for member in &config.members {
            drop(channel(&member.addr, &member.name, &tls, &config.grpc)?);
        }
        let server = GrpcServer::bind(config.listen, &tls, config.grpc.clone()).await?;
        let addr = server.local_addr().map_err(StartError::Metrics)?;
        let failures = server.failures();

        let limits = &config.limits;
        let hub = Hub::new(limits.watch_updates, limits.watch_bytes);
        let engine = Engine::new(config.node_timing(), hub, rand::random());
        let (dial_tls, dial_config) = (tls.clone(), config.grpc.clone());
        let dial: Dialer = Arc::new(move |member: &Member| {
            channel(&member.addr, &member.name, &dial_tls, &dial_config).expect("every address was tried at start")
        });
        let state = Box::new(Machine(engine.clone()));
        let log = RaftLog::start(config.log_settings(), state, dial).await?;
        engine.attach(log.clone());

        let routes = routes(&config, &engine, &log);
        let (stop_serving, stopped) = oneshot::channel::<()>();
        let serving = tokio::spawn(server.serve(routes, async move { drop(stopped.await) }));
        let mut tasks = JoinSet::new();
        tasks.spawn(lead::follow_leadership(engine.clone()));
        tasks.spawn(lead::keep_time(engine.clone()));

        let registry = Registry::new("seam_metad");
        metrics::register(&registry, &engine, &log);
        failures.show(&registry);
        CertWatch::start(&tls, &config.tls).show(&registry);
        let metrics = match config.metrics_listen {
            Some(listen) => {
                let (engine, name) = (engine.clone(), config.name.clone());
                let status = move || metrics::status_json(&engine, &name);
                Some(serve_metrics(listen, registry.clone(), status).await.map_err(StartError::Metrics)?)
            }
            None => None,
        };
        tracing::info!(name = config.name, %addr, "metad serves");
        Ok(Metad { engine, log, addr, registry, stop_serving, serving, tasks, _metrics: metrics })
    }

    /// Where it serves gRPC.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Its metrics.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Whether it leads and decides.
    pub fn leads(&self) -> bool {
        self.engine.view().driver().leads()
    }

    /// Version and hash of its state: equal on all members that applied the same log (R11).
    pub fn fingerprint(&self) -> (u64, u64) {
        let view = self.engine.view();
        (view.meta().version(), view.meta().hash())
    }

    /// Runs until told to stop, then hands over leadership and stops in order.
    ///
    /// # Errors
    /// The log or the server failed: the process should end and say so.
    pub async fn run_until(mut self, stop: impl Future<Output = ()>) -> Result<(), StartError> {
        let health = watch_health(self.log.clone());
        let failure = tokio::select! {
            () = stop => None,
            why = health => Some(StartError::Failed(why)),
            ended = &mut self.serving => Some(match ended {
                Ok(Ok(())) => StartError::Failed("the gRPC server ended".to_owned()),
                Ok(Err(why)) => why.into(),
                Err(why) => StartError::Failed(why.to_string()),
            }),
        };
        match failure {
            None => {
                self.stop().await;
                Ok(())
            }
            Some(why) => {
                self.log.shutdown().await;
                Err(why)
            }
        }
    }

    /// Hands over leadership, lets running calls end, closes the log.
    pub async fn stop(mut self) {
        self.log.transfer().await;
        drop(self.stop_serving);
        if !self.serving.is_finished()
            && let Err(why) = (&mut self.serving).await
        {
            tracing::warn!(%why, "the gRPC server did not end in order");
        }
        self.log.shutdown().await;
        self.tasks.shutdown().await;
    }

    /// Ends at once, without a word to the others, as if the process were killed. For tests.
    pub async fn kill(mut self) {
        self.serving.abort();
        self.log.shutdown().await;
        self.tasks.shutdown().await;
    }
}

fn routes(config: &MetadConfig, engine: &Arc<Engine>, log: &Arc<RaftLog>) -> Routes {
    let nodes = NodesService {
        engine: engine.clone(),
        watchers: config.limits.watchers,
        watch_idle: Duration::from_millis(config.limits.watch_idle_ms),
    };
    let admin = AdminService {
        engine: engine.clone(),
        name: config.name.clone(),
        members: config.members.iter().map(|member| member.name.clone()).collect(),
    };
    let nodes = MetadataServer::new(nodes)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    let admin = AdminServer::new(admin)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES);
    Routes::new(log.service(admit(config))).add_service(nodes).add_service(admin)
}

/// Resolves with the reason once the log has failed for good.
async fn watch_health(log: Arc<RaftLog>) -> String {
    loop {
        if let Some(why) = log.status().failed {
            return why;
        }
        tokio::time::sleep(HEALTH_EVERY).await;
    }
}
