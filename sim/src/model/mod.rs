//! The roll protocol under a model checker: the real machines of `segd-core` and the real state of metad, every order of
//! steps and messages, within small bounds.
//!
//! One segment N with its primary P and three replicas; its planned successor M; recoveries of N, each with an agent and a
//! candidate of its own; metad. The model holds no rule of the protocol: `step` carries words between the machines as a
//! node's shell does, `ghost` remembers what an observer saw, `properties` say what must hold. The network is the set of all
//! messages ever sent, so any of them may be late, repeated or lost; journals are queues whose completion is a step.
//!
//! Left out: time and load (`marks`), the producer table beyond one retry, what readers fetch. M's own replicas never fail.

mod actions;
mod check;
mod config;
mod ghost;
mod layout;
mod message;
mod metad;
mod properties;
mod roll;
mod shared;
mod site;
mod step;
mod trap;
mod world;

pub use check::{Failure, Report, Until, check};
pub use config::{ALL, Config, named};
pub use trap::{CASES, Case, TRAP_BOUND};

use anyhow::{Context, bail};
use segd_core::traps::Trap;

/// `sim model`: explore the roll protocol's states.
#[derive(Clone, Debug, clap::Args)]
pub struct ModelArgs {
    /// Configurations to check, by name. Without any: all of them.
    #[arg(long, value_name = "NAME")]
    config: Vec<String>,
    /// Explore every state, however many. Without it each configuration has its own bound.
    #[arg(long, conflicts_with = "max_states")]
    all: bool,
    /// Stop after so many generated states in each configuration.
    #[arg(long, value_name = "N")]
    max_states: Option<usize>,
    /// Put one trap back, in the configuration that shows it unless another is named: those of `--list`.
    #[arg(long, value_name = "TRAP")]
    trap: Option<String>,
    /// Threads of the checker.
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// List the configurations and the traps.
    #[arg(long)]
    list: bool,
}

/// Checks what was asked for and prints what came of each. An error when a property fails or something was never reached.
pub fn run(args: ModelArgs) -> anyhow::Result<()> {
    if args.list {
        list();
        return Ok(());
    }
    let case = match &args.trap {
        Some(name) => Some(Case::named(name).with_context(|| format!("no trap {name:?}: see --list"))?),
        None => None,
    };
    let configs = match (&args.config[..], case) {
        ([], Some(case)) => vec![case.config()],
        ([], None) => ALL.to_vec(),
        (names, _) => names
            .iter()
            .map(|name| named(name).with_context(|| format!("no configuration {name:?}: see --list")))
            .collect::<anyhow::Result<Vec<Config>>>()?,
    };
    let trap = case.map_or(Trap::None, |case| case.trap);
    let mut faults = 0;
    for config in configs {
        let until = match (case, args.max_states) {
            (Some(case), bound) => Until::Failed(case.breaks.to_vec(), bound.unwrap_or(TRAP_BOUND)),
            (None, Some(bound)) => Until::Generated(bound),
            (None, None) if args.all => Until::Exhausted,
            (None, None) => Until::Generated(config.bound),
        };
        let report = check(config, trap, until, args.threads);
        print!("{report}");
        faults += report.failures.len() + report.unseen.len();
    }
    if faults > 0 {
        bail!("{faults} properties do not hold or were never reached");
    }
    Ok(())
}

fn list() {
    for config in ALL {
        println!("{:<20} {}", config.name, config.about);
    }
    for case in CASES {
        println!("{:<20} breaks in {}: {}", case.name, case.config, case.breaks.join("; "));
    }
}
