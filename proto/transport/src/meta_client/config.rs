//! Settings of the client of the metadata cluster.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A metad member as a client dials it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetaMember {
    /// The name in its certificate, e.g. `metad-1`.
    pub name: String,
    /// `host:port`.
    pub addr: String,
}

/// Deadlines and bounds, in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MetaClientConfig {
    /// A call ends after this, whatever happened. Default 15000: a change of leader fits in.
    pub call_timeout_ms: u64,
    /// One attempt at one member ends after this; it must exceed a round trip and a commit. Default 2500.
    pub attempt_timeout_ms: u64,
    /// Pause before another member is asked; doubles up to `backoff_max_ms`. Default 25.
    pub backoff_ms: u64,
    /// Default 500.
    pub backoff_max_ms: u64,
    /// A refusal that may pass by itself is handed on after this. Default 3000.
    pub settle_ms: u64,
    /// A watched member that sends neither an update nor a sign of life for this long is left. Default 4000.
    pub stall_ms: u64,
    /// Updates that may wait for their receiver. Default 256.
    pub watch_queue: usize,
}

impl Default for MetaClientConfig {
    fn default() -> Self {
        MetaClientConfig {
            call_timeout_ms: 15_000,
            attempt_timeout_ms: 2_500,
            backoff_ms: 25,
            backoff_max_ms: 500,
            settle_ms: 3_000,
            stall_ms: 4_000,
            watch_queue: 256,
        }
    }
}

impl MetaClientConfig {
    pub(super) fn call_timeout(&self) -> Duration {
        Duration::from_millis(self.call_timeout_ms)
    }

    pub(super) fn attempt_timeout(&self) -> Duration {
        Duration::from_millis(self.attempt_timeout_ms)
    }

    pub(super) fn settle(&self) -> Duration {
        Duration::from_millis(self.settle_ms)
    }

    pub(super) fn stall(&self) -> Duration {
        Duration::from_millis(self.stall_ms)
    }

    /// The pause before try number `tries` (from 1).
    pub(super) fn backoff(&self, tries: u32) -> Duration {
        let doubled = self.backoff_ms.saturating_mul(1 << tries.saturating_sub(1).min(20));
        Duration::from_millis(doubled.min(self.backoff_max_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_bound() {
        let config = MetaClientConfig { backoff_ms: 20, backoff_max_ms: 100, ..MetaClientConfig::default() };
        let pauses: Vec<u128> = (1..=5).map(|tries| config.backoff(tries).as_millis()).collect();
        assert_eq!(pauses, [20, 40, 80, 100, 100]);
    }
}
