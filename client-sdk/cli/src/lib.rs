//! The `seam` command: topics, records, rolls and nodes from a shell, and local clusters of real processes.
//!
//! | module | what it is |
//! | --- | --- |
//! | `args` | what can be typed |
//! | `cmd` | commands that talk to a cluster, through the SDK |
//! | `dev` | `seam dev`: a cluster on this machine |
//! | `session` | settings file to SDK client |
//! | `output`, `units`, `moment`, `interrupt` | standard output, sizes and times, moments, Ctrl-C |
//!
//! A program, not a library: users of the SDK depend on `seamlog` and pull in none of this.

pub mod args;
pub mod cmd;
pub mod dev;
pub mod interrupt;
mod moment;
pub mod output;
mod session;
pub mod units;

use anyhow::Result;
use args::{Cli, Command};
use output::Out;

/// Carries out what was typed.
///
/// # Errors
/// As each command says; [`output::is_closed_stdout`] tells a reader that left from a failure.
pub async fn run(cli: Cli) -> Result<()> {
    let mut out = Out::new(cli.global.json);
    let global = &cli.global;
    match cli.command {
        Command::Topic(topic) => topic.run(global, &mut out).await,
        Command::Produce(produce) => produce.run(global, &mut out).await,
        Command::Consume(consume) => consume.run(global, &mut out).await,
        Command::Group(group) => group.run(global, &mut out).await,
        Command::Roll(roll) => roll.run(global, &mut out).await,
        Command::Range(range) => range.run(global, &mut out).await,
        Command::Nodes(nodes) => nodes.run(global, &mut out).await,
        Command::Dev(dev) => dev::run(dev, &mut out).await,
        Command::DevRelay(relay) => dev::run_relay(&relay).await,
        Command::DevExec(exec) => dev::run_exec(&exec),
    }?;
    out.flush()
}
