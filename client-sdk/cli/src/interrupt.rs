//! Being asked to end: Ctrl-C or SIGTERM, for commands that have something to finish first.

use anyhow::{Context, Result};
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// A future that ends at the first SIGINT or SIGTERM from now on.
///
/// # Errors
/// The system refuses the handler.
pub fn interrupted() -> Result<impl Future<Output = ()>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    })
}
