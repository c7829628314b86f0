//! `segd.toml`.

use seam_transport::grpc::GrpcConfig;
use seam_transport::meta_client::MetaMember;
use seam_transport::quic::QuicConfig;
use seam_transport::tls::TlsPaths;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Settings of one node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Unique in the cluster, never reused with another disk.
    pub id: u32,
    /// `segd-<id>`, as in the certificate: peers know this node by it.
    pub name: String,
    /// QUIC, for routers and other nodes.
    pub listen: SocketAddr,
    /// What others dial, if it differs from `listen`.
    pub advertise: Option<String>,
    /// Failure domain: replicas of a segment go to different ones where there are enough.
    pub domain: String,
    pub data_dir: PathBuf,
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

/// Bounds of the shell; the node has its own.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Size of one journal file. Bytes.
    pub journal_file_bytes: u64,
    /// Inputs that may wait for the node. Beyond it readers wait: backpressure to the peers.
    pub input_queue: usize,
    /// Records kept in memory per open segment for tails. Bytes.
    pub cache_bytes: usize,
    /// One message to a tail. Bytes.
    pub tail_chunk_bytes: u32,
    /// A segment file is synced when so much of it is unsynced, bytes …
    pub sync_bytes: u64,
    /// … or when its oldest unsynced byte is so old. Milliseconds.
    pub sync_age_ms: u64,
    /// Pause between two syncs of segment files, so that writing behind makes no jitter of its own. Milliseconds.
    pub sync_pause_ms: u64,
    /// Heartbeats to metad. Milliseconds.
    pub heartbeat_ms: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            journal_file_bytes: 64 << 20,
            input_queue: 8192,
            cache_bytes: 8 << 20,
            tail_chunk_bytes: 256 << 10,
            sync_bytes: 16 << 20,
            sync_age_ms: 10_000,
            sync_pause_ms: 200,
            heartbeat_ms: 500,
        }
    }
}

impl Config {
    /// What other processes dial.
    pub fn advertised(&self) -> String {
        self.advertise.clone().unwrap_or_else(|| self.listen.to_string())
    }

    /// Checks what types cannot. The error names the setting and the remedy.
    pub fn validate(&self) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.name == format!("segd-{}", self.id),
            "name = {:?} does not fit id = {}; call it \"segd-{}\", as in its certificate",
            self.name,
            self.id,
            self.id
        );
        anyhow::ensure!(!self.metad.is_empty(), "no [[metad]] member is named; list all of them");
        Ok(())
    }
}
