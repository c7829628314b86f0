//! `router.toml`.

use router_core::{ProducerSettings, TailSettings};
use seam_transport::grpc::GrpcConfig;
use seam_transport::meta_client::MetaMember;
use seam_transport::quic::QuicConfig;
use seam_transport::tls::TlsPaths;
use seam_wire::batch::{BatchLimits, MAX_BATCH_BYTES, MAX_UNCOMPRESSED_BYTES};
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;

/// Settings of one router.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// As in its certificate: clients dial it by this name.
    pub name: String,
    /// QUIC, for clients.
    pub listen: SocketAddr,
    pub metrics_listen: SocketAddr,
    pub tls: TlsPaths,
    pub metad: Vec<MetaMember>,
    #[serde(default)]
    pub quic: QuicConfig,
    #[serde(default)]
    pub grpc: GrpcConfig,
    #[serde(default)]
    pub limits: Limits,
}

/// Bounds and waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// The largest batch a client may append. Bytes, at most 8 MiB.
    pub max_batch_bytes: usize,
    /// What a batch's records may need once decompressed. Bytes.
    pub max_uncompressed_bytes: usize,
    /// Appends of one range taken and not answered yet, all clients of this router together.
    pub range_inflight_batches: usize,
    /// Their bytes.
    pub range_inflight_bytes: usize,
    /// How long an append waits for room in its range (its stream is not read on meanwhile) before it is refused as
    /// overloaded. Milliseconds.
    pub room_wait_ms: u64,
    /// An append that has no answer by then is given up. Milliseconds.
    pub append_deadline_ms: u64,
    /// Acks that may wait for one client; a client that lets more pile up loses its stream.
    pub client_acks: usize,
    /// How long a connection to a node is waited for by a stream that needs it. Milliseconds.
    pub node_wait_ms: u64,
    /// How long the ends of a range are asked for, and how long a tail with an end may lack a replica that serves it. Below
    /// the 4 s after which the SDK leaves a silent router, or its clients never hear why. Milliseconds.
    pub query_ms: u64,
    /// A replica that brings nothing for so long though its segment is sealed is left. Milliseconds.
    pub tail_stall_ms: u64,
    /// A tail that hears nothing of an open segment for so long asks whether records wait; less often while none do.
    /// Milliseconds.
    pub tail_silence_ms: u64,
    /// With no replica that serves a tail that follows for so long, the tail fails. Milliseconds.
    pub tail_patience_ms: u64,
    /// A range without clients gives up its streams after this. Milliseconds.
    pub range_idle_ms: u64,
    /// At a stop, appends in flight may still be answered for so long. Milliseconds.
    pub drain_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_batch_bytes: MAX_BATCH_BYTES,
            max_uncompressed_bytes: MAX_UNCOMPRESSED_BYTES,
            range_inflight_batches: 16_384,
            range_inflight_bytes: 64 << 20,
            room_wait_ms: 5_000,
            append_deadline_ms: 60_000,
            client_acks: 65_536,
            node_wait_ms: 2_000,
            query_ms: 3_000,
            tail_stall_ms: 1_000,
            tail_silence_ms: 3_000,
            tail_patience_ms: 60_000,
            range_idle_ms: 300_000,
            drain_ms: 2_000,
        }
    }
}

impl Limits {
    pub fn batch(&self) -> BatchLimits {
        BatchLimits {
            max_batch_bytes: self.max_batch_bytes,
            max_uncompressed_bytes: self.max_uncompressed_bytes,
            ..BatchLimits::default()
        }
    }

    pub fn producer(&self) -> ProducerSettings {
        ProducerSettings {
            max_inflight_batches: self.range_inflight_batches,
            max_inflight_bytes: self.range_inflight_bytes,
            ..ProducerSettings::default()
        }
    }

    /// A tail with an end is a question like any other: its client waits for an answer, not for better times.
    pub fn tail(&self, bounded: bool) -> TailSettings {
        let patience_ms = if bounded { self.query_ms.min(self.tail_patience_ms) } else { self.tail_patience_ms };
        TailSettings {
            stall_us: self.tail_stall_ms.saturating_mul(1_000),
            silence_us: self.tail_silence_ms.saturating_mul(1_000),
            patience_us: patience_ms.saturating_mul(1_000),
            ..TailSettings::default()
        }
    }

    pub fn node_wait(&self) -> Duration {
        Duration::from_millis(self.node_wait_ms)
    }

    pub fn query(&self) -> Duration {
        Duration::from_millis(self.query_ms)
    }
}

impl Config {
    /// What `toml` alone cannot check.
    pub fn validate(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.name.is_empty(), "name is empty; use the one in the certificate, like \"router-1\"");
        let limits = &self.limits;
        let batch = limits.max_batch_bytes;
        anyhow::ensure!(
            (1..=MAX_BATCH_BYTES).contains(&batch),
            "limits.max_batch_bytes = {batch} must lie in 1..={MAX_BATCH_BYTES}"
        );
        anyhow::ensure!(
            (1..=1 << 30).contains(&limits.range_inflight_bytes),
            "limits.range_inflight_bytes = {} must lie in 1..={}",
            limits.range_inflight_bytes,
            1 << 30
        );
        for (name, value) in [
            ("range_inflight_batches", limits.range_inflight_batches as u64),
            ("client_acks", limits.client_acks as u64),
            ("append_deadline_ms", limits.append_deadline_ms),
            ("node_wait_ms", limits.node_wait_ms),
            ("query_ms", limits.query_ms),
            ("tail_stall_ms", limits.tail_stall_ms),
            ("tail_silence_ms", limits.tail_silence_ms),
        ] {
            anyhow::ensure!((1..=1 << 40).contains(&value), "limits.{name} = {value} must lie in 1..=2^40");
        }
        Ok(())
    }
}
