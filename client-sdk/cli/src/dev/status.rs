//! `seam dev status`: how every process stands, from the system's own process table. Asks no service anything, so that it
//! answers whatever state they are in.

use super::cluster::{Cluster, Role};
use super::daemon::State;
use super::layout::Layout;
use super::{every_daemon, relay};
use crate::output::Out;
use anyhow::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Status<'a> {
    dir: &'a Path,
    config: PathBuf,
    metad_rtt_ms: f64,
    processes: Vec<Process>,
}

#[derive(Serialize)]
struct Process {
    name: String,
    role: Role,
    /// `null` unless it is alive.
    pid: Option<u32>,
    state: State,
    /// gRPC of metad, QUIC of segd and router; for the relay `null`: it has one address for each metad.
    addr: Option<String>,
    metrics: Option<String>,
    domain: Option<String>,
}

/// # Errors
/// The directory holds no cluster.
pub fn show(layout: &Layout, out: &mut Out) -> Result<()> {
    let cluster = Cluster::load(layout)?;
    let rtt = relay::read_rtt(&layout.rtt_file()).unwrap_or_default();
    let status = Status {
        dir: layout.root(),
        config: layout.client_file(),
        metad_rtt_ms: rtt.as_secs_f64() * 1e3,
        processes: processes(layout, &cluster)?,
    };
    if out.is_json() {
        return out.json(&status);
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_else(|| "-".to_owned());
    let row = |process: &Process| {
        vec![
            process.name.clone(),
            process.role.to_string(),
            text(&process.pid.map(|pid| pid.to_string())),
            process.state.to_string(),
            text(&process.addr),
            text(&process.metrics),
            text(&process.domain),
        ]
    };
    let rows: Vec<Vec<String>> = status.processes.iter().map(row).collect();
    out.table(&["NAME", "ROLE", "PID", "STATE", "ADDRESS", "METRICS", "DOMAIN"], &rows)?;
    out.line(format!("round trip added to metad's links: {} ms", status.metad_rtt_ms))
}

fn processes(layout: &Layout, cluster: &Cluster) -> Result<Vec<Process>> {
    let described = every_daemon(layout, cluster).into_iter().map(|daemon| {
        let node = cluster.node(&daemon.name);
        Ok(Process {
            state: daemon.state()?,
            pid: daemon.live()?.map(|identity| identity.pid()),
            addr: node.map(|node| node.listen.to_string()),
            metrics: node.map(|node| node.metrics.to_string()),
            domain: node.and_then(|node| node.domain().map(str::to_owned)),
            name: daemon.name,
            role: daemon.role,
        })
    });
    described.collect()
}
