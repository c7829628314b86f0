//! A lane: one QUIC connection to a router, made when needed, watched, and made to another router when it breaks.
//!
//! A client has one lane for producing and queries, and each consumer has its own: flow control is per connection, so a
//! consumer that does not read holds up nobody else.

use crate::config::{ClientConfig, Peer};
use crate::error::Error;
use parking_lot::Mutex;
use quinn::{Connection, ConnectionError, Endpoint, RecvStream, SendStream};
use seam_transport::TlsMaterial;
use seam_transport::quic::{self, ConnectError, QuicConfig, code};
use seam_transport::stream::{self, StreamError};
use seam_wire::error::{ErrorCode, WireError};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a connection is looked at.
const WATCH_EVERY: Duration = Duration::from_millis(250);
/// Lanes are few and routers many: a quiet one is pinged at least this often, so that a dead router is noticed soon. A router
/// that was killed says nothing.
const KEEP_ALIVE_MAX_MS: u64 = 500;
/// A connection is given up when nothing at all has come for so long beyond the keep-alive interval.
const SILENCE_BEYOND_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// A connection to a router.
#[derive(Clone)]
pub(crate) struct Live {
    pub connection: Connection,
    pub router: Arc<str>,
    /// Counts the connections of the lane.
    pub generation: u64,
    /// The connection is watched as long as somebody has it.
    in_use: Arc<()>,
}

struct State {
    live: Option<Live>,
    /// The router to dial next.
    next: usize,
    generation: u64,
}

pub(crate) struct Lane {
    routers: Vec<Peer>,
    endpoint: Endpoint,
    quic: QuicConfig,
    connect_timeout: Duration,
    state: Mutex<State>,
    /// One dials, the others wait for its connection.
    dialing: tokio::sync::Mutex<()>,
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("routers", &self.routers).finish_non_exhaustive()
    }
}

impl Lane {
    /// Dials nobody yet. Must be called inside a tokio runtime.
    pub fn new(config: &ClientConfig, quic: QuicConfig, tls: &TlsMaterial) -> Result<Lane, Error> {
        let quic = QuicConfig { keep_alive_ms: quic.keep_alive_ms.min(KEEP_ALIVE_MAX_MS), ..quic };
        let endpoint = quic::client_endpoint(tls, &quic)?;
        let routers = config.routers.clone();
        // Clients spread over the routers.
        let next = (rand::random::<u64>() % routers.len() as u64) as usize;
        Ok(Lane {
            routers,
            endpoint,
            quic,
            connect_timeout: Duration::from_millis(config.connect_timeout_ms),
            state: Mutex::new(State { live: None, next, generation: 0 }),
            dialing: tokio::sync::Mutex::new(()),
        })
    }

    /// The connection, unless it is the one of generation `not`; then, or if it is dead, another one.
    pub async fn get(&self, not: Option<u64>) -> Result<Live, WireError> {
        if let Some(live) = self.usable(not) {
            return Ok(live);
        }
        let _turn = self.dialing.lock().await;
        match self.usable(not) {
            Some(live) => Ok(live),
            None => self.dial().await,
        }
    }

    fn usable(&self, not: Option<u64>) -> Option<Live> {
        let live = self.state.lock().live.clone()?;
        (Some(live.generation) != not && live.connection.close_reason().is_none()).then_some(live)
    }

    /// Each router in turn, the last one last.
    async fn dial(&self) -> Result<Live, WireError> {
        let first = self.state.lock().next;
        let mut failures = Vec::new();
        for index in (0..self.routers.len()).map(|turn| (first + turn) % self.routers.len()) {
            let Peer { name, addr } = &self.routers[index];
            match quic::connect(&self.endpoint, addr, name, self.connect_timeout).await {
                Ok(connection) => return Ok(self.connected(index, connection)),
                Err(error) => {
                    tracing::debug!(router = %name, %error, "cannot reach a router");
                    failures.push((name, error));
                }
            }
        }
        let not_trusted = failures.iter().all(|(_, error)| is_tls_failure(error));
        let told: Vec<String> = failures.iter().map(|(name, error)| format!("{name}: {error}")).collect();
        let detail = format!("no router can be reached: {}", told.join("; "));
        Err(if not_trusted {
            WireError::refused(ErrorCode::NotAuthorized, detail)
        } else {
            WireError::retry(ErrorCode::Unavailable, detail)
        })
    }

