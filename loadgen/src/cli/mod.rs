//! The command line: what is asked, in words that teach. Turning it into settings, and nothing else.

mod bench;
mod common;
mod replay;
mod roll;
mod units;
mod verify;

pub use bench::BenchArgs;
pub use common::{ClusterArgs, TopicArgs};
pub use replay::ReplayArgs;
pub use roll::{RollArgs, RttArg};
pub use verify::VerifyArgs;

use clap::{Parser, Subcommand};
use std::path::PathBuf;

const AFTER: &str = "\
Start a local cluster with `seam dev up`; it writes ./.seam/client.toml, which is read by default.

Topics that a run made are deleted at its end; --keep-topics keeps them.

Exit status: 0 when all that is claimed holds, 1 when something does not or could not be told, 2 when the run could not be done.";

/// Open-loop load on a Seamlog cluster, and proof of what became of it.
#[derive(Debug, Parser)]
#[command(name = "loadgen", version, after_help = AFTER)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Is a roll felt? Three modes on one cluster: without rolls, reactive, anticipatory.
    Roll(RollArgs),
    /// How much does a topic carry, and how long do records wait?
    Bench(BenchArgs),
    /// A real file through the cluster and back, compared byte for byte.
    Replay(ReplayArgs),
    /// Is what was acked there, once and in order, whatever breaks? Ten checks over all that clients saw.
    Verify(VerifyArgs),
    /// Make the page of an earlier `roll` report again.
    Page(PageArgs),
}

#[derive(Debug, clap::Args)]
pub struct PageArgs {
    /// A report written with `loadgen roll --json`.
    pub report: PathBuf,
    /// Where the page goes.
    #[arg(long, value_name = "FILE")]
    pub html: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn examples_in_the_help_parse() {
        let mut root = Cli::command();
        root.build();
        for command in root.get_subcommands() {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            for line in help.lines().map(str::trim).filter(|l| l.starts_with("loadgen ")) {
                let parsed = Cli::try_parse_from(line.split_whitespace());
                assert!(parsed.is_ok(), "{line}: {}", parsed.err().map_or(String::new(), |e| e.to_string()));
            }
        }
    }
}
