//! One router, assembled: from its configuration to running tasks, and back down.

use crate::config::Config;
use crate::counters::Counters;
use crate::listen::accept_loop;
use crate::shared::{Shared, follow};
use crate::upstreams::Upstreams;
use seam_transport::meta_client::{MetaClient, MetaClientConfig};
use seam_transport::metrics::{MetricsServer, Registry, serve_metrics};
use seam_transport::quic::{self, Acceptor};
use seam_transport::tls::TlsMaterial;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A running router.
pub struct Server {
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
    endpoint: quinn::Endpoint,
    _metrics: MetricsServer,
}

impl Server {
    /// Binds the sockets and starts the tasks. Errors name the setting and the remedy.
    pub async fn start(config: Config) -> anyhow::Result<Server> {
        config.validate()?;
        let tls = TlsMaterial::load(&config.tls)?;
        let endpoint = quic::endpoint(config.listen, &tls, &config.quic)?;
        let client = MetaClient::new(&config.metad, &tls, &config.grpc, MetaClientConfig::default())?;
        let registry = Registry::new("router");
        let counters = Counters::new(&registry);
        let upstreams = Upstreams::new(endpoint.clone(), config.quic.clone());
        let shared = Shared::new(upstreams, counters, config.limits.clone());
        let metrics = serve_metrics(config.metrics_listen, registry, status(&config, &shared)).await?;
        let stop = CancellationToken::new();
        let acceptor = Acceptor::new(endpoint.clone(), config.quic.handshake_timeout());
        let tasks = vec![
            tokio::spawn(accept_loop(acceptor, Arc::clone(&shared), stop.clone())),
            tokio::spawn(follow(client, config.name.clone(), shared, stop.clone())),
        ];
        tracing::info!(listen = %config.listen, "ready for clients");
        Ok(Server { stop, tasks, endpoint, _metrics: metrics })
    }

    /// Where it listens: the port, where 0 was asked for.
    pub fn local_addr(&self) -> std::io::Result<std::net::SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Stops; clients find another router.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.endpoint.close(quic::code::SHUTDOWN, b"the router stops");
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task did not end well");
            }
        }
    }
}

fn status(config: &Config, shared: &Arc<Shared>) -> impl Fn() -> String + Send + Sync + 'static {
    let (name, shared) = (config.name.clone(), Arc::clone(shared));
    move || {
        let (connected, nodes) = shared.upstreams.connected();
        let version = shared.chains.read().version();
        format!(
            "{{\"name\":{name:?},\"meta_version\":{version},\"segd_connected\":{connected},\"segd_known\":{nodes}}}"
        )
    }
}
