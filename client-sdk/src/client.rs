//! The client: settings, certificates, and the way to everything else.

use crate::admin::Admin;
use crate::clock::Clock;
use crate::config::{ClientConfig, Peer};
use crate::consumer::ConsumerBuilder;
use crate::error::Error;
use crate::group::Groups;
use crate::lane::Lane;
use crate::pacer::Pacer;
use crate::producer::ProducerBuilder;
use crate::query;
use seam_transport::grpc::GrpcConfig;
use seam_transport::meta_client::{MetaClient, MetaClientConfig, MetaMember};
use seam_transport::{CertWatch, TlsMaterial};
use seam_wire::{ErrorCode, Offset, WireError};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) struct Inner {
    pub config: ClientConfig,
    pub tls: TlsMaterial,
    pub meta: MetaClient,
    /// For producing and queries; `None` when the settings name no router.
    lane: Option<Lane>,
    pub pacer: Pacer,
    pub clock: Clock,
    /// Tails that heard nothing though records waited.
    pub stuck: Arc<AtomicU64>,
}

impl Inner {
    pub fn lane(&self) -> Result<&Lane, WireError> {
        let missing = || WireError::refused(ErrorCode::InvalidArgument, "the settings name no router; add one");
        self.lane.as_ref().ok_or_else(missing)
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A cluster, as a client reaches it. Cheap to clone; connections are made when first needed and again when they break.
#[derive(Clone, Debug)]
pub struct Client {
    pub(crate) inner: Arc<Inner>,
}

/// The two ends of a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offsets {
    /// The first offset there is.
    pub earliest: Offset,
    /// The offset after the last committed record.
    pub latest: Offset,
}

impl Client {
    /// Checks the settings and loads the certificates; new ones in the same files are taken within seconds. Dials nobody yet. Must be called inside a tokio runtime.
    /// Errors name the file or setting and the remedy.
    pub fn connect(config: ClientConfig) -> Result<Client, Error> {
        config.validate()?;
        let tls = TlsMaterial::load(&config.tls)?;
        // New certificates hold for what this client dials from then on; the look-out ends with the last of its connections.
        CertWatch::start(&tls, &config.tls);
        let members: Vec<MetaMember> = config
            .metad
            .iter()
            .map(|Peer { name, addr }| MetaMember { name: name.clone(), addr: addr.clone() })
            .collect();
        let meta_config =
            MetaClientConfig { call_timeout_ms: config.request_timeout_ms, ..MetaClientConfig::default() };
        let meta = MetaClient::new(&members, &tls, &GrpcConfig::default(), meta_config)
            .map_err(|error| Error::Setting(format!("[[metad]]: {error}")))?;
        let lane = if config.routers.is_empty() { None } else { Some(Lane::new(&config, config.quic.clone(), &tls)?) };
        let (pacer, clock, stuck) = (Pacer::default(), Clock::new(), Arc::default());
        Ok(Client { inner: Arc::new(Inner { config, tls, meta, lane, pacer, clock, stuck }) })
    }

    /// The settings it was made with.
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// The consumer groups.
    pub fn groups(&self) -> Groups {
        Groups::new(self.clone())
    }

    /// A producer of `topic`, to be configured and built.
    pub fn producer(&self, topic: impl Into<String>) -> ProducerBuilder {
        ProducerBuilder::new(self.clone(), topic.into())
    }

    /// A consumer of `topic`, to be configured and built.
    pub fn consumer(&self, topic: impl Into<String>) -> ConsumerBuilder {
        ConsumerBuilder::new(self.clone(), topic.into())
    }

    /// Asks a router for both ends of a range. Errors: `UnknownTopic`, `UnknownRange`; `Unavailable` or
    /// `DeadlineExceeded` when nobody answers within `request_timeout_ms`.
    pub async fn offsets(&self, topic: &str, range: u32) -> Result<Offsets, Error> {
        let request = |source| Error::Request { what: format!("offsets of {topic:?}, range {range}"), source };
        let lane = self.inner.lane().map_err(request)?;
        let (timeout, patience) = (self.request_timeout(), query::UNKNOWN_PATIENCE);
        query::offsets(lane, topic, range, timeout, patience).await.map_err(request)
    }

    /// Times a consumer's tail heard nothing though records waited for it, and went on at another router. Each is logged.
    /// Above 0 means that a router does not bring what there is.
    pub fn tails_stuck_total(&self) -> u64 {
        self.inner.stuck.load(Ordering::Relaxed)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.inner.config.request_timeout_ms)
    }
}
