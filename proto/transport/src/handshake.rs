//! Failed handshakes: counted always, logged once per peer address and minute, so that a broken peer that dials in a
//! loop neither fills the log nor goes unseen.

use crate::metrics::Registry;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LOG_EVERY: Duration = Duration::from_secs(60);
/// Addresses remembered at a time; beyond it the memory starts anew.
const MAX_PEERS: usize = 1024;

/// The failures of one listener.
#[derive(Debug, Default)]
pub struct HandshakeFailures {
    count: AtomicU64,
    last_logged: Mutex<HashMap<IpAddr, Instant>>,
}

impl HandshakeFailures {
    /// Failures since the listener started.
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Shows the count as `handshake_failures_total`. Once per registry.
    pub fn show(self: Arc<Self>, registry: &Registry) {
        let shown = registry.counter("handshake_failures", "Peers turned away: no certificate, or none of our CA");
        registry.on_scrape(move || {
            shown.inc_by(self.count().saturating_sub(shown.get()));
        });
    }

    pub(crate) fn record(&self, listener: &'static str, peer: IpAddr, error: &dyn Display) {
        self.count.fetch_add(1, Ordering::Relaxed);
        if self.should_log(peer, Instant::now()) {
            tracing::warn!(
                listener,
                %peer,
                %error,
                "handshake failed; check that the peer's certificate is in date and signed by our CA"
            );
        }
    }

    fn should_log(&self, peer: IpAddr, now: Instant) -> bool {
        let mut last = self.last_logged.lock();
        if last.get(&peer).is_some_and(|at| now.duration_since(*at) < LOG_EVERY) {
            return false;
        }
        if last.len() >= MAX_PEERS {
            last.clear();
        }
        last.insert(peer, now);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn should_log_once_per_peer_and_minute() {
        let failures = HandshakeFailures::default();
        let (a, b): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap());
        let start = Instant::now();
        assert!(failures.should_log(a, start));
        assert!(!failures.should_log(a, start + LOG_EVERY / 2));
        assert!(failures.should_log(b, start + LOG_EVERY / 2));
        assert!(failures.should_log(a, start + LOG_EVERY));
    }
}
