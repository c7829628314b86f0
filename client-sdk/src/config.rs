//! Where a client finds its cluster and how it proves who it is.

use crate::error::Error;
use seam_transport::TlsPaths;
use seam_transport::config::load_toml;
use seam_transport::quic::QuicConfig;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A process to dial.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// As in its certificate: `router-1`, `metad-2`.
    pub name: String,
    /// `host:port`.
    pub addr: String,
}

/// What a local cluster tells the programs that test it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DevConfig {
    /// The directory of the local cluster.
    #[serde(default)]
    pub dir: Option<PathBuf>,
    /// A file with the round trip between metad members in milliseconds; the relay reads it again when it changes.
    #[serde(default)]
    pub metad_rtt_file: Option<PathBuf>,
}

/// Settings of a [`crate::Client`], as `client.toml` holds them.
///
/// ```toml
/// routers = [{ name = "router-1", addr = "127.0.0.1:7201" }]
///
/// [[metad]]
/// name = "metad-1"
/// addr = "127.0.0.1:7101"
///
/// [tls]
/// ca = "ca.crt"
/// cert = "client.crt"
/// key = "client.key"
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientConfig {
    /// Routers, tried in turn from a random one on. Administration does without.
    #[serde(default)]
    pub routers: Vec<Peer>,
    /// All metad members. At least one.
    #[serde(default)]
    pub metad: Vec<Peer>,
    /// A certificate of role `client`, and the CA both sides trust.
    pub tls: TlsPaths,
    #[serde(default)]
    pub quic: QuicConfig,
    /// How long dialing one router may take before the next is tried. Milliseconds.
    #[serde(default = "default_connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// Deadline of each metadata call and query. Milliseconds.
    #[serde(default = "default_request_timeout_ms")]
    pub request_timeout_ms: u64,
    #[serde(default)]
    pub dev: Option<DevConfig>,
}

fn default_connect_timeout_ms() -> u64 {
    2_000
}

fn default_request_timeout_ms() -> u64 {
    15_000
}

impl ClientConfig {
    /// Settings with every default.
    pub fn new(routers: Vec<Peer>, metad: Vec<Peer>, tls: TlsPaths) -> Self {
        ClientConfig {
            routers,
            metad,
            tls,
            quic: QuicConfig::default(),
            connect_timeout_ms: default_connect_timeout_ms(),
            request_timeout_ms: default_request_timeout_ms(),
            dev: None,
        }
    }

    /// Reads a TOML file. Relative paths in it are taken from the file's own directory.
    /// Errors name the file, the line and the remedy.
    pub fn load(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let mut config: ClientConfig = load_toml(path)?;
        let base = path.parent().unwrap_or(Path::new(""));
        let tls = &mut config.tls;
        for file in [&mut tls.ca, &mut tls.cert, &mut tls.key] {
            resolve(base, file);
        }
        if let Some(dev) = &mut config.dev {
            dev.dir.iter_mut().chain(&mut dev.metad_rtt_file).for_each(|file| resolve(base, file));
        }
        Ok(config)
    }

    /// Checks what `TlsMaterial` and the endpoints do not.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        if self.metad.is_empty() {
            return Err(Error::NoPeers("metad member"));
        }
        for (name, value) in
            [("connect_timeout_ms", self.connect_timeout_ms), ("request_timeout_ms", self.request_timeout_ms)]
        {
            if value == 0 {
                return Err(Error::Setting(format!("{name} must be above 0")));
            }
        }
        Ok(())
    }
}

fn resolve(base: &Path, file: &mut PathBuf) {
    if file.is_relative() {
        *file = base.join(&*file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gives_a_client_and_its_paths_start_at_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.toml");
        let text = r#"
            routers = [{ name = "router-1", addr = "127.0.0.1:1" }]
            [[metad]]
            name = "metad-1"
            addr = "127.0.0.1:2"
            [tls]
            ca = "pki/ca.crt"
            cert = "pki/client.crt"
            key = "/abs/client.key"
            [quic]
            max_mtu = 6500
            [dev]
            dir = "."
            metad_rtt_file = "rtt"
        "#;
        std::fs::write(&path, text).unwrap();
        let config = ClientConfig::load(&path).unwrap();
        assert_eq!(config.routers[0].name, "router-1");
        assert_eq!(config.metad[0].addr, "127.0.0.1:2");
        assert_eq!(config.tls.ca, dir.path().join("pki/ca.crt"));
        assert_eq!(config.tls.key, Path::new("/abs/client.key"));
        assert_eq!(config.quic.max_mtu, 6500);
        assert_eq!(config.dev.unwrap().metad_rtt_file, Some(dir.path().join("rtt")));
    }

    #[test]
    fn a_bad_file_is_named_with_its_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.toml");
        std::fs::write(&path, "routers = []\nrouter = 1\n").unwrap();
        let error = ClientConfig::load(&path).unwrap_err().to_string();
        assert!(error.contains("client.toml:2"), "{error}");
        let error = ClientConfig::load(dir.path().join("absent.toml")).unwrap_err().to_string();
        assert!(error.contains("absent.toml"), "{error}");
    }
}
