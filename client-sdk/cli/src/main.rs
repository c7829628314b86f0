//! `seam`: parses the command line, runs the command, turns its end into an exit status.

use clap::Parser;
use seam_cli::args::{Cli, Command};
use seam_cli::interrupt::Interrupted;
use seam_cli::output::{explain, is_closed_stdout};
use seam_transport::telemetry;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let telemetry = match start_logs(&cli) {
        Ok(telemetry) => telemetry,
        Err(error) => return fail(&error),
    };
    let ended = seam_cli::run(cli).await;
    if let Some(telemetry) = telemetry {
        telemetry.shutdown().await;
    }
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed_stdout(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let failed = fail(&error);
            Interrupted::found_in(&error).map_or(failed, |stopped| ExitCode::from(stopped.exit_status()))
        }
    }
}

/// The relay is a service and always logs; a command logs only for those who ask.
fn start_logs(cli: &Cli) -> anyhow::Result<Option<telemetry::TelemetryGuard>> {
    let asked = telemetry::has_collector() || ["SEAM_LOG", "RUST_LOG"].iter().any(|it| std::env::var_os(it).is_some());
    if asked || matches!(cli.command, Command::DevRelay(_)) {
        return Ok(Some(telemetry::init("seam", "seam")?));
    }
    Ok(None)
}

fn fail(error: &anyhow::Error) -> ExitCode {
    eprintln!("seam: {}", explain(error));
    ExitCode::FAILURE
}
