//! Being asked to end: Ctrl-C or SIGTERM, for commands that have something to finish first.

use anyhow::{Context, Result};
use std::fmt;
use std::future::Future;
use tokio::signal::unix::{SignalKind, signal};

/// A command was asked to end before its work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interrupted {
    signal: u8,
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

impl Interrupted {
    /// As shells tell the end by a signal: 130 for Ctrl-C.
    #[must_use]
    pub fn exit_status(self) -> u8 {
        128 + self.signal
    }

    /// Whether a command ended for this reason.
    #[must_use]
    pub fn found_in(error: &anyhow::Error) -> Option<Self> {
        error.downcast_ref::<Interrupted>().copied()
    }
}

/// A future that ends at the first SIGINT or SIGTERM from now on.
///
/// # Errors
/// The system refuses the handler.
pub fn interrupted() -> Result<impl Future<Output = Interrupted>> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot watch for Ctrl-C")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot watch for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => Interrupted { signal: 2 },
            _ = terminate.recv() => Interrupted { signal: 15 },
        }
    })
}
