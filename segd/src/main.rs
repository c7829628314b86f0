//! The `segd` program.

use anyhow::Context;
use clap::Parser;
use seam_transport::config::load_toml;
use segd::{Config, Server};
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Seamlog segment node: holds replicas of segments, takes appends over QUIC, serves tails.
#[derive(Parser)]
#[command(version, after_help = "Stops cleanly on SIGTERM and SIGINT. Metrics: http://<metrics_listen>/metrics.")]
struct Args {
    /// The node's settings (TOML): id, name, listen, domain, data_dir, metrics_listen, [tls], [[metad]].
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let config: Config = load_toml(&args.config)?;
    seam_transport::telemetry::abort_on_panic();
    seam_transport::install_default();
    let telemetry = seam_transport::telemetry::init("segd", &config.name)?;
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let name = config.name.clone();
    let server = Server::start(config).await.with_context(|| format!("{name} cannot start"))?;
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    tracing::info!("stopping");
    server.shutdown().await;
    telemetry.shutdown().await;
    Ok(())
}
