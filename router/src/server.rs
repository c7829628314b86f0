//! One router, assembled: from its configuration to running tasks, and back down.

use crate::clock::Clock;
use crate::config::Config;
use crate::context::Context;
use crate::counters::Counters;
use crate::listen::{Door, accept_loop};
use crate::nodes::{self, Nodes};
use crate::picture::Picture;
use crate::ranges::Ranges;
use seam_transport::meta_client::{MetaClient, MetaClientConfig};
use seam_transport::metrics::{MetricsServer, Registry, serve_metrics};
use seam_transport::quic::{self, Acceptor};
use seam_transport::tls::{CertWatch, TlsMaterial};
use seam_wire::meta::MetaUpdate;
use serde_json::json;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// A running router.
pub struct Server {
    context: Arc<Context>,
    ranges: Arc<Ranges>,
    endpoint: quinn::Endpoint,
    tasks: Vec<JoinHandle<()>>,
    metrics: MetricsServer,
}

impl Server {
    /// Binds the sockets, follows metad, starts the tasks. Does not wait for metad: what is unknown is refused as
    /// unavailable until it is known. Errors name the setting and the remedy.
    pub async fn start(config: Config) -> anyhow::Result<Server> {
        anyhow::ensure!(!config.metad.is_empty(), "no [[metad]] member is named; list all of them");
        let tls = TlsMaterial::load(&config.tls)?;
        let client = MetaClient::new(&config.metad, &tls, &config.grpc, MetaClientConfig::default())?;
        let updates = client.watch(0, &config.name);
        Server::assemble(config, tls, updates).await
    }

    /// As `start`, with the updates of metad from elsewhere.
    pub async fn start_with(
        config: Config,
        updates: impl Stream<Item = MetaUpdate> + Send + 'static,
    ) -> anyhow::Result<Server> {
        let tls = TlsMaterial::load(&config.tls)?;
        Server::assemble(config, tls, updates).await
    }

    async fn assemble(
        config: Config,
        tls: TlsMaterial,
        updates: impl Stream<Item = MetaUpdate> + Send + 'static,
    ) -> anyhow::Result<Server> {
        config.validate()?;
        let endpoint = quic::endpoint(config.listen, &tls, &config.quic)?;
        let upstream = quic::client_endpoint(&tls, &config.quic)?;
        let registry = Registry::new("router");
        CertWatch::start(&tls, &config.tls).show(&registry);
        let context = Arc::new(Context {
            name: config.name,
            limits: config.limits,
            clock: Clock::new(),
            picture: Picture::new(),
            nodes: Nodes::new(upstream),
            counters: Counters::new(&registry),
            stop: CancellationToken::new(),
            streams: TaskTracker::new(),
            quic: config.quic,
        });
        let ranges = Arc::new(Ranges::default());
        refresh_gauges(&registry, &ranges);
        let acceptor = Acceptor::new(endpoint.clone(), context.quic.handshake_timeout());
        acceptor.failures().show(&registry);
        let metrics = serve_metrics(config.metrics_listen, registry, status(&context, &ranges)).await?;
        let door = Door { context: Arc::clone(&context), ranges: Arc::clone(&ranges) };
        let follower = Arc::clone(&context);
        let (sweeper, swept) = (Arc::clone(&context), Arc::clone(&ranges));
        let tasks = vec![
            tokio::spawn(async move { follower.picture.follow(updates, &follower.counters, &follower.stop).await }),
            tokio::spawn(nodes::follow(Arc::clone(&context))),
            tokio::spawn(accept_loop(acceptor, door)),
            tokio::spawn(async move { swept.sweep(&sweeper).await }),
        ];
        tracing::info!(listen = %endpoint.local_addr()?, metrics = %metrics.local_addr(), "ready");
        Ok(Server { context, ranges, endpoint, tasks, metrics })
    }

    /// Where it listens: the port, where 0 was asked for.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Where `/metrics` and `/status` are.
    pub fn metrics_addr(&self) -> SocketAddr {
        self.metrics.local_addr()
    }

    /// Takes no new clients, lets appends in flight be answered for a while, closes.
    pub async fn shutdown(self) {
        self.context.stop.cancel();
        self.context.streams.close();
        let drain = Duration::from_millis(self.context.limits.drain_ms);
        if tokio::time::timeout(drain, self.context.streams.wait()).await.is_err() {
            let left = self.context.streams.len();
            tracing::info!(left, "some streams did not end in time; their clients go on elsewhere");
        }
        self.ranges.close();
        self.context.nodes.close();
        self.endpoint.close(quic::code::SHUTDOWN, b"router stops");
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task did not end well");
            }
        }
    }
}

fn refresh_gauges(registry: &Registry, ranges: &Arc<Ranges>) {
    let ranges = Arc::downgrade(ranges);
    let warm = registry.gauge("warm_streams", "Append streams open to candidates");
    let upstreams = registry.gauge("upstreams", "Append streams to segd");
    let batches = registry.gauge("inflight_batches", "Appends not answered yet");
    let bytes = registry.gauge("inflight_bytes", "Their bytes");
    registry.on_scrape(move || {
        let Some(ranges) = ranges.upgrade() else { return };
        let all = ranges.status();
        warm.set(all.iter().map(|range| range.warm_streams as i64).sum());
        upstreams.set(all.iter().map(|range| range.upstreams as i64).sum());
        batches.set(all.iter().map(|range| range.inflight_batches as i64).sum());
        bytes.set(all.iter().map(|range| range.inflight_bytes as i64).sum());
    });
}

fn status(context: &Arc<Context>, ranges: &Arc<Ranges>) -> impl Fn() -> String + Send + Sync + 'static {
    let (context, ranges) = (Arc::downgrade(context), Arc::downgrade(ranges));
    move || {
        let (Some(context), Some(ranges)) = (context.upgrade(), ranges.upgrade()) else {
            return json!({ "state": "stopping" }).to_string();
        };
        let nodes: Vec<_> = context.nodes.status();
        let nodes: Vec<_> = nodes
            .into_iter()
            .map(|(id, name, connected)| json!({ "id": id.0, "name": name, "connected": connected }))
            .collect();
        let ranges: Vec<_> = ranges
            .status()
            .into_iter()
            .map(|range| {
                json!({
                    "range": range.range.0,
                    "head": range.head.map(|head| head.0),
                    "clients": range.clients,
                    "inflight_batches": range.inflight_batches,
                    "inflight_bytes": range.inflight_bytes,
                    "upstreams": range.upstreams,
                    "warm_streams": range.warm_streams,
                })
            })
            .collect();
        let meta_version = context.picture.read().version();
        json!({
            "name": context.name,
            "meta_version": meta_version,
            "nodes": nodes,
            "ranges": ranges,
            "tails": context.counters.tails.get(),
        })
        .to_string()
    }
}
