//! `metad.toml`: settings of one member, with their defaults.

use metad_core::Timing;
use metad_log::raft::{Limits, Member, Settings, Timing as LogTiming};
use seam_transport::TlsPaths;
use seam_transport::grpc::GrpcConfig;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadConfig {
    /// This member; one of `members`. Never reused for a member with an empty disk.
    pub id: u64,
    /// The name in its certificate.
    pub name: String,
    /// gRPC.
    pub listen: SocketAddr,
    pub data_dir: PathBuf,
    /// `/metrics`, `/status`, `/healthz`. Not served where left out.
    pub metrics_listen: Option<SocketAddr>,
    pub tls: TlsPaths,
    /// All members, this one included; addresses as this one dials them.
    pub members: Vec<MemberConfig>,
    #[serde(default)]
    pub timing: TimingConfig,
    #[serde(default)]
    pub limits: LimitsConfig,
    #[serde(default)]
    pub grpc: GrpcConfig,
}

/// A member of the cluster.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberConfig {
    pub id: u64,
    pub name: String,
    /// `host:port`.
    pub addr: String,
}

/// Clocks, in milliseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TimingConfig {
    /// Between members. Must exceed the longest round trip among them: an idle leader loses its lease otherwise.
    pub heartbeat_ms: u64,
    pub election_min_ms: u64,
    pub election_max_ms: u64,
    /// See [`metad_core::Timing`].
    pub node_heartbeat_ms: u64,
    pub node_suspect_ms: u64,
    pub session_grace_ms: u64,
    pub ready_timeout_ms: u64,
    pub recovery_patience_ms: u64,
    pub sweep_ms: u64,
    pub propose_timeout_ms: u64,
}

impl Default for TimingConfig {
    fn default() -> Self {
        let (log, nodes) = (LogTiming::default(), Timing::default());
        TimingConfig {
            heartbeat_ms: log.heartbeat_ms,
            election_min_ms: log.election_min_ms,
            election_max_ms: log.election_max_ms,
            node_heartbeat_ms: nodes.node_heartbeat_ms,
            node_suspect_ms: nodes.node_suspect_ms,
            session_grace_ms: nodes.session_grace_ms,
            ready_timeout_ms: nodes.ready_timeout_ms,
            recovery_patience_ms: nodes.recovery_patience_ms,
            sweep_ms: nodes.sweep_ms,
            propose_timeout_ms: nodes.propose_timeout_ms,
        }
    }
}

/// Bounds, each with its default.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsConfig {
    /// A snapshot of the state is taken after this many bytes of log, or so many entries. Default 8 MiB, 10000.
    pub snapshot_log_bytes: u64,
    pub snapshot_log_entries: u64,
    /// Entries kept below the snapshot for members that are a little behind. Default 4 MiB, 2000.
    pub keep_log_bytes: u64,
    pub keep_log_entries: u64,
    /// Recent updates kept for watchers that reconnect; older ones get the whole state. Default 16384, 32 MiB.
    pub watch_updates: usize,
    pub watch_bytes: usize,
    /// Streams of watchers at once. Default 4096.
    pub watchers: usize,
    /// A watcher without news hears a sign of life this often. Milliseconds, default 1000.
    pub watch_idle_ms: u64,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        let log = Limits::default();
        LimitsConfig {
            snapshot_log_bytes: log.snapshot_log_bytes,
            snapshot_log_entries: log.snapshot_log_entries,
            keep_log_bytes: log.keep_log_bytes,
            keep_log_entries: log.keep_log_entries,
            watch_updates: 16_384,
            watch_bytes: 32 << 20,
            watchers: 4096,
            watch_idle_ms: 1000,
        }
    }
}

impl MetadConfig {
    /// The patience of the driver.
    pub fn node_timing(&self) -> Timing {
        let timing = &self.timing;
        Timing {
            node_heartbeat_ms: timing.node_heartbeat_ms,
            node_suspect_ms: timing.node_suspect_ms,
            session_grace_ms: timing.session_grace_ms,
            ready_timeout_ms: timing.ready_timeout_ms,
            recovery_patience_ms: timing.recovery_patience_ms,
            sweep_ms: timing.sweep_ms,
            propose_timeout_ms: timing.propose_timeout_ms,
            ..Timing::default()
        }
    }

    /// The settings of the log.
    pub fn log_settings(&self) -> Settings {
        let member =
            |member: &MemberConfig| Member { id: member.id, name: member.name.clone(), addr: member.addr.clone() };
        Settings {
            id: self.id,
            data_dir: self.data_dir.clone(),
            members: self.members.iter().map(member).collect(),
            timing: LogTiming {
                heartbeat_ms: self.timing.heartbeat_ms,
                election_min_ms: self.timing.election_min_ms,
                election_max_ms: self.timing.election_max_ms,
            },
            limits: Limits {
                snapshot_log_bytes: self.limits.snapshot_log_bytes,
                snapshot_log_entries: self.limits.snapshot_log_entries,
                keep_log_bytes: self.limits.keep_log_bytes,
                keep_log_entries: self.limits.keep_log_entries,
                ..Limits::default()
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        id = 1
        name = "metad-1"
        listen = "127.0.0.1:7101"
        data_dir = "data"
        metrics_listen = "127.0.0.1:7201"
        [tls]
        ca = "ca.crt"
        cert = "metad-1.crt"
        key = "metad-1.key"
        [[members]]
        id = 1
        name = "metad-1"
        addr = "127.0.0.1:7101"
        [timing]
        heartbeat_ms = 150
        election_min_ms = 700
        election_max_ms = 1400
    "#;

    #[test]
    fn the_documented_file_parses_and_is_valid() {
        let config: MetadConfig = toml::from_str(FILE).unwrap();
        assert_eq!(config.log_settings().validate(), Ok(()));
        assert_eq!(config.log_settings().timing.heartbeat_ms, 150);
        assert_eq!(config.node_timing(), Timing::default());
    }

    #[test]
    fn a_misspelt_setting_is_told() {
        let misspelt = FILE.replace("heartbeat_ms", "hartbeat_ms");
        let why = toml::from_str::<MetadConfig>(&misspelt).unwrap_err().to_string();
        assert!(why.contains("hartbeat_ms"), "{why}");
    }
}
