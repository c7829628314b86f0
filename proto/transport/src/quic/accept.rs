//! Accepting: handshakes run side by side with a deadline, and only verified peers come out.

use super::{code, peer_identity};
use crate::handshake::HandshakeFailures;
use crate::identity::Identity;
use quinn::{Connection, Endpoint, Incoming};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinHandle;

/// Handshakes in progress at a time; more wait in the endpoint, which refuses beyond its own limit.
const MAX_HANDSHAKES: usize = 256;
/// Verified connections not yet taken.
const BACKLOG: usize = 64;

/// A connection and who is at its other end.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub connection: Connection,
    pub identity: Identity,
}

/// Accepts on an endpoint until dropped. Dropping it leaves the endpoint and its connections alone.
#[derive(Debug)]
pub struct Acceptor {
    accepted: mpsc::Receiver<Accepted>,
    failures: Arc<HandshakeFailures>,
    task: JoinHandle<()>,
}

impl Acceptor {
    /// Starts accepting; a handshake that takes longer than `handshake_timeout` fails.
    pub fn new(endpoint: Endpoint, handshake_timeout: Duration) -> Acceptor {
        let (sender, accepted) = mpsc::channel(BACKLOG);
        let failures = Arc::new(HandshakeFailures::default());
        let task = tokio::spawn(accept_loop(endpoint, sender, Arc::clone(&failures), handshake_timeout));
        Acceptor { accepted, failures, task }
    }

    /// The next verified connection; `None` when the endpoint is closed. Cancel safe.
    pub async fn accept(&mut self) -> Option<Accepted> {
        self.accepted.recv().await
    }

    /// Handshakes that failed, for a metric.
    pub fn failures(&self) -> Arc<HandshakeFailures> {
        Arc::clone(&self.failures)
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept_loop(
    endpoint: Endpoint,
    sender: mpsc::Sender<Accepted>,
    failures: Arc<HandshakeFailures>,
    handshake_timeout: Duration,
) {
    let slots = Arc::new(Semaphore::new(MAX_HANDSHAKES));
    loop {
        let slot = Arc::clone(&slots).acquire_owned().await.expect("the semaphore is never closed");
        let Some(incoming) = endpoint.accept().await else { return };
        let (sender, failures) = (sender.clone(), Arc::clone(&failures));
        tokio::spawn(async move {
            let peer = incoming.remote_address().ip();
            match handshake(incoming, handshake_timeout).await {
                // The receiver is gone only when nobody accepts any more: the connection closes with it.
                Ok(accepted) => drop(sender.send(accepted).await),
                Err(error) => failures.record("quic", peer, &error),
            }
            drop(slot);
        });
    }
}

async fn handshake(incoming: Incoming, timeout: Duration) -> Result<Accepted, Box<dyn Display + Send + Sync>> {
    let connection = match tokio::time::timeout(timeout, incoming).await {
        Ok(Ok(connection)) => connection,
        Ok(Err(error)) => return Err(Box::new(error)),
        Err(_) => return Err(Box::new("the handshake timed out")),
    };
    match peer_identity(&connection) {
        Ok(identity) => Ok(Accepted { connection, identity }),
        Err(error) => {
            super::close(&connection, code::NOT_AUTHORIZED, &error.to_string());
            Err(Box::new(error))
        }
    }
}
