//! `seam roll`: an operator moves the write head by hand.

use crate::args::Global;
use crate::output::Out;
use crate::session;
use anyhow::Result;
use clap::Args;

/// Move a topic's write head to a new segment now.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Examples:\n  seam roll events\n  seam roll events --range 0")]
pub struct Roll {
    topic: String,
    /// Only this range of it.
    #[arg(long, value_name = "INDEX")]
    range: Option<u32>,
}

impl Roll {
    /// # Errors
    /// No such topic or range, or metad cannot be reached.
    pub async fn run(self, global: &Global, out: &mut Out) -> Result<()> {
        let segments = session::open(global)?.admin().roll_topic(&self.topic, self.range).await?;
        if out.is_json() {
            return out.json(&serde_json::json!({ "topic": self.topic, "rolling": segments }));
        }
        let listed: Vec<String> = segments.iter().map(ToString::to_string).collect();
        out.line(format!("{}: asked to roll segment {}", self.topic, listed.join(" ")))
    }
}
