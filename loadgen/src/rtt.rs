//! The metadata round trip of a local cluster, changed in mid-run through the relay's file, and checked to be in force.

use crate::measure::stats;
use crate::target::{Target, TargetError};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long a relay may take to notice (it reads the file every 50 ms) and the cluster to settle.
const SETTLE: Duration = Duration::from_secs(5);
/// A committing call must take at least this part of the round trip that was set.
const HOLDS_SHARE: f64 = 0.9;
const CALLS: usize = 7;

#[derive(Debug, Error)]
pub enum RttError {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error(
        "the client file has no [dev] metad_rtt_file, so the metadata round trip cannot be set. Start the cluster with `seam dev up --metad-rtt 0ms`, or measure it as it is with --rtt-ms as-is"
    )]
    NoRelay,
    #[error(
        "a round trip of {asked_ms} ms was set, but a committing metadata call takes {found_us} us: is the cluster's relay running?"
    )]
    NotInForce { asked_ms: u64, found_us: u64 },
    #[error("a metadata call failed while the round trip was checked: {0}")]
    Call(#[from] TargetError),
}

/// The relay's file. Puts back what it found when dropped.
#[derive(Debug)]
pub struct RttFile {
    path: PathBuf,
    before: String,
}

impl RttFile {
    pub fn open(path: Option<&Path>) -> Result<Self, RttError> {
        let path = path.ok_or(RttError::NoRelay)?.to_owned();
        match std::fs::read_to_string(&path) {
            Ok(before) => Ok(RttFile { path, before }),
            Err(source) => Err(RttError::File { path, source }),
        }
    }

    fn write(&self, text: &str) -> Result<(), RttError> {
        // A whole new file, so that the relay never reads half a number.
        let fresh = self.path.with_extension("new");
        let done = std::fs::write(&fresh, text).and_then(|()| std::fs::rename(&fresh, &self.path));
        done.map_err(|source| RttError::File { path: self.path.clone(), source })
    }

    /// Sets the round trip and waits until a committing call shows it. Returns the median duration of such a call, in us.
    pub async fn set<T: Target>(&self, target: &T, topic: &str, rtt_ms: u64) -> Result<u64, RttError> {
        self.write(&format!("{rtt_ms}\n"))?;
        let least_us = (rtt_ms as f64 * 1_000.0 * HOLDS_SHARE) as u64;
        // With a relay that adds nothing there is nothing to wait for but the end of an earlier delay.
        let most_us = if rtt_ms == 0 { 20_000 } else { u64::MAX };
        let deadline = Instant::now() + SETTLE;
        loop {
            let found_us = call_p50_us(target, topic).await?;
            if (least_us..=most_us).contains(&found_us) {
                return Ok(found_us);
            }
            if Instant::now() >= deadline {
                return Err(RttError::NotInForce { asked_ms: rtt_ms, found_us });
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl Drop for RttFile {
    fn drop(&mut self) {
        if let Err(error) = self.write(&self.before) {
            tracing::warn!(%error, "the metadata round trip could not be put back");
        }
    }
}

/// Median duration of a committing metadata call, in us.
pub async fn call_p50_us<T: Target>(target: &T, topic: &str) -> Result<u64, TargetError> {
    let mut durations_us = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let took = target.metadata_round_trip(topic).await?;
        durations_us.push(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }
    durations_us.sort_unstable();
    Ok(stats::nearest_rank(&durations_us, 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts_back_what_it_found() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("metad-rtt-ms");
        std::fs::write(&path, "20\n").expect("written");
        let file = RttFile::open(Some(&path)).expect("opened");
        file.write("60\n").expect("set");
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "60\n");
        drop(file);
        assert_eq!(std::fs::read_to_string(&path).expect("read"), "20\n");
    }

    #[test]
    fn without_a_relay_the_remedy_is_named() {
        let error = RttFile::open(None).expect_err("no relay");
        assert!(error.to_string().contains("as-is"));
    }
}
