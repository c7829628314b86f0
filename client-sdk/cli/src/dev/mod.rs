//! `seam dev`: a local cluster of real processes, for trying things out, for tests and for breaking it on purpose.
//!
//! | module | what it is |
//! | --- | --- |
//! | `layout`, `cluster`, `config` | the directory, what the cluster is made of, everybody's settings files |
//! | `identity`, `launch`, `daemon` | one process: who it is, how it becomes a daemon, how it stands |
//! | `relay` | the process that makes metad look far away |
//! | `probe`, `ready` | what metad and the routers say of themselves; waiting until all is well |
//! | `up`, `down`, `scale`, `drain`, `rotate`, `signals`, `status`, `logs` | the commands |
//!
//! Not for production: every process is on one machine, under one user, with certificates made on the spot.

mod cluster;
mod config;
mod daemon;
mod down;
mod drain;
mod identity;
mod launch;
mod layout;
mod logs;
mod ports;
mod probe;
mod ready;
mod relay;
mod rotate;
mod scale;
mod signals;
mod status;
mod up;
mod wait;

use crate::output::Out;
use crate::units;
use anyhow::Result;
use clap::{Args, Subcommand};
use cluster::Cluster;
use daemon::Daemon;
use layout::Layout;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// Where the cluster lives.
#[derive(Clone, Debug, Args)]
pub struct Dir {
    /// The cluster's directory: settings, certificates, data, logs.
    #[arg(long, default_value = ".seam", env = "SEAM_DEV_DIR", hide_env_values = true, value_name = "DIR")]
    dir: PathBuf,
}

impl Dir {
    fn layout(&self) -> Result<Layout> {
        Layout::new(&self.dir)
    }
}

#[derive(Debug, Subcommand)]
pub enum DevCommand {
    /// Start a cluster and return once it is ready.
    Up(up::Up),
    /// Show every process: role, pid, state, address.
    #[command(after_help = "Example:\n  seam dev status --json")]
    Status {
        #[command(flatten)]
        dir: Dir,
    },
    /// Print the log of a process.
    #[command(after_help = "Examples:\n  seam dev logs segd-3 -n 100\n  seam dev logs metad -f")]
    Logs {
        /// A process, a role, or all.
        name: String,
        /// Go on with what is added.
        #[arg(short, long)]
        follow: bool,
        /// How many of the last lines.
        #[arg(short = 'n', long, default_value_t = 50, value_name = "N")]
        lines: usize,
        #[command(flatten)]
        dir: Dir,
    },
    /// End a process at once, with SIGKILL, as a crash would.
    #[command(after_help = "Example:\n  seam dev kill segd-3")]
    Kill(Named),
    /// Freeze a process with SIGSTOP: it holds its connections and answers nothing.
    #[command(after_help = "Example, the whole metadata tier away:\n  seam dev pause metad")]
    Pause(Named),
    /// Let a frozen process run on.
    #[command(after_help = "Example:\n  seam dev resume metad")]
    Resume(Named),
    /// End a process with SIGTERM and start it again; starts one that crashed.
    #[command(after_help = "Example:\n  seam dev restart router-1")]
    Restart(Named),
    /// Add or remove segd nodes and routers while the cluster is under load.
    Scale(scale::Scale),
    /// Set the round trip that is added to every link of metad.
    #[command(after_help = "Examples:\n  seam dev rtt 20ms\n  seam dev rtt 0")]
    Rtt {
        /// The round trip, e.g. 20ms; 0 adds none.
        #[arg(value_parser = units::parse_duration, allow_hyphen_values = true)]
        rtt: Duration,
        #[command(flatten)]
        dir: Dir,
    },
    /// Replace the CA and all certificates while the cluster runs.
    RotateCerts(rotate::Rotate),
    /// Stop every process.
    Down(down::Down),
}

/// A process to act on.
#[derive(Clone, Debug, Args)]
pub struct Named {
    /// A process (metad-1, segd-3, router-1, relay), a role (metad, segd, router), or all. Kill, pause and resume
    /// all take the relay with them.
    name: String,
    #[command(flatten)]
    dir: Dir,
}

/// Arguments of the hidden `seam dev-relay`.
#[derive(Clone, Debug, Args)]
pub struct RelayArgs {
    #[arg(long)]
    config: PathBuf,
}

/// Arguments of the hidden `seam dev-exec`.
#[derive(Clone, Debug, Args)]
pub struct ExecArgs {
    #[arg(long)]
    pid_file: PathBuf,
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Carries out one of the commands.
///
/// # Errors
/// As each command says.
pub async fn run(command: DevCommand, out: &mut Out) -> Result<()> {
    match command {
        DevCommand::Up(up) => up.run(out).await,
        DevCommand::Status { dir } => status::show(&dir.layout()?, out),
        DevCommand::Logs { name, follow, lines, dir } => logs::show(&dir.layout()?, &name, lines, follow, out),
        DevCommand::Kill(named) => signals::kill(&named.dir.layout()?, &named.name, out),
        DevCommand::Pause(named) => signals::pause(&named.dir.layout()?, &named.name, out),
        DevCommand::Resume(named) => signals::resume(&named.dir.layout()?, &named.name, out),
        DevCommand::Restart(named) => signals::restart(&named.dir.layout()?, &named.name, out).await,
        DevCommand::Scale(scale) => scale.run(out).await,
        DevCommand::Rtt { rtt, dir } => up::set_rtt(&dir.layout()?, rtt, out),
        DevCommand::RotateCerts(rotate) => rotate.run(out),
        DevCommand::Down(down) => down.run(out),
    }
}

/// The process behind `seam dev-relay`.
///
/// # Errors
/// As [`relay::run`].
pub async fn run_relay(args: &RelayArgs) -> Result<()> {
    relay::run(&args.config).await
}

/// Turns into the program of `seam dev-exec`.
///
/// # Errors
/// As [`launch::exec`].
pub fn run_exec(args: &ExecArgs) -> Result<()> {
    launch::exec(&args.pid_file, &args.command)
}

/// The processes that `pattern` means, in the order in which they start.
fn daemons(layout: &Layout, cluster: &Cluster, pattern: &str) -> Result<Vec<Daemon>> {
    let names = cluster.select(pattern)?;
    Ok(every_daemon(layout, cluster).into_iter().filter(|daemon| names.contains(&daemon.name)).collect())
}

/// Every process, the relay too, in the order in which they start.
fn every_daemon(layout: &Layout, cluster: &Cluster) -> Vec<Daemon> {
    let mut all: Vec<Daemon> = cluster.nodes.iter().map(|node| Daemon::of(layout, node)).collect();
    all.push(Daemon::relay(layout));
    all.sort_by_key(|daemon| daemon.role);
    all
}
