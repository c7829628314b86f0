//! Resurrected bugs: each known way to break the protocol is put back, and the checks as they are must find it.
//!
//! First the random campaign, with its normal draws, from a seed on until a rule is broken or a bound is reached; then, for
//! what it does not catch, the model. One that neither catches is a hole in the checks, and fails the whole.

mod list;
mod table;

pub use list::{FAULTS, Fault, named};
pub use table::Row;

use crate::campaign;
use crate::model::{self, Case, TRAP_BOUND, Until};
use crate::scenario::rule_of;
use crate::world::plan::FaultMode;
use anyhow::{Context, Result, bail};
use segd_core::traps::{self, Trap};
use std::time::Instant;

/// `sim traps`: puts every known bug back, one by one, and says what catches it.
#[derive(Clone, Debug, clap::Args)]
pub struct TrapArgs {
    /// Only these, by name. Without any: all of them.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    only: Vec<String>,
    /// Seeds of the campaign tried for each.
    #[arg(long, default_value_t = 5_000)]
    seeds: u64,
    #[arg(long, default_value_t = 0)]
    from: u64,
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Do not ask the model about what the campaign does not catch.
    #[arg(long)]
    campaign_only: bool,
    #[arg(long)]
    json: bool,
    /// List the bugs.
    #[arg(long)]
    list: bool,
}

/// What found a bug.
#[derive(Clone, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase", tag = "by")]
pub enum Caught {
    /// The campaign, in its `seeds`th seed.
    Campaign {
        seeds: u64,
        seed: u64,
    },
    /// The model, in this configuration.
    Model {
        config: &'static str,
        states: usize,
    },
    Nobody {
        seeds: u64,
    },
}

/// Puts each asked for back and prints the table. An error when one is not caught.
pub fn run(args: &TrapArgs) -> Result<()> {
    if args.list {
        FAULTS.iter().for_each(|fault| println!("{:<24} {}", fault.name, fault.what));
        return Ok(());
    }
    let faults = match &args.only[..] {
        [] => FAULTS.iter().collect(),
        names => names.iter().map(|name| of_name(name)).collect::<Result<Vec<_>>>()?,
    };
    let mut rows = Vec::new();
    for fault in faults {
        let row = spring(fault, args);
        eprintln!("{}", row.line());
        rows.push(row);
    }
    traps::activate(Trap::None);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&rows)?);
    } else {
        print!("{}", table::text(&rows));
    }
    let missed: Vec<&str> = rows.iter().filter(|row| !row.is_caught()).map(|row| row.name).collect();
    if !missed.is_empty() {
        bail!("not caught, by neither the campaign nor the model: {}", missed.join(", "));
    }
    Ok(())
}

/// The bug of this name, for the whole process from now on.
pub fn activate(name: &str) -> Result<()> {
    traps::activate(of_name(name)?.trap);
    Ok(())
}

fn of_name(name: &str) -> Result<&'static Fault> {
    named(name).with_context(|| format!("no trap {name:?}: see `sim traps --list`"))
}

fn spring(fault: &Fault, args: &TrapArgs) -> Row {
    let began = Instant::now();
    traps::activate(fault.trap);
    let row = |caught, breaks: String, said: String| {
        let seconds = began.elapsed().as_secs_f64();
        Row { name: fault.name, what: fault.what, caught, breaks, said, seconds }
    };
    let summary = campaign::run(args.from, args.seeds, args.jobs, FaultMode::All, 1, |_, _| ());
    if let Some(violation) = summary.violations.first() {
        let caught = Caught::Campaign { seeds: violation.seed - args.from + 1, seed: violation.seed };
        return row(caught, rule_of(&violation.what), violation.what.clone());
    }
    let nobody = Caught::Nobody { seeds: summary.seeds };
    let Some(case) = Case::named(fault.name).filter(|_| !args.campaign_only) else {
        return row(nobody, String::new(), String::new());
    };
    let report = model::check(case.config(), case.trap, Until::AnyFailed(TRAP_BOUND), args.jobs);
    match report.failures.first() {
        Some(failure) => {
            let caught = Caught::Model { config: case.config, states: report.states };
            let said = failure.said.clone().unwrap_or_default();
            let breaks = if said.is_empty() { failure.property.to_owned() } else { rule_of(&said) };
            row(caught, breaks, said)
        }
        None => row(nobody, String::new(), String::new()),
    }
}
