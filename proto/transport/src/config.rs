//! Settings files: TOML, with errors that name the file, the place and the remedy.

use serde::de::DeserializeOwned;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// A settings file that cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}; check the path given with --config and its permissions", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}:{line}:{column}: {detail}; correct this line and start again", .path.display())]
    Parse { path: PathBuf, line: usize, column: usize, detail: String },
}

/// Reads `path` as a `T`. Types should refuse unknown fields, so that a misspelt setting is told and not ignored.
pub fn load_toml<T: DeserializeOwned>(path: impl AsRef<Path>) -> Result<T, ConfigError> {
    let path = path.as_ref();
    let text =
        std::fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.to_path_buf(), source })?;
    toml::from_str(&text).map_err(|error| {
        let (line, column) = position(&text, error.span().map_or(0, |span| span.start));
        ConfigError::Parse { path: path.to_path_buf(), line, column, detail: error.message().trim_end().to_owned() }
    })
}

/// Line and column of a byte, both from 1; the column counts characters.
fn position(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quic::QuicConfig;

    #[test]
    fn errors_point_at_the_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("segd.toml");
        std::fs::write(&path, "# QUIC\nmax_mtu = 1452\ngso = 7\n").unwrap();
        let error = load_toml::<QuicConfig>(&path).unwrap_err().to_string();
        assert!(error.contains("segd.toml:3:7: "), "{error}");
        std::fs::write(&path, "max_mtu = 1452\nmax_mut = 1\n").unwrap();
        let error = load_toml::<QuicConfig>(&path).unwrap_err().to_string();
        assert!(error.contains("segd.toml:2:") && error.contains("max_mut"), "{error}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = load_toml::<QuicConfig>("no/such/file.toml").unwrap_err().to_string();
        assert!(error.contains("no/such/file.toml") && error.contains("--config"), "{error}");
    }
}
