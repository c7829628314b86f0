//! What the services say of themselves. The SDK finds its way around what is down; where one process is meant, this asks
//! that one on purpose, to know.

use super::cluster::{Cluster, Node, Role};
use super::config;
use super::layout::Layout;
use anyhow::{Context, Result, bail};
use seam_grpc::StatusRequest;
use seam_grpc::admin_client::AdminClient;
use seam_transport::TlsMaterial;
use seam_transport::grpc::{GrpcConfig, channel};
use seam_transport::quic;
use seam_transport::stream::{FrameReader, FrameWriter, open_bi};
use seam_wire::frame::Frame;
use seam_wire::msg::{FromRouter, ToRouter};
use seamlog::{Admin, Client, ClientConfig, ErrorCode};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tonic::transport::Channel;

/// How long one question may take. Longer than the longest sensible round trip of metad: a handshake and a call.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long one dial may take before the next: a process that does not listen yet answers none.
const DIAL_PATIENCE: Duration = Duration::from_millis(500);
/// A topic that no cluster has: a router that knows the metadata says so.
const NO_TOPIC: &str = "seam.dev.probe";

/// Connections to the services of one cluster, with the client's certificate.
pub struct Probe {
    config: ClientConfig,
    tls: TlsMaterial,
    client: Client,
    metad: BTreeMap<String, AdminClient<Channel>>,
}

impl Probe {
    /// # Errors
    /// The client's certificate cannot be read, or no socket can be opened.
    pub fn new(layout: &Layout, cluster: &Cluster) -> Result<Self> {
        let mut config = config::client(layout, cluster)?;
        config.request_timeout_ms = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
        let tls = TlsMaterial::load(&config.tls)?;
        let member = |(node, addr): (&Node, SocketAddr)| {
            let channel = channel(&addr.to_string(), &node.name(), &tls, &GrpcConfig::default())?;
            Ok((node.name(), AdminClient::new(channel)))
        };
        let metad = cluster.metad().map(member).collect::<Result<_>>()?;
        Ok(Probe { client: Client::connect(config.clone())?, config, tls, metad })
    }

    /// The cluster's administration, through whoever leads metad.
    #[must_use]
    pub fn admin(&self) -> Admin {
        self.client.admin()
    }

    /// The leader as the metad member called `name` knows it; empty while it knows none.
    ///
    /// # Errors
    /// It does not answer.
    pub async fn leader_seen_by(&self, name: &str) -> Result<String> {
        let mut member = self.metad.get(name).with_context(|| format!("no member {name}"))?.clone();
        let call = tokio::time::timeout(PATIENCE, member.status(StatusRequest {}));
        let answer = call.await.with_context(|| format!("no answer in {PATIENCE:?}"))?;
        // tonic's own words for a failed connection are no help; the cause has them.
        answer.map(|status| status.into_inner().leader).map_err(|status| anyhow::anyhow!("{}", root_cause(&status)))
    }

    /// Whether a router takes clients and knows the cluster's metadata. Asked past the SDK, which is patient with a router
    /// that does not know a topic.
    ///
    /// # Errors
    /// It does not, and why.
    pub async fn router(&self, node: &Node) -> Result<()> {
        debug_assert_eq!(node.role(), Role::Router);
        let endpoint = quic::client_endpoint(&self.tls, &self.config.quic)?;
        let connection = quic::connect(&endpoint, &node.listen.to_string(), &node.name(), DIAL_PATIENCE).await?;
        let ask = async {
            let (send, receive) = open_bi(&connection, PATIENCE).await?;
            let mut writer = FrameWriter::new(send);
            writer.write(&Frame::new(ToRouter::Offsets { topic: NO_TOPIC.to_owned(), range_index: 0 })).await?;
            writer.finish()?;
            FrameReader::new(receive).read::<FromRouter>().await?.context("it closed the stream")
        };
        let answer = tokio::time::timeout(PATIENCE, ask).await.with_context(|| format!("no answer in {PATIENCE:?}"))?;
        quic::close(&connection, quic::code::DONE, "done");
        match answer?.msg {
            FromRouter::Offsets { .. } => Ok(()),
            FromRouter::Error { error } if error.code == ErrorCode::UnknownTopic => Ok(()),
            FromRouter::Error { error } => Err(error.into()),
            other => bail!("an answer that makes no sense: {other:?}"),
        }
    }
}

fn root_cause(status: &tonic::Status) -> String {
    match std::error::Error::source(status) {
        Some(cause) => seam_transport::grpc::root_cause(cause),
        None => status.message().to_owned(),
    }
}
