//! QUIC settings, their defaults and bounds, and how they become quinn's.

use quinn::{EndpointConfig, IdleTimeout, MtuDiscoveryConfig, TransportConfig, VarInt};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
/// The smallest packet QUIC allows, and where every connection begins.
const MIN_MTU: u16 = 1200;
/// quinn hands the kernel up to ten packets in one call, and one call carries less than 64 KiB: larger packets fail,
/// look like a black hole, and throw the connection back to 1200 bytes.
const MAX_MTU: u16 = 6500;

/// Settings of an endpoint. Both ends should agree on `max_mtu`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct QuicConfig {
    /// Largest UDP payload that discovery may try, 1200 to 6500 bytes. 1452 suits Ethernet; 6500 is more than twice as
    /// fast over loopback and jumbo frames.
    pub max_mtu: u16,
    /// Segmentation offload. Off costs more than half of the throughput: only for network cards that get it wrong.
    pub gso: bool,
    /// Bytes a peer may send on one stream ahead of its reader.
    pub stream_window_bytes: u64,
    /// Bytes a peer may send on one connection ahead of the readers; at least `stream_window_bytes`.
    pub connection_window_bytes: u64,
    /// Bytes we hold for one connection until the peer has them.
    pub send_window_bytes: u64,
    /// Bidirectional streams a peer may have open. At the limit its open waits.
    pub max_bidi_streams: u32,
    /// Unidirectional streams a peer may have open.
    pub max_uni_streams: u32,
    /// A quiet connection is pinged this often, and is lost after `idle_timeout_ms` without a sign.
    pub keep_alive_ms: u64,
    pub idle_timeout_ms: u64,
    /// How long opening a stream may wait for the peer's limit.
    pub open_timeout_ms: u64,
    /// Deadline of an incoming handshake.
    pub handshake_timeout_ms: u64,
    /// Kernel buffers of the UDP socket, each way. Small ones lose packets in bursts.
    pub socket_buffer_bytes: usize,
}

impl Default for QuicConfig {
    fn default() -> Self {
        QuicConfig {
            max_mtu: 1452,
            gso: true,
            stream_window_bytes: 8 * MIB,
            connection_window_bytes: 64 * MIB,
            send_window_bytes: 64 * MIB,
            max_bidi_streams: 4096,
            max_uni_streams: 4096,
            keep_alive_ms: 3_000,
            idle_timeout_ms: 15_000,
            open_timeout_ms: 5_000,
            handshake_timeout_ms: 10_000,
            socket_buffer_bytes: 4 << 20,
        }
    }
}

/// A setting out of its bounds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuicConfigError {
    #[error("quic.max_mtu = {0} must lie in 1200..=6500; use 1452 on Ethernet, 6500 on loopback or jumbo frames")]
    MaxMtu(u16),
    #[error("quic.stream_window_bytes = {stream} must lie in 65536..={connection} (quic.connection_window_bytes)")]
    StreamWindow { stream: u64, connection: u64 },
    #[error("quic.{0} is too large; keep it below 2^62")]
    TooLarge(&'static str),
    #[error(
        "quic.keep_alive_ms = {keep_alive} must be above 0 and at most half of quic.idle_timeout_ms = {idle}, or a quiet connection dies"
    )]
    KeepAlive { keep_alive: u64, idle: u64 },
    #[error("quic.{0} must be above 0")]
    Zero(&'static str),
}

impl QuicConfig {
    /// How long opening a stream may wait.
    pub fn open_timeout(&self) -> Duration {
        Duration::from_millis(self.open_timeout_ms)
    }

