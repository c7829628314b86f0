//! `seam dev down`: everything stops, in the order in which nobody misses what is gone: the way in first, the relay last.

use super::cluster::{Cluster, Role};
use super::daemon::{Daemon, Ended, STOP_PATIENCE};
use super::layout::Layout;
use super::{Dir, every_daemon};
use crate::output::Out;
use anyhow::{Result, anyhow, bail};
use clap::Args;
use std::thread;

/// Stop every process.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  seam dev down            data, certificates and logs stay for the next `seam dev up`\n  seam dev down --wipe     nothing stays"
)]
pub struct Down {
    /// Remove the cluster's data, certificates, settings and logs too.
    #[arg(long)]
    wipe: bool,
    #[command(flatten)]
    dir: Dir,
}

impl Down {
    /// # Errors
    /// A process does not end, or files cannot be removed.
    pub fn run(self, out: &mut Out) -> Result<()> {
        let layout = self.dir.layout()?;
        let cluster = Cluster::load(&layout)?;
        let lock = layout.lock()?;
        let stopped = stop_all(&layout, &cluster)?;
        if self.wipe {
            layout.wipe()?;
        }
        drop(lock);
        let killed: Vec<&str> =
            stopped.iter().filter(|(_, how)| *how == Ended::Killed).map(|(name, _)| name.as_str()).collect();
        if out.is_json() {
            let names: Vec<&str> = stopped.iter().map(|(name, _)| name.as_str()).collect();
            return out.json(&serde_json::json!({ "stopped": names, "killed": killed, "wiped": self.wipe }));
        }
        if !killed.is_empty() {
            out.line(format!("did not end within {STOP_PATIENCE:?} of SIGTERM and got SIGKILL: {}", killed.join(" ")))?;
        }
        let rest =
            if self.wipe { "; nothing of it is left" } else { "; its data stays: `seam dev up` starts it again" };
        out.line(format!("stopped {} processes{rest}", stopped.len()))
    }
}

/// Stops every process that runs; says which and how. The processes of one role stop at the same time.
///
/// # Errors
/// A process is left. The others are stopped all the same.
pub fn stop_all(layout: &Layout, cluster: &Cluster) -> Result<Vec<(String, Ended)>> {
    let daemons = every_daemon(layout, cluster);
    let mut stopped = Vec::new();
    let mut left = Vec::new();
    for role in [Role::Router, Role::Segd, Role::Metad, Role::Relay] {
        for (name, ended) in stop_together(daemons.iter().filter(|daemon| daemon.role == role)) {
            match ended {
                Ok(Ended::Already) => {}
                Ok(how) => stopped.push((name, how)),
                Err(error) => left.push(error.context(format!("{name} is left"))),
            }
        }
    }
    match left.into_iter().reduce(|all, next| anyhow!("{all:#}\n{next:#}")) {
        Some(error) => bail!(error),
        None => Ok(stopped),
    }
}

fn stop_together<'a>(daemons: impl Iterator<Item = &'a Daemon>) -> Vec<(String, Result<Ended>)> {
    thread::scope(|scope| {
        let stops: Vec<_> =
            daemons.map(|daemon| (daemon.name.clone(), scope.spawn(|| daemon.stop(STOP_PATIENCE)))).collect();
        let panicked = || Err(anyhow!("stopping it panicked"));
        stops.into_iter().map(|(name, stop)| (name, stop.join().unwrap_or_else(|_| panicked()))).collect()
    })
}