    fn connected(&self, index: usize, connection: Connection) -> Live {
        let mut state = self.state.lock();
        state.generation += 1;
        state.next = (index + 1) % self.routers.len();
        let router: Arc<str> = self.routers[index].name.as_str().into();
        let live = Live { connection, router, generation: state.generation, in_use: Arc::default() };
        state.live = Some(live.clone());
        let silence = Duration::from_millis(self.quic.keep_alive_ms) + SILENCE_BEYOND_KEEP_ALIVE;
        let in_use = Arc::downgrade(&live.in_use);
        tokio::spawn(watch(live.connection.clone(), in_use, Arc::clone(&live.router), silence));
        live
    }

    /// A stream on the connection [`Lane::get`] gives.
    pub async fn open(&self, not: Option<u64>) -> Result<(SendStream, RecvStream, Live), WireError> {
        let live = self.get(not).await?;
        let (send, recv) =
            stream::open_bi(&live.connection, self.quic.open_timeout()).await.map_err(|error| lost(&live, &error))?;
        Ok((send, recv, live))
    }
}

/// Closes a connection that is silent although keep-alives are due: a router that hangs is left for another long before
/// the idle timeout.
async fn watch(connection: Connection, in_use: Weak<()>, router: Arc<str>, silence: Duration) {
    let (mut last, mut since) = (0, tokio::time::Instant::now());
    loop {
        tokio::time::sleep(WATCH_EVERY).await;
        if in_use.strong_count() == 0 || connection.close_reason().is_some() {
            return;
        }
        let received = connection.stats().udp_rx.datagrams;
        if received != last {
            (last, since) = (received, tokio::time::Instant::now());
        } else if since.elapsed() >= silence {
            tracing::warn!(%router, silence_ms = silence.as_millis(), "no sign of life from the router; leaving it");
            quic::close(&connection, code::CANCELLED, "no sign of life");
            return;
        }
    }
}

/// What a broken stream means for a request that was not sent on it, or may be sent again.
pub(crate) fn lost(live: &Live, error: &StreamError) -> WireError {
    let detail = format!("{}: {error}", live.router);
    match error {
        StreamError::Connection(lost) if turned_away(lost) => {
            let detail =
                format!("{detail}; check that the certificate is signed by the cluster's CA and of role client");
            WireError::refused(ErrorCode::NotAuthorized, detail)
        }
        StreamError::Connection(_)
        | StreamError::Frame(_)
        | StreamError::Truncated { .. }
        | StreamError::Read(_)
        | StreamError::Write(_)
        | StreamError::OpenTimeout { .. }
        | StreamError::Finished => WireError::retry(ErrorCode::Unavailable, detail),
    }
}

/// Whether the router will not have this client.
fn turned_away(error: &ConnectionError) -> bool {
    match error {
        ConnectionError::ApplicationClosed(close) => close.error_code == code::NOT_AUTHORIZED,
        ConnectionError::ConnectionClosed(close) => is_tls_alert(close.error_code),
        ConnectionError::TransportError(error) => is_tls_alert(error.code),
        ConnectionError::VersionMismatch
        | ConnectionError::Reset
        | ConnectionError::TimedOut
        | ConnectionError::LocallyClosed
        | ConnectionError::CidsExhausted => false,
    }
}

/// TLS alerts travel as transport error codes 0x100 to 0x1ff (RFC 9001, 4.8).
fn is_tls_alert(code: quinn::TransportErrorCode) -> bool {
    (0x100..0x200).contains(&u64::from(code))
}

fn is_tls_failure(error: &ConnectError) -> bool {
    matches!(error, ConnectError::Handshake { source, .. } if turned_away(source))
}
