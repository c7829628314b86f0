//! The `loadgen` binary: reads the command line, reaches the cluster, writes the report, tells by its exit status what held.

use anyhow::{Context, Result};
use clap::Parser;
use loadgen::cli::{BenchArgs, Cli, ClusterArgs, Command, PageArgs, ReplayArgs, RollArgs, RttArg, VerifyArgs};
use loadgen::clock::Clock;
use loadgen::commands::roll::RoundTrips;
use loadgen::commands::{CommandError, all_hold, bench, replay, roll, verify};
use loadgen::report::contract::{Environment, Report};
use loadgen::report::{table, verify_table};
use loadgen::rtt::RttFile;
use loadgen::seam::Seam;
use loadgen::verify::faults::Dev;
use loadgen::{environment, html};
use seamlog::telemetry;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const FAILED: u8 = 1;
const COULD_NOT_RUN: u8 = 2;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(FAILED),
        Err(error) => {
            eprintln!("loadgen: {}", told(&error));
            ExitCode::from(COULD_NOT_RUN)
        }
    }
}

/// The chain of causes in one line, each said once: some errors already quote their cause.
fn told(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        said if said.contains(&cause) => told,
        said => format!("{said}: {cause}"),
    })
}

/// Whether everything that was claimed holds.
fn run(cli: Cli) -> Result<bool> {
    let runtime = tokio::runtime::Runtime::new().context("starting the runtime")?;
    let result = runtime.block_on(async {
        let traces = start_logs()?;
        let result = dispatch(cli).await;
        if let Some(traces) = traces {
            traces.shutdown().await;
        }
        result
    });
    // Tails and producers may still be at work; nobody waits for them.
    runtime.shutdown_background();
    result
}

/// Logs errors only, unless more is asked for; traces where a collector is named.
fn start_logs() -> Result<Option<telemetry::TelemetryGuard>> {
    if telemetry::has_collector() {
        return Ok(Some(telemetry::init("loadgen", "loadgen")?));
    }
    let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "error".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    Ok(None)
}

