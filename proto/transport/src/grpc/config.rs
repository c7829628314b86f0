//! gRPC settings and their defaults.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Bound of one decoded message. Bytes.
pub const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// Settings of both ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GrpcConfig {
    /// Deadline of TCP connect and TLS handshake together, on both sides.
    pub connect_timeout_ms: u64,
    /// A connection is pinged this often, idle or not, and given up `keep_alive_timeout_ms` after a lost ping.
    pub keep_alive_ms: u64,
    pub keep_alive_timeout_ms: u64,
    /// Flow control windows of HTTP/2. Bytes.
    pub stream_window_bytes: u32,
    pub connection_window_bytes: u32,
    /// How long a server that is going down lets running calls end before it cuts them.
    pub drain_ms: u64,
}

impl Default for GrpcConfig {
    fn default() -> Self {
        GrpcConfig {
            connect_timeout_ms: 3_000,
            keep_alive_ms: 3_000,
            keep_alive_timeout_ms: 5_000,
            stream_window_bytes: 1 << 20,
            connection_window_bytes: 4 << 20,
            drain_ms: 1_000,
        }
    }
}

impl GrpcConfig {
    pub(super) fn connect_timeout(&self) -> Duration {
        Duration::from_millis(self.connect_timeout_ms)
    }

    pub(super) fn keep_alive(&self) -> Duration {
        Duration::from_millis(self.keep_alive_ms)
    }

    pub(super) fn keep_alive_timeout(&self) -> Duration {
        Duration::from_millis(self.keep_alive_timeout_ms)
    }

    pub(super) fn drain(&self) -> Duration {
        Duration::from_millis(self.drain_ms)
    }
}
