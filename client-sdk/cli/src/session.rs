//! From the settings file to a client of the SDK, with an error that says what to do where there is no file.

use crate::args::{DEFAULT_CONFIG, Global};
use anyhow::{Result, bail};
use seamlog::{Client, ClientConfig};
use std::path::Path;

/// # Errors
/// No settings file, a bad one, or certificates that cannot be read. Dials nobody yet.
pub fn open(global: &Global) -> Result<Client> {
    if !global.config.exists() {
        let start = if global.config == Path::new(DEFAULT_CONFIG) {
            "start a local cluster with `seam dev up`, or name a settings file with --config or SEAM_CONFIG"
        } else {
            "check --config and SEAM_CONFIG; `seam dev up` writes one for a local cluster"
        };
        bail!("there is no {}: {start}", global.config.display());
    }
    Ok(Client::connect(ClientConfig::load(&global.config)?)?)
}
