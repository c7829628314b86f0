//! One connection per segd node, dialed as soon as the node is known and again whenever it is lost: its congestion window
//! and its handshake are there before a segment is. QUIC's keep-alive pings hold it.

use crate::context::Context;
use parking_lot::Mutex;
use quinn::{Connection, Endpoint};
use seam_transport::quic;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::meta::NodeView;
use seam_wire::{Incarnation, NodeId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// Between two tries; doubles up to the second.
const BACKOFF: Duration = Duration::from_millis(20);
const BACKOFF_MAX: Duration = Duration::from_secs(1);

pub struct Nodes {
    endpoint: Endpoint,
    links: Mutex<BTreeMap<NodeId, Link>>,
}

struct Link {
    /// Name, address and life as metad told them.
    at: (String, String, Incarnation),
    connection: watch::Receiver<Option<Connection>>,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
        // A process that was killed never says so: its streams end here.
        if let Some(connection) = self.connection.borrow().as_ref() {
            connection.close(quic::code::SHUTDOWN, b"another life");
        }
    }
}

impl Nodes {
    pub fn new(endpoint: Endpoint) -> Nodes {
        Nodes { endpoint, links: Mutex::default() }
    }

    /// The connection to `node`, waited for at most `limits.node_wait_ms`.
    pub async fn connection(&self, node: NodeId, wait: Duration) -> Result<Connection, WireError> {
        let unavailable = |why: &str| WireError::retry(ErrorCode::Unavailable, format!("{node} {why}"));
        let mut link = {
            let links = self.links.lock();
            links.get(&node).map(|link| link.connection.clone()).ok_or_else(|| unavailable("is not known yet"))?
        };
        let stands = tokio::time::timeout(wait, link.wait_for(Option::is_some)).await;
        match stands {
            Ok(Ok(connection)) => Ok(connection.clone().expect("waited for")),
            Ok(Err(_)) => Err(unavailable("left the cluster")),
            Err(_) => Err(unavailable("cannot be reached")),
        }
    }

    /// Name and whether the connection stands, of every node.
    pub fn status(&self) -> Vec<(NodeId, String, bool)> {
        let links = self.links.lock();
        links.iter().map(|(id, link)| (*id, link.at.0.clone(), link.connection.borrow().is_some())).collect()
    }

    pub fn close(&self) {
        self.links.lock().clear();
        self.endpoint.close(quic::code::SHUTDOWN, b"router stops");
    }

    fn keep(&self, context: &Arc<Context>) {
        let live: BTreeMap<NodeId, NodeView> =
            context.picture.read().live_nodes().map(|node| (node.id, node.clone())).collect();
        let mut links = self.links.lock();
        // A node taken for dead keeps its connection while that stands: it may be metad who is cut off.
        links.retain(|id, link| live.contains_key(id) || link.connection.borrow().is_some());
        for (id, node) in live {
            let at = (node.name, node.addr, node.incarnation);
            if links.get(&id).is_some_and(|link| link.at == at) {
                continue;
            }
            let (sender, connection) = watch::channel(None);
            let (name, addr, _) = at.clone();
            let task = tokio::spawn(hold(self.endpoint.clone(), (name, addr), sender, Arc::clone(context)));
            links.insert(id, Link { at, connection, task });
        }
    }
}

/// Keeps a link to every node that lives.
pub async fn follow(context: Arc<Context>) {
    let mut changed = context.picture.nodes();
    loop {
        changed.borrow_and_update();
        context.nodes.keep(&context);
        tokio::select! {
            () = context.stop.cancelled() => return,
            alive = changed.changed() => if alive.is_err() { return },
        }
    }
}

async fn hold(
    endpoint: Endpoint,
    (name, addr): (String, String),
    sender: watch::Sender<Option<Connection>>,
    context: Arc<Context>,
) {
    let mut backoff = BACKOFF;
    let mut told = false;
    loop {
        context.counters.segd_dials.inc();
        match quic::connect(&endpoint, &addr, &name, DIAL_TIMEOUT).await {
            Ok(connection) => {
                tracing::debug!(node = %name, %addr, "connected");
                let _gauge = Counted::new(&context);
                sender.send_replace(Some(connection.clone()));
                let since = tokio::time::Instant::now();
                let why = connection.closed().await;
                sender.send_replace(None);
                tracing::info!(node = %name, %why, "the connection is lost; dialing again");
                // One that was closed at once (turned away) is not tried in a tight loop.
                backoff = if since.elapsed() > BACKOFF_MAX { BACKOFF } else { (backoff * 2).min(BACKOFF_MAX) };
                told = false;
            }
            Err(error) => {
                context.counters.segd_dial_failures.inc();
                if !std::mem::replace(&mut told, true) {
                    tracing::warn!(node = %name, %error, "cannot connect; trying on");
                }
                backoff = (backoff * 2).min(BACKOFF_MAX);
            }
        }
        tokio::time::sleep(backoff).await;
    }
}

/// Counts a standing connection, also when its task is aborted.
struct Counted<'c>(&'c Context);

impl<'c> Counted<'c> {
    fn new(context: &'c Context) -> Self {
        context.counters.segd_connections.inc();
        Counted(context)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.counters.segd_connections.dec();
    }
}
