//! One node, assembled: from its configuration to running tasks, and back down.

use crate::completions::Completions;
use crate::config::Config;
use crate::counters::Counters;
use crate::driver::{Driver, Gauges, Inbox};
use crate::identity;
use crate::links::Links;
use crate::listen::{Shared, accept_loop};
use crate::meta::{self, Reporter};
use crate::store::Store;
use crate::traces::Traces;
use anyhow::Context;
use seam_transport::meta_client::{MetaClient, MetaClientConfig};
use seam_transport::metrics::{MetricsServer, Registry, serve_metrics};
use seam_transport::quic::{self, Acceptor};
use seam_transport::tls::{CertWatch, TlsMaterial};
use seam_wire::{NodeId, SegmentId};
use segd_core::io::Input;
use segd_core::node::{Node, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// For operators, of a journal that failed.
const REMEDY: &str = "Free space on the disk of data_dir, or repair the disk, then restart segd; a disk whose content is lost \
                      is replaced by an empty data_dir";

/// A running node.
pub struct Server {
    stop: CancellationToken,
    driver: JoinHandle<BTreeSet<SegmentId>>,
    tasks: Vec<JoinHandle<()>>,
    store: Arc<Store>,
    endpoint: quinn::Endpoint,
    _metrics: MetricsServer,
}

impl Server {
    /// Reads the disk, binds the sockets, starts the tasks. Errors name the setting and the remedy.
    pub async fn start(config: Config) -> anyhow::Result<Server> {
        config.validate()?;
        let data_dir = config.data_dir.clone();
        std::fs::create_dir_all(&data_dir).with_context(|| format!("cannot make data_dir {}", data_dir.display()))?;
        let limits = config.limits.clone();
        let (store, restored) = tokio::task::spawn_blocking(move || Store::open(&data_dir, &limits))
            .await?
            .with_context(|| format!("cannot open data_dir {}", config.data_dir.display()))?;
        let founded = identity::founded(&config.data_dir)?;
        let incarnation = identity::next_incarnation(&config.data_dir)?;
        let tls = TlsMaterial::load(&config.tls)?;
        let endpoint = quic::endpoint(config.listen, &tls, &config.quic)?;
        let client = MetaClient::new(&config.metad, &tls, &config.grpc, MetaClientConfig::default())?;
        let registry = Registry::new("segd");
        CertWatch::start(&tls, &config.tls).show(&registry);
        let counters = Arc::new(Counters::new(&registry));
        let metrics = serve_metrics(config.metrics_listen, registry.clone(), status(&config, &store)).await?;

        let (network, network_events) = mpsc::channel(config.limits.input_queue.max(1));
        let (internal, internal_events) = mpsc::unbounded_channel();
        let inbox = Inbox { network, internal };
        let node = NodeId(config.id);
        tracing::info!(replicas = restored.len(), %incarnation, "starting");
        let gauges = Arc::new(Gauges::default());
        let started = Instant::now();
        let driver = Driver {
            node: Node::new(node, incarnation, Settings::default(), founded, restored),
            store: Arc::clone(&store),
            data_dir: config.data_dir.clone(),
            inbox: inbox.clone(),
            network: network_events,
            internal: internal_events,
            links: Links::new(endpoint.clone(), config.quic.clone(), inbox.clone()),
            reporter: Reporter { client: client.clone(), node, incarnation },
            counters: Arc::clone(&counters),
            gauges: Arc::clone(&gauges),
            streams: BTreeMap::new(),
            completions: Arc::new(Completions::new(inbox.clone())),
            traces: Traces::new(started),
            started,
        };
        let failed = inbox.clone();
        let data_dir = config.data_dir.clone();
        store.journal().on_failure(move |error| {
            let data_dir = data_dir.display();
            tracing::error!(%error, %data_dir, "the journal failed: this node acks nothing until it is started again. {REMEDY}");
            failed.complete(Input::JournalFailed);
        });
        let stop = CancellationToken::new();
        let shared = Shared {
            inbox: inbox.clone(),
            store: Arc::clone(&store),
            counters,
            limits: config.limits.clone(),
            next_stream: Arc::new(AtomicU64::new(1)),
        };
        let acceptor = Acceptor::new(endpoint.clone(), config.quic.handshake_timeout());
        acceptor.failures().show(&registry);
        let name = config.name.clone();
        store.begin().context("cannot clear the mark of the last stop")?;
        let driver = tokio::spawn(driver.run(stop.clone()));
        let tasks = vec![
            tokio::spawn(accept_loop(acceptor, shared, stop.clone())),
            tokio::spawn(meta::follow(client.clone(), name, inbox.clone(), stop.clone())),
            tokio::spawn(meta::stay_registered(client, config, incarnation, gauges, inbox, stop.clone())),
        ];
        Ok(Server { stop, driver, tasks, store, endpoint, _metrics: metrics })
    }

    /// Where it listens: the port, where 0 was asked for.
    pub fn local_addr(&self) -> std::io::Result<std::net::SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Stops the tasks, writes behind what is left, closes the disk.
    pub async fn shutdown(self) {
        self.stop.cancel();
        self.endpoint.close(quic::code::SHUTDOWN, b"segd stops");
        for task in self.tasks {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task did not end well");
            }
        }
        let unknown = match self.driver.await {
            Ok(unknown) => unknown,
            Err(error) => {
                tracing::error!(%error, "the node did not end well: its disk is left as after a crash");
                return;
            }
        };
        let store = self.store;
        if let Err(error) = tokio::task::spawn_blocking(move || store.shutdown(&unknown)).await {
            tracing::error!(%error, "the store did not close well");
        }
    }
}

fn status(config: &Config, store: &Arc<Store>) -> impl Fn() -> String + Send + Sync + 'static {
    let (name, store) = (config.name.clone(), Arc::clone(store));
    move || {
        let stats = store.journal().stats();
        format!("{{\"name\":{name:?},\"journal\":{:?}}}", format!("{stats:?}"))
    }
}
