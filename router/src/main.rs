//! The `router` program.

use anyhow::Context;
use clap::Parser;
use router::{Config, Server};
use seam_transport::config::load_toml;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A Seamlog router: takes producers and tails of clients over QUIC and brings them to the nodes that hold the data.
#[derive(Parser)]
#[command(version, after_help = "Stops cleanly on SIGTERM and SIGINT. Metrics: http://<metrics_listen>/metrics.")]
struct Args {
    /// The router's settings (TOML): name, listen, metrics_listen, [tls], [[metad]].
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let config: Config = load_toml(&args.config)?;
    seam_transport::telemetry::abort_on_panic();
    seam_transport::install_default();
    let telemetry = seam_transport::telemetry::init("router", &config.name)?;
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
