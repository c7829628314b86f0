//! `sim`: campaigns of simulated worlds, and the replay of one seed.

use anyhow::{Result, bail};
use clap::{Parser, Subcommand, ValueEnum};
use sim::campaign;
use sim::report::{self, Report};
use sim::scenario::Scenario;
use sim::world::plan::{FaultMode, Plan};
use sim::world::trace::TraceMode;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Parser)]
#[command(name = "sim", about = "Simulates whole clusters of the real cores, seed by seed")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Clone, Copy, ValueEnum)]
enum Faults {
    None,
    All,
}

impl From<Faults> for FaultMode {
    fn from(faults: Faults) -> Self {
        match faults {
            Faults::None => FaultMode::None,
            Faults::All => FaultMode::All,
        }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Runs many seeds; fails if one breaks a rule, and from 1,000 seeds on if they met too little.
    Run {
        #[arg(long, default_value_t = 1000)]
        seeds: u64,
        #[arg(long, default_value_t = 0)]
        from: u64,
        #[arg(long, default_value_t = 2)]
        jobs: usize,
        #[arg(long, value_enum, default_value = "all")]
        faults: Faults,
        /// Begin no more seeds after so many violations.
        #[arg(long, default_value_t = 1)]
        stop_after: usize,
        /// The report as JSON, on standard output; progress goes to standard error.
        #[arg(long)]
        json: bool,
        /// Put a known bug back (`sim traps --list`), to see it caught.
        #[arg(long)]
        trap: Option<String>,
    },
    /// Adds up the reports (`sim run --json`) of a campaign that was run in parts.
    Sum {
        #[arg(required = true)]
        files: Vec<PathBuf>,
        #[arg(long)]
        json: bool,
    },
    /// Makes what a seed (or a scenario) shows small, and keeps it in a file: fewer faults, clients, nodes, less time.
    Shrink {
        what: String,
        #[arg(long, value_enum, default_value = "all")]
        faults: Faults,
        /// As in `run`.
        #[arg(long)]
        trap: Option<String>,
        /// The file to write.
        #[arg(long)]
        out: PathBuf,
    },
    /// Puts every known bug back, one by one; fails if the campaign and the model both miss one.
    Traps(sim::traps::TrapArgs),
    /// Explores the states of the roll protocol's machines.
    Model(sim::model::ModelArgs),
    /// Runs one seed again, or a scenario that was kept in a file.
    Replay {
        what: String,
        #[arg(long, value_enum, default_value = "all")]
        faults: Faults,
        /// Every event, a line each.
        #[arg(long)]
        trace: bool,
        /// Only the hash of the trace.
        #[arg(long)]
        trace_hash: bool,
        /// The plan drawn from the seed.
        #[arg(long)]
        plan: bool,
        /// As in `run`.
        #[arg(long)]
        trap: Option<String>,
    },
}

fn main() -> Result<()> {
    match Args::parse().command {
        Command::Run { seeds, from, jobs, faults, stop_after, json, trap } => {
            activate(trap)?;
            run(&Run { seeds, from, jobs, faults, stop_after, json })
        }
        Command::Sum { files, json } => tell(&Report::sum(&files)?, json),
        Command::Model(args) => sim::model::run(args),
        Command::Traps(args) => sim::traps::run(&args),
        Command::Replay { what, faults, trace, trace_hash, plan, trap } => {
            activate(trap)?;
            replay(&what, faults, trace, trace_hash, plan)
        }
        Command::Shrink { what, faults, trap, out } => {
            activate(trap.clone())?;
            shrink(&what, faults, trap, &out)
        }
    }
}

/// One trap at most, for the whole process.
fn activate(name: Option<String>) -> Result<()> {
    if let Some(name) = name {
        sim::traps::activate(&name)?;
    }
    Ok(())
}

/// Which seeds, and how.
struct Run {
    seeds: u64,
    from: u64,
    jobs: usize,
    faults: Faults,
    stop_after: usize,
    json: bool,
}

fn run(run: &Run) -> Result<()> {
    let began = Instant::now();
    let commit = report::commit();
    let faults = run.faults;
    let summary = campaign::run(run.from, run.seeds, run.jobs, faults.into(), run.stop_after, |seed, summary| {
        if let Some(violation) = summary.violations.iter().find(|violation| violation.seed == seed) {
            eprintln!("seed {seed}: {}", violation.what);
            let flag = if matches!(faults, Faults::None) { " --faults none" } else { "" };
            eprintln!("  replay with: sim replay {seed}{flag} --trace");
            eprintln!("  make it small with: sim shrink {seed}{flag} --out sim/bugbase/NAME.json");
        }
        if summary.seeds.is_multiple_of(1_000) {
            let minutes = began.elapsed().as_secs_f64() / 60.0;
            eprintln!("{} of {} seeds, {:.0} a minute", summary.seeds, run.seeds, summary.seeds as f64 / minutes);
        }
    });
    let seconds = began.elapsed().as_secs_f64();
    tell(&Report { commit, faults: faults.into(), from: vec![run.from], seconds, summary }, run.json)
}

fn tell(report: &Report, json: bool) -> Result<()> {
    if json {
        println!("{}", serde_json::to_string_pretty(report)?)
    } else {
        println!("{report}")
    }
    report.verdict()
}

/// The plan of a seed, or of a scenario's file.
fn plan_of(what: &str, faults: Faults) -> Result<Plan> {
    match what.parse() {
        Ok(seed) => Ok(Plan::draw(seed, faults.into())),
        Err(_) => Ok(Scenario::read(Path::new(what))?.plan),
    }
}

fn replay(what: &str, faults: Faults, trace: bool, trace_hash: bool, show_plan: bool) -> Result<()> {
    let plan = plan_of(what, faults)?;
    if show_plan {
        println!("{plan:#?}");
    }
    let mode = match (trace, trace_hash) {
        (true, _) => TraceMode::Print,
        (false, true) => TraceMode::Hash,
        (false, false) => TraceMode::Off,
    };
    match campaign::run_plan(plan, mode) {
        Ok(outcome) if trace_hash => println!("{:016x}", outcome.trace_hash),
        Ok(outcome) => println!("{:#?}", outcome.stats),
        Err(violation) => bail!("{what}: {}", violation.what),
    }
    Ok(())
}

fn shrink(what: &str, faults: Faults, trap: Option<String>, out: &Path) -> Result<()> {
    let plan = plan_of(what, faults)?;
    let size = |plan: &Plan| {
        let nodes = plan.sizes.all();
        format!("{} faults, {nodes} processes, {} batches", plan.faults.len(), plan.load.batches)
    };
    let before = size(&plan);
    let Some(shrunk) = sim::shrink::shrink(plan) else { bail!("{what} breaks no rule") };
    println!("{before}; after {} runs: {}", shrunk.tries, size(&shrunk.plan));
    println!("{}", shrunk.what);
    let breaks = sim::scenario::rule_of(&shrunk.what);
    let said = shrunk.what.lines().nth(1).unwrap_or(&shrunk.what).to_owned();
    Scenario { what: said, trap, breaks, plan: shrunk.plan }.write(out)?;
    println!("kept in {}", out.display());
    Ok(())
}
