//! Connections to segd nodes, one each, kept standing from the moment a node is known.

use parking_lot::Mutex;
use quinn::{Connection, Endpoint, RecvStream, SendStream};
use seam_transport::quic::{QuicConfig, Standing};
use seam_transport::stream::open_bi;
use seam_wire::NodeId;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::watch;

/// A stream is not opened if no connection stands for so long.
const CONNECT_PATIENCE: Duration = Duration::from_secs(2);

pub struct Upstreams {
    endpoint: Endpoint,
    config: QuicConfig,
    standing: Mutex<BTreeMap<NodeId, Standing>>,
}

impl Upstreams {
    pub fn new(endpoint: Endpoint, config: QuicConfig) -> Self {
        Upstreams { endpoint, config, standing: Mutex::default() }
    }

    /// Idempotent; a new address replaces the old one.
    pub fn dial(&self, node: NodeId, name: &str, addr: &str) {
        let mut standing = self.standing.lock();
        if standing.get(&node).is_none_or(|known| known.addr() != addr) {
            standing.insert(node, Standing::dial(self.endpoint.clone(), name, addr, &self.config));
        }
    }

    /// Opens a stream to `node`, waiting a bounded time for its connection. The error says why not, for people.
    pub async fn open(&self, node: NodeId) -> Result<(SendStream, RecvStream), String> {
        let known = {
            let standing = self.standing.lock();
            standing.get(&node).map(|standing| (standing.now(), standing.follow()))
        };
        let (now, mut follow) = known.ok_or_else(|| format!("{node} is not known"))?;
        let connection = match now {
            Some(connection) => connection,
            None => wait(&mut follow).await.ok_or_else(|| format!("{node} is not connected"))?,
        };
        open_bi(&connection, self.config.open_timeout()).await.map_err(|error| format!("{node}: {error}"))
    }

    /// Nodes with a standing connection, of all that are dialed.
    pub fn connected(&self) -> (usize, usize) {
        let standing = self.standing.lock();
        (standing.values().filter(|standing| standing.now().is_some()).count(), standing.len())
    }
}

async fn wait(follow: &mut watch::Receiver<Option<Connection>>) -> Option<Connection> {
    let standing = tokio::time::timeout(CONNECT_PATIENCE, follow.wait_for(Option::is_some)).await;
    standing.ok()?.ok()?.clone()
}