/// Ends once the process is asked to stop.
async fn interrupted() -> Result<()> {
    let mut terminate = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    tokio::select! {
        signal = tokio::signal::ctrl_c() => signal?,
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// The report of a run, or why there is none. However it ends, what it changed is put back: the round trip, and the topics it
/// made, unless they are wanted or are evidence.
async fn carry_out(
    seam: &Seam,
    keep_topics: bool,
    work: impl Future<Output = Result<Report, CommandError>>,
) -> Result<Report> {
    let outcome = tokio::select! {
        report = work => report.map_err(anyhow::Error::from),
        stopped = interrupted() => Err(stopped.err().unwrap_or_else(|| anyhow::anyhow!("interrupted"))),
    };
    let evidence = outcome.as_ref().is_ok_and(|report| report.verify.is_some() && !all_hold(report));
    if evidence && !seam.made().is_empty() {
        println!("Kept as evidence: topic {}", seam.made().join(", "));
    } else if !keep_topics && let Err(error) = seam.delete_made().await {
        eprintln!("loadgen: topics are left ({error}); `seam topic delete` removes {}", seam.made().join(", "));
    }
    outcome
}

async fn dispatch(cli: Cli) -> Result<bool> {
    match cli.command {
        Command::Roll(args) => run_roll(args).await,
        Command::Bench(args) => run_bench(args).await,
        Command::Replay(args) => run_replay(args).await,
        Command::Verify(args) => run_verify(args).await,
        Command::Page(args) => run_page(&args),
    }
}

/// A cluster to load, and where its data lies.
struct Reached {
    seam: Seam,
    environment: Environment,
    rtt_file: Option<PathBuf>,
    dev_dir: Option<PathBuf>,
}

fn reach(args: &ClusterArgs) -> Result<Reached> {
    let remedy = || format!("reading {}; start a local cluster with `seam dev up`", args.config.display());
    let config = seamlog::ClientConfig::load(&args.config).with_context(remedy)?;
    let (dev_dir, rtt_file) = config.dev.clone().map_or((None, None), |dev| (dev.dir, dev.metad_rtt_file));
    let beside = args.config.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let data_dir = args.data_dir.clone().or_else(|| dev_dir.clone()).unwrap_or_else(|| beside.to_owned());
    // Before anything is dialed: a refusal should come at once.
    let environment = environment::survey(&data_dir, args.allow_tmpfs)?;
    let client = seamlog::Client::connect(config)?;
    Ok(Reached { seam: Seam::new(client, args.producer()), environment, rtt_file, dev_dir })
}

async fn run_roll(args: RollArgs) -> Result<bool> {
    writable(&args.cluster.json)?;
    args.html.as_deref().map_or(Ok(()), writable)?;
    let reached = reach(&args.cluster)?;
    let round_trips = match &args.rtt_ms {
        RttArg::AsIs => RoundTrips::AsIs,
        RttArg::Set(all) => RoundTrips::Set(RttFile::open(reached.rtt_file.as_deref())?, all.clone()),
    };
    let (settings, seam) = (args.settings(), &reached.seam);
    let work = roll::run(seam, &settings, &round_trips, reached.environment);
    let report = carry_out(seam, args.cluster.keep_topics, work).await?;
    print!("{}", table::render(&report));
    write_json(&args.cluster.json, &report)?;
    if let Some(path) = &args.html {
        write(path, &html::render(&report))?;
        println!("Pictures: {}", path.display());
    }
    Ok(judge(&args.cluster, &report))
}

async fn run_bench(args: BenchArgs) -> Result<bool> {
    writable(&args.cluster.json)?;
    let reached = reach(&args.cluster)?;
    let (settings, seam) = (args.settings(), &reached.seam);
    let report = carry_out(seam, args.cluster.keep_topics, bench::run(seam, &settings, reached.environment)).await?;
    if let Some(found) = &report.bench {
        print!("{}", bench::render(&report, found));
    }
    write_json(&args.cluster.json, &report)?;
    Ok(judge(&args.cluster, &report))
}

async fn run_replay(args: ReplayArgs) -> Result<bool> {
    writable(&args.cluster.json)?;
    let settings = args.settings().map_err(anyhow::Error::msg)?;
    let reached = reach(&args.cluster)?;
    let (seam, keep) = (&reached.seam, args.cluster.keep_topics || args.topic.is_some());
    let report = carry_out(seam, keep, replay::run(seam, &settings, reached.environment)).await?;
    if let Some(found) = &report.replay {
        print!("{}", replay::render(&report, found));
    }
    write_json(&args.cluster.json, &report)?;
    Ok(judge(&args.cluster, &report))
}

async fn run_verify(args: VerifyArgs) -> Result<bool> {
    writable(&args.cluster.json)?;
    args.history.as_deref().map_or(Ok(()), writable)?;
    let reached = reach(&args.cluster)?;
    let (clock, settings) = (Clock::start(), args.settings());
    let dev = if settings.faults.is_empty() { None } else { Some(Dev::new(reached.dev_dir.as_deref(), clock)?) };
    let target = Arc::new(reached.seam);
    let work = verify::run(&target, &settings, clock, dev, reached.environment);
    let report = carry_out(&target, args.cluster.keep_topics, work).await?;
    if let Some(found) = &report.verify {
        print!("{}", verify_table::render(&report, found));
    }
    write_json(&args.cluster.json, &report)?;
    Ok(judge(&args.cluster, &report))
}

fn run_page(args: &PageArgs) -> Result<bool> {
    let text = std::fs::read_to_string(&args.report).with_context(|| args.report.display().to_string())?;
    let report: Report = serde_json::from_str(&text)
        .with_context(|| format!("{} is not a report of this version of loadgen", args.report.display()))?;
    write(&args.html, &html::render(&report))?;
    Ok(true)
}

fn judge(args: &ClusterArgs, report: &Report) -> bool {
    args.no_fail || all_hold(report)
}

/// A run of minutes must not end in "no such directory".
fn writable(path: &Path) -> Result<()> {
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(path);
    opened.map(|_| ()).with_context(|| format!("{} cannot be written", path.display()))
}

fn write_json(path: &Path, report: &Report) -> Result<()> {
    let text = serde_json::to_string(report).context("writing the report")?;
    write(path, &text)?;
    println!("Report: {}", path.display());
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} cannot be written", path.display()))
}
