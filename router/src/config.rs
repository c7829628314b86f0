//! `router.toml`.

use seam_transport::grpc::GrpcConfig;
use seam_transport::meta_client::MetaMember;
use seam_transport::quic::QuicConfig;
use seam_transport::tls::TlsPaths;
use serde::Deserialize;
use std::net::SocketAddr;

/// Settings of one router.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// As in its certificate.
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

/// Bounds of the shell; the core has its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Largest batch a client may send. Bytes.
    pub max_batch_bytes: u32,
    /// Largest batch after decompression. Bytes.
    pub max_uncompressed_bytes: usize,
    /// Appends of one range that may wait for its task. Beyond it client streams wait.
    pub range_queue: usize,
    /// An append that no segment answered for so long is given up. Milliseconds.
    pub append_deadline_ms: u64,
    /// A query (offsets) that found no answer for so long fails. Milliseconds.
    pub query_deadline_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_batch_bytes: 4 << 20,
            max_uncompressed_bytes: 32 << 20,
            range_queue: 1024,
            append_deadline_ms: 60_000,
            query_deadline_ms: 5_000,
        }
    }
}

impl Config {
    /// Checks what types cannot. The error names the setting and the remedy.
    pub fn validate(&self) -> anyhow::Result<()> {
        anyhow::ensure!(!self.metad.is_empty(), "no [[metad]] member is named; list all of them");
        anyhow::ensure!(
            (self.limits.max_batch_bytes as usize) <= seam_wire::batch::MAX_BATCH_BYTES,
            "limits.max_batch_bytes is above {}; lower it",
            seam_wire::batch::MAX_BATCH_BYTES
        );
        Ok(())
    }
}
