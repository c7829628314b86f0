//! `seam topic`: create, list, describe, alter, delete.

use super::topic_args::{FixedSettings, LiveSettings, new_topic};
use super::topic_view;
use crate::args::Global;
use crate::output::Out;
use crate::session;
use anyhow::{Result, ensure};
use clap::Subcommand;
use seamlog::AlterTopic;

#[derive(Clone, Debug, Subcommand)]
pub enum TopicCommand {
    /// Make a new topic.
    #[command(after_help = "\
Examples:
  seam topic create events
  seam topic create events --segment-bytes 64MiB --max-age 10m --ranges 4
  seam topic create logs --retention-bytes 10GiB --retention-age 7d
  seam topic create old --anticipation off          the old behaviour, for comparison")]
    Create {
        /// 1 to 128 of a-z A-Z 0-9 . _ -, not beginning with `seam.`
        topic: String,
        #[command(flatten)]
        fixed: FixedSettings,
        #[command(flatten)]
        live: LiveSettings,
    },
    /// Show all topics.
    #[command(after_help = "Examples:\n  seam topic list\n  seam topic list --all")]
    List {
        /// Those that Seamlog keeps for itself too: `seam.group.NAME` is the log of a consumer group.
        #[arg(long)]
        all: bool,
    },
    /// Show a topic's settings and, range by range, its chain of segments and where they lie.
    #[command(
        after_help = "Examples:\n  seam topic describe events\n  seam topic describe events --json | jq '.ranges[].segments[].replicas'"
    )]
    Describe { topic: String },
    /// Change settings; they hold from the next prepared segment on, those of retention at once.
    #[command(
        after_help = "Examples:\n  seam topic alter events --segment-bytes 256MiB --max-age 0\n  seam topic alter events --retention-bytes 1GiB"
    )]
    Alter {
        topic: String,
        #[command(flatten)]
        live: LiveSettings,
    },
    /// Delete a topic and all its records.
    #[command(after_help = "Example:\n  seam topic delete events")]
    Delete { topic: String },
}

impl TopicCommand {
    /// # Errors
    /// Settings out of bounds, no such topic, or metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        match self {
            TopicCommand::Create { topic, fixed, live } => {
                let config = new_topic(&fixed, &live)?;
                seam_wire::topic::validate_user_name(&topic)?;
                let made = session::open(global)?.admin().create_topic(&topic, config).await?;
                topic_view::settings(&made, out)
            }
            TopicCommand::List { all } => {
                let mut topics = session::open(global)?.admin().list_topics().await?;
                topics.retain(|topic| all || !seamlog::is_internal(&topic.name));
                topic_view::list(&topics, out)
            }
            TopicCommand::Describe { topic } => {
                topic_view::describe(&session::open(global)?.admin().describe_topic(&topic).await?, out)
            }
            TopicCommand::Alter { topic, live } => {
                let change = live.changes();
                ensure!(
                    change != AlterTopic::default(),
                    "nothing to change: give at least one setting, see `seam topic alter --help`"
                );
                let changed = session::open(global)?.admin().alter_topic(&topic, change).await?;
                topic_view::settings(&changed, out)
            }
            TopicCommand::Delete { topic } => {
                session::open(global)?.admin().delete_topic(&topic).await?;
                if out.is_json() {
                    return out.json(&serde_json::json!({ "deleted": topic }));
                }
                out.line(format!("{topic} is deleted"))
            }
        }
    }
}
