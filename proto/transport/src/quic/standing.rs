//! A connection that is kept standing: dialed until the peer answers, and again whenever it breaks.

use super::{QuicConfig, connect};
use quinn::{Connection, Endpoint};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

const RETRY: Duration = Duration::from_millis(100);

/// Keeps one connection standing until dropped. Its congestion window stays warm: nothing waits for a handshake when it
/// is needed.
#[derive(Debug)]
pub struct Standing {
    addr: String,
    connection: watch::Receiver<Option<Connection>>,
    task: JoinHandle<()>,
}

impl Standing {
    /// Starts dialing `addr`, whose certificate must carry `name`. Failures are logged once until it answers.
    pub fn dial(endpoint: Endpoint, name: &str, addr: &str, config: &QuicConfig) -> Standing {
        let (sender, connection) = watch::channel(None);
        let (name, target) = (name.to_owned(), addr.to_owned());
        let timeout = config.handshake_timeout();
        let task = tokio::spawn(async move {
            let mut told = false;
            while !sender.is_closed() {
                match connect(&endpoint, &target, &name, timeout).await {
                    Ok(connection) => {
                        told = false;
                        sender.send_replace(Some(connection.clone()));
                        let why = connection.closed().await;
                        sender.send_replace(None);
                        tracing::info!(peer = %name, %why, "a connection broke; dialing again");
                    }
                    Err(error) => {
                        if !std::mem::replace(&mut told, true) {
                            tracing::warn!(peer = %name, %error, "cannot reach a peer yet; trying on");
                        }
                    }
                }
                tokio::time::sleep(RETRY).await;
            }
        });
        Standing { addr: addr.to_owned(), connection, task }
    }

    /// Where it dials.
    pub fn addr(&self) -> &str {
        &self.addr
    }

    /// The connection, if it stands now.
    pub fn now(&self) -> Option<Connection> {
        self.connection.borrow().clone()
    }

    /// Follows it: `None` while it is broken.
    pub fn follow(&self) -> watch::Receiver<Option<Connection>> {
        self.connection.clone()
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.task.abort();
    }
}
