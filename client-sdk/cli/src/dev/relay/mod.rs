//! A relay in user space that makes metad look far away: every link to a metad member, from other members and from
//! everybody else, gets the round trip that a file holds. The file is read again and again, so the distance can change
//! while all runs. It delays bytes and does nothing else to them: no loss, no reordering, no limit of rate.

mod link;
mod pipe;

pub use link::Rtt;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// How often the file with the round trip is read.
const REREAD: Duration = Duration::from_millis(50);
/// Longest round trip taken; beyond it every election fails and a typing mistake is the likely cause.
pub const RTT_MS_MAX: u64 = 10_000;

/// The relay's own configuration file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayConfig {
    pub rtt_file: PathBuf,
    #[serde(rename = "link")]
    pub links: Vec<LinkConfig>,
}

/// What connects to `listen` reaches `target`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkConfig {
    pub name: String,
    pub listen: SocketAddr,
    pub target: SocketAddr,
}

/// The process behind `seam dev-relay`: serves every link until SIGTERM or SIGINT.
///
/// # Errors
/// A bad configuration, or an address that cannot be listened on.
pub async fn run(config: &Path) -> Result<()> {
    let text = fs::read_to_string(config).with_context(|| format!("cannot read {}", config.display()))?;
    let config: RelayConfig =
        toml::from_str(&text).with_context(|| format!("cannot understand {}", config.display()))?;
    let rtt = Rtt::default();
    rtt.set(read_rtt(&config.rtt_file)?);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    for link in &config.links {
        let listener = TcpListener::bind(link.listen)
            .await
            .with_context(|| format!("cannot listen on {} for {}: another process has it", link.listen, link.name))?;
        tracing::info!(name = %link.name, listen = %link.listen, target = %link.target, "relaying");
        tokio::spawn(link::serve(listener, link.target, rtt.clone()));
    }
    tokio::select! {
        () = follow_file(&config.rtt_file, &rtt) => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

/// Keeps `rtt` at what the file says. A file that cannot be read leaves it as it is.
async fn follow_file(path: &Path, rtt: &Rtt) {
    let mut ticks = tokio::time::interval(REREAD);
    let mut complained = false;
    loop {
        ticks.tick().await;
        match read_rtt(path) {
            Ok(now) => {
                if now != rtt.get() {
                    tracing::info!(rtt_ms = now.as_millis(), "round trip changed");
                    rtt.set(now);
                }
                complained = false;
            }
            Err(error) => {
                if !complained {
                    tracing::warn!("{error:#}; keeping {:?}", rtt.get());
                }
                complained = true;
            }
        }
    }
}

/// The round trip a file holds: milliseconds, a whole number or a decimal fraction.
///
/// # Errors
/// No such file, no number, or one out of bounds.
pub fn read_rtt(path: &Path) -> Result<Duration> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_rtt(&text).with_context(|| format!("in {}", path.display()))
}

fn parse_rtt(text: &str) -> Result<Duration> {
    let ms: f64 = text.trim().parse().with_context(|| format!("{:?} is no number of milliseconds", text.trim()))?;
    if !(0.0..=RTT_MS_MAX as f64).contains(&ms) {
        bail!("a round trip must be 0 to {RTT_MS_MAX} ms, not {ms}");
    }
    Ok(Duration::from_secs_f64(ms / 1e3))
}

#[cfg(test)]
mod tests;
