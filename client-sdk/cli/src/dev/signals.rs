//! `seam dev kill|pause|resume|restart`: one signal to one process or to many, and a line that says what became of it.

use super::cluster::{ALL, Cluster, Role};
use super::daemon::{Daemon, Ended, STOP_PATIENCE, State};
use super::layout::Layout;
use super::{daemons, every_daemon, ready};
use crate::output::Out;
use anyhow::{Context, Result};
use std::time::UNIX_EPOCH;

/// # Errors
/// One of them does not run.
pub fn kill(layout: &Layout, pattern: &str, out: &mut Out) -> Result<()> {
    each_live(layout, pattern, "killed", Daemon::kill, out)
}

/// # Errors
/// One of them does not run.
pub fn pause(layout: &Layout, pattern: &str, out: &mut Out) -> Result<()> {
    each_live(layout, pattern, "paused", Daemon::pause, out)
}

/// # Errors
/// One of them does not run.
pub fn resume(layout: &Layout, pattern: &str, out: &mut Out) -> Result<()> {
    each_live(layout, pattern, "running", Daemon::resume, out)
}

/// Restarts one after the other, each ready before the next: the cluster stays whole.
///
/// # Errors
/// A process does not end, does not start, or does not get ready; the end of its log is in the message.
pub async fn restart(layout: &Layout, pattern: &str, out: &mut Out) -> Result<()> {
    let _lock = layout.lock()?;
    let cluster = Cluster::load(layout)?;
    for daemon in to_restart(layout, &cluster, pattern)? {
        let began_unix_us = unix_us();
        let before = daemon.state()?;
        // Only a segd node has one; a metad that is down is not waited for.
        let life = match daemon.role {
            Role::Segd => ready::life_of(layout, &cluster, &daemon.name).await,
            Role::Metad | Role::Router | Role::Relay => 0,
        };
        let ended = daemon.stop(STOP_PATIENCE)?;
        daemon.start()?;
        ready::await_one(layout, &cluster, &daemon, life).await?;
        let pid = daemon.live()?.context("it ended again")?.pid();
        let how = match (before, ended) {
            (State::Crashed | State::Stopped, _) | (_, Ended::Already) => format!("started (it was {before})"),
            (State::Running | State::Paused, Ended::Cleanly) => "restarted".to_owned(),
            (State::Running | State::Paused, Ended::Killed) => {
                format!("restarted, by SIGKILL: it did not end within {STOP_PATIENCE:?} of SIGTERM")
            }
        };
        report(&daemon, &how, Some(pid), began_unix_us, out)?;
    }
    Ok(())
}

/// With `all` the relay too, if it does not run: nothing gets ready without it, and nobody is to miss it while it does.
fn to_restart(layout: &Layout, cluster: &Cluster, pattern: &str) -> Result<Vec<Daemon>> {
    let mut chosen = daemons(layout, cluster, pattern)?;
    let relay = Daemon::relay(layout);
    if pattern == ALL && relay.live()?.is_none() {
        chosen.insert(0, relay);
    }
    Ok(chosen)
}

/// Now, in microseconds since the Unix epoch: what a script needs to say how long after a signal something happened.
fn unix_us() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// With a role or `all`, processes that do not run are left out; a single one must run.
fn each_live(
    layout: &Layout,
    pattern: &str,
    done: &str,
    act: impl Fn(&Daemon) -> Result<()>,
    out: &mut Out,
) -> Result<()> {
    let cluster = Cluster::load(layout)?;
    // A relay left alone would hold a cluster of which nothing else runs.
    let chosen = if pattern == ALL { every_daemon(layout, &cluster) } else { daemons(layout, &cluster, pattern)? };
    let mut live = Vec::new();
    for daemon in &chosen {
        if chosen.len() == 1 || daemon.live()?.is_some() {
            live.push(daemon);
        }
    }
    anyhow::ensure!(!live.is_empty(), "none of {pattern} runs: `seam dev status` shows how they stand");
    for daemon in live {
        let began_unix_us = unix_us();
        act(daemon)?;
        let pid = daemon.identity()?.map(|identity| identity.pid());
        report(daemon, done, pid, began_unix_us, out)?;
    }
    Ok(())
}

fn report(daemon: &Daemon, how: &str, pid: Option<u32>, began_unix_us: u64, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.json_line(&serde_json::json!({
            "name": daemon.name, "done": how, "pid": pid, "began_unix_us": began_unix_us, "ended_unix_us": unix_us(),
        }));
    }
    let pid = pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    out.line(format!("{} {how}{pid}", daemon.name))
}
