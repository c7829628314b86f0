//! `seam roll`: an operator moves the write head by hand, and reads how rolls went.

mod explain;
mod timeline;
mod waterfall;
mod why;

use crate::args::Global;
use crate::output::Out;
use crate::session;
use anyhow::{Context, Result};
use clap::{Args, Subcommand};

/// Move a topic's write head to a new segment now, or explain how it moved before.
#[derive(Clone, Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  seam roll events
  seam roll events --range 0
  seam roll explain events
  seam roll -- explain                 a topic that has the name of a command"
)]
pub struct Roll {
    #[command(subcommand)]
    command: Option<RollCommand>,
    #[arg(required = true)]
    topic: Option<String>,
    /// Only this range of it.
    #[arg(long, value_name = "INDEX")]
    range: Option<u32>,
}

#[derive(Clone, Debug, Subcommand)]
pub enum RollCommand {
    Explain(explain::Explain),
}

impl Roll {
    /// # Errors
    /// No such topic or range, or metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        match self.command {
            Some(RollCommand::Explain(explain)) => explain.run(global, out).await,
            None => roll_now(&self.topic.context("name a topic")?, self.range, global, out).await,
        }
    }
}

async fn roll_now(topic: &str, range: Option<u32>, global: &Global, out: &mut Out) -> Result<()> {
    let segments = session::open(global)?.admin().roll_topic(topic, range).await?;
    if out.is_json() {
        return out.json(&serde_json::json!({ "topic": topic, "rolling": segments }));
    }
    let listed: Vec<String> = segments.iter().map(ToString::to_string).collect();
    out.line(format!("{topic}: asked to roll segment {}", listed.join(" ")))
}

#[cfg(test)]
mod tests {
    use crate::args::{Cli, Command};
    use clap::Parser;

    fn parse(line: &str) -> super::Roll {
        match Cli::try_parse_from(line.split(' ')).expect(line).command {
            Command::Roll(roll) => roll,
            other => panic!("{line} became {other:?}"),
        }
    }

    #[test]
    fn a_topic_is_rolled_and_explain_is_asked() {
        let now = parse("seam roll events --range 2");
        assert_eq!((now.topic.as_deref(), now.range, now.command.is_none()), (Some("events"), Some(2), true));
        assert!(parse("seam roll explain events --range 2 --last 3").command.is_some());
        assert_eq!(parse("seam roll -- explain").topic.as_deref(), Some("explain"));
        Cli::try_parse_from(["seam", "roll"]).expect_err("a topic is wanted");
    }
}
