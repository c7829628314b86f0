//! `seam group`: consumer groups, their members, ranges, committed offsets and lags.

use super::place::{PLACES, Place};
use crate::args::Global;
use crate::output::Out;
use crate::session;
use anyhow::Result;
use clap::Subcommand;
use seamlog::{GroupInfo, GroupRange, ResetTo};
use std::collections::BTreeMap;

/// A group shares out a topic's ranges among its members and remembers how far they came. It is made by its first member:
/// `seam consume TOPIC --group NAME`, or the SDK's `consumer(topic).group(name)`.
#[derive(Clone, Debug, Subcommand)]
pub enum GroupCommand {
    /// Show the names of all groups.
    #[command(after_help = "Example:\n  seam group list")]
    List,
    /// Show a group's members and, topic by topic, who has which range, what is committed and what is not (the lag).
    #[command(after_help = "\
Examples:
  seam group describe billing
  seam group describe billing --json | jq '[.topics[].ranges[].lag] | add'     records behind in all

A member that was killed is shown until the others have noticed (its session timeout).")]
    Describe { group: String },
    /// Move a group's committed offsets, backward to read again or forward to skip.
    #[command(after_help = "\
Examples:
  seam group reset billing --topic events --to earliest
  seam group reset billing --topic events --to 2026-11-29T12:00:00Z
  seam group reset billing --topic events --to 5000 --range 0

Refused while members consume the topic: stop them first. Whoever was killed is waited for, for its session timeout.
With --force live members go on from the new place.")]
    Reset {
        group: String,
        /// The topic whose offsets are moved.
        #[arg(long)]
        topic: String,
        #[arg(long, value_name = "WHERE", help = format!("Where to: {PLACES}"))]
        to: Place,
        /// Only this range; may be given several times.
        #[arg(long, value_name = "INDEX")]
        range: Vec<u32>,
        /// Even while members consume the topic.
        #[arg(long)]
        force: bool,
    },
    /// Delete a group and its committed offsets.
    #[command(after_help = "Example:\n  seam group delete billing")]
    Delete {
        group: String,
        /// Even while it has members; they end with an error.
        #[arg(long)]
        force: bool,
    },
}

impl GroupCommand {
    /// # Errors
    /// No such group, one in use, or the cluster cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let groups = session::open(global)?.groups();
        match self {
            GroupCommand::List => {
                let names = groups.list().await?;
                if out.is_json() {
                    return out.json(&names);
                }
                names.iter().try_for_each(|name| out.line(name))
            }
            GroupCommand::Describe { group } => describe(&groups.describe(&group).await?, out),
            GroupCommand::Reset { group, topic, to, range, force } => {
                let moved = groups.reset(&group, &topic, ResetTo(to.0), &range, force).await?;
                let moved: BTreeMap<u32, u64> = moved.into_iter().map(|(range, offset)| (range, offset.0)).collect();
                if out.is_json() {
                    return out.json(&serde_json::json!({ "group": group, "topic": topic, "committed": moved }));
                }
                let rows: Vec<_> =
                    moved.iter().map(|(range, offset)| vec![range.to_string(), offset.to_string()]).collect();
                out.table(&["RANGE", "COMMITTED"], &rows)
            }
            GroupCommand::Delete { group, force } => {
                groups.delete(&group, force).await?;
                if out.is_json() {
                    return out.json(&serde_json::json!({ "deleted": group }));
                }
                out.line(format!("{group} is deleted"))
            }
        }
    }
}

fn describe(group: &GroupInfo, out: &mut Out) -> Result<()> {
    if out.is_json() {
        return out.json(group);
    }
    out.line(format!("group {}, generation {}", group.name, group.generation))?;
    out.line("")?;
    let ranges_of = |id: &String| {
        let all = group.topics.iter().flat_map(|topic| &topic.ranges);
        all.filter(|range| range.owner.as_ref() == Some(id)).count().to_string()
    };
    let rows: Vec<_> = group
        .members
        .iter()
        .map(|member| {
            let timeout = crate::units::millis(member.session_timeout_ms);
            vec![member.id.clone(), ranges_of(&member.id), member.topics.join(" "), timeout, member.label.clone()]
        })
        .collect();
    if rows.is_empty() {
        out.line("no members")?;
    } else {
        out.table(&["MEMBER", "RANGES", "TOPICS", "SESSION TIMEOUT", "LABEL"], &rows)?;
    }
    for topic in &group.topics {
        out.line("")?;
        out.line(format!("topic {}", topic.topic))?;
        let rows: Vec<_> = topic.ranges.iter().map(range_row).collect();
        out.table(&["  RANGE", "COMMITTED", "END", "LAG", "OWNER"], &rows)?;
    }
    Ok(())
}

fn range_row(range: &GroupRange) -> Vec<String> {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |value| value.to_string());
    let owner = range.owner.clone().unwrap_or_else(|| "-".to_owned());
    let owner = match &range.moving_to {
        Some(heir) => format!("{owner}, handing over to {heir}"),
        None => owner,
    };
    vec![format!("  {}", range.range), number(range.committed), number(range.end), number(range.lag), owner]
}