    /// Deadline of an incoming handshake.
    pub fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }

    /// Checks every bound.
    pub fn validate(&self) -> Result<(), QuicConfigError> {
        if !(MIN_MTU..=MAX_MTU).contains(&self.max_mtu) {
            return Err(QuicConfigError::MaxMtu(self.max_mtu));
        }
        if !(64 * KIB..=self.connection_window_bytes).contains(&self.stream_window_bytes) {
            let (stream, connection) = (self.stream_window_bytes, self.connection_window_bytes);
            return Err(QuicConfigError::StreamWindow { stream, connection });
        }
        if self.keep_alive_ms == 0 || self.keep_alive_ms > self.idle_timeout_ms / 2 {
            let (keep_alive, idle) = (self.keep_alive_ms, self.idle_timeout_ms);
            return Err(QuicConfigError::KeepAlive { keep_alive, idle });
        }
        let positive = [
            ("send_window_bytes", self.send_window_bytes),
            ("max_bidi_streams", u64::from(self.max_bidi_streams)),
            ("max_uni_streams", u64::from(self.max_uni_streams)),
            ("open_timeout_ms", self.open_timeout_ms),
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("socket_buffer_bytes", self.socket_buffer_bytes as u64),
        ];
        match positive.into_iter().find(|(_, value)| *value == 0) {
            Some((name, _)) => Err(QuicConfigError::Zero(name)),
            None => Ok(()),
        }
    }

    pub(super) fn transport(&self) -> Result<Arc<TransportConfig>, QuicConfigError> {
        self.validate()?;
        let var = |name, value| VarInt::from_u64(value).map_err(|_| QuicConfigError::TooLarge(name));
        let idle = IdleTimeout::try_from(Duration::from_millis(self.idle_timeout_ms))
            .map_err(|_| QuicConfigError::TooLarge("idle_timeout_ms"))?;
        let mut transport = TransportConfig::default();
        transport
            .stream_receive_window(var("stream_window_bytes", self.stream_window_bytes)?)
            .receive_window(var("connection_window_bytes", self.connection_window_bytes)?)
            .send_window(self.send_window_bytes)
            .max_concurrent_bidi_streams(self.max_bidi_streams.into())
            .max_concurrent_uni_streams(self.max_uni_streams.into())
            .keep_alive_interval(Some(Duration::from_millis(self.keep_alive_ms)))
            .max_idle_timeout(Some(idle))
            .enable_segmentation_offload(self.gso)
            // Everything travels on streams.
            .datagram_receive_buffer_size(None);
        // The first packets stay at the minimum; discovery works up to the bound and never past it.
        let discovery = (self.max_mtu > MIN_MTU).then(|| {
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(self.max_mtu);
            discovery
        });
        transport.mtu_discovery_config(discovery);
        Ok(Arc::new(transport))
    }

    /// The receiving half of the same bound: a peer probes no further than we are willing to take.
    pub(super) fn endpoint(&self) -> Result<EndpointConfig, QuicConfigError> {
        let mut config = EndpointConfig::default();
        config.max_udp_payload_size(self.max_mtu.max(1472)).map_err(|_| QuicConfigError::MaxMtu(self.max_mtu))?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validate_names_the_setting_out_of_bounds() {
        QuicConfig::default().validate().unwrap();
        let bad = [
            (QuicConfig { max_mtu: 8900, ..QuicConfig::default() }, "max_mtu"),
            (QuicConfig { max_mtu: 1000, ..QuicConfig::default() }, "max_mtu"),
            (QuicConfig { stream_window_bytes: 65 * MIB, ..QuicConfig::default() }, "stream_window_bytes"),
            (QuicConfig { keep_alive_ms: 15_000, ..QuicConfig::default() }, "keep_alive_ms"),
            (QuicConfig { max_uni_streams: 0, ..QuicConfig::default() }, "max_uni_streams"),
        ];
        for (config, name) in bad {
            let error = config.validate().unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
        }
    }

    #[test]
    fn a_file_may_set_a_few_and_misspell_none() {
        let config: QuicConfig = toml::from_str("max_mtu = 6500").unwrap();
        assert_eq!(config, QuicConfig { max_mtu: 6500, ..QuicConfig::default() });
        assert!(toml::from_str::<QuicConfig>("max_mut = 6500").is_err());
    }
}
