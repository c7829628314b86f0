//! `metad --config metad.toml`: one member of the metadata service.

use clap::Parser;
use metad::Metad;
use metad::config::MetadConfig;
use std::path::PathBuf;
use std::process::ExitCode;
use tokio::signal::unix::{SignalKind, signal};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// One member of the metadata service.
#[derive(Parser)]
#[command(version, about)]
struct Args {
    /// Settings of this member.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

async fn run(args: Args) -> anyhow::Result<()> {
    let config: MetadConfig = seam_transport::config::load_toml(&args.config)?;
    let telemetry = seam_transport::telemetry::init("metad", &config.name)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let metad = Metad::start(config).await?;
    let outcome = metad
        .run_until(async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            tracing::info!("stopping");
        })
        .await;
    telemetry.shutdown().await;
    Ok(outcome?)
}

fn main() -> ExitCode {
    let args = Args::parse();
    seam_transport::telemetry::abort_on_panic();
    seam_transport::install_default();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(why) => {
            eprintln!("metad: no runtime: {why}");
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(run(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("metad: {why:#}");
            ExitCode::FAILURE
        }
    }
}
