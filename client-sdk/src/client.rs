//! The client: settings, certificates, and the way to everything else.

use crate::admin::Admin;
use crate::config::ClientConfig;
use crate::consumer::ConsumerBuilder;
use crate::error::Error;
use crate::producer::ProducerBuilder;
use seam_transport::TlsMaterial;
use seam_wire::Offset;
use std::sync::Arc;

pub(crate) struct Inner {
    pub(crate) config: ClientConfig,
    #[allow(dead_code)]
    pub(crate) tls: TlsMaterial,
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
    /// Checks the settings and loads the certificates. Dials nobody yet. Must be called inside a tokio runtime.
    pub fn connect(config: ClientConfig) -> Result<Client, Error> {
        if config.metad.is_empty() {
            return Err(Error::NoPeers("metad member"));
        }
        if config.routers.is_empty() {
            return Err(Error::NoPeers("router"));
        }
        let tls = TlsMaterial::load(&config.tls)?;
        Ok(Client { inner: Arc::new(Inner { config, tls }) })
    }

    /// The settings it was made with.
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
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
        let _ = (topic, range);
        todo!()
    }
}
