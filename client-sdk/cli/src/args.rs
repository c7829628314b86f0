//! What can be typed: the commands, their flags and their help. No behaviour.

use crate::cmd::{consume, group, nodes, produce, range, roll, topic};
use crate::dev;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Where clients look for their settings if nobody says otherwise: where `seam dev up` puts them.
pub const DEFAULT_CONFIG: &str = "./.seam/client.toml";

const EXAMPLES: &str = "\
Try it on this machine:
  seam dev up                                        a local cluster: 3 metad, 5 segd, 2 routers
  seam topic create events --segment-bytes 4MiB      small segments, so that rolls are seen
  seq 100000 | seam produce events                   one record a line
  seam consume events --from earliest --count 3      read across all segments
  seam topic describe events                         the chain of segments and where they lie
  seam roll events                                   move the write head now
  seam dev down --wipe                               stop everything and remove it";

/// The command line of Seamlog, a log whose write head moves from segment to segment unnoticed.
#[derive(Debug, Parser)]
#[command(name = "seam", version, after_help = EXAMPLES, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Flags that every command takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// The client's settings: routers, metad members, certificates.
    #[arg(long, global = true, env = "SEAM_CONFIG", hide_env_values = true, default_value = DEFAULT_CONFIG, value_name = "FILE")]
    pub config: PathBuf,
    /// Answer in JSON; keys stay from version to version, new ones may come.
    #[arg(long, global = true)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Create, list, describe, alter or delete topics.
    #[command(subcommand)]
    Topic(topic::TopicCommand),
    /// Write standard input to a topic, one record a line.
    Produce(produce::Produce),
    /// Print a topic's records, one a line.
    Consume(consume::Consume),
    /// List, describe, reset or delete consumer groups.
    #[command(subcommand)]
    Group(group::GroupCommand),
    /// Move a topic's write head to a new segment now, or explain how it moved.
    Roll(roll::Roll),
    /// Give up what no replica of a stuck range can tell of.
    #[command(subcommand)]
    Range(range::RangeCommand),
    /// List the segd nodes: state, failure domain, load, free space.
    Nodes(nodes::Nodes),
    /// Run a cluster of real processes on this machine.
    #[command(subcommand)]
    Dev(dev::DevCommand),
    /// Delay metad's links; started by `seam dev up`.
    #[command(hide = true)]
    DevRelay(dev::RelayArgs),
    /// Become a daemon of a local cluster; used by `seam dev up`.
    #[command(hide = true)]
    DevExec(dev::ExecArgs),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_visible_command_says_what_it_does_and_shows_an_example() {
        fn check(command: &clap::Command, path: &str) {
            for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
                let path = format!("{path} {}", sub.get_name());
                assert!(sub.get_about().is_some(), "{path} has no description");
                let group = sub.get_subcommands().next().is_some();
                let help = sub.get_after_help().map(ToString::to_string).unwrap_or_default();
                assert!(group || help.contains(&path), "{path} has no example");
                check(sub, &path);
            }
        }
        check(&Cli::command(), "seam");
    }

    #[test]
    fn flags_that_every_command_takes_are_taken_anywhere() {
        for line in
            ["seam --json nodes", "seam nodes --json", "seam topic list --json --config x", "seam dev status --json"]
        {
            let cli = Cli::try_parse_from(line.split(' ')).expect(line);
            assert!(cli.global.json, "{line}");
        }
    }
}
