//! Arguments of `loadgen replay`.

use super::common::{ClusterArgs, TopicArgs, run_name};
use super::units::size;
use crate::commands::replay::ReplaySettings;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
The file is cut into records, written, read back at the same time, and compared byte for byte as a stream: neither side
is held in memory. The records are the bytes of the file and nothing else.

Examples:
  loadgen replay access.log --json replay.json
  loadgen replay access.log --json replay.json --topic logs --segment-bytes 4MiB --min-rolls 10";

/// Rolls that the default segment size gives, about.
const ROLLS: u64 = 16;

/// `loadgen replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ReplayArgs {
    /// The file.
    pub input: PathBuf,
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Topic to write to, made if it is not there; nobody else may write to it meanwhile [default: a new one].
    #[arg(long)]
    pub topic: Option<String>,
    /// Segment size of a topic that is made [default: a sixteenth of the file, 64 KiB to 64 MiB].
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub segment_bytes: Option<u64>,
    /// The file is cut into records of this size.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4KiB")]
    pub record_bytes: u64,
    /// Appends in flight.
    #[arg(long, default_value_t = 256)]
    pub window: u32,
    /// Fail when the topic rolled less often meanwhile.
    #[arg(long, default_value_t = 0)]
    pub min_rolls: u64,
    #[command(flatten)]
    pub settings: TopicArgs,
}

impl ReplayArgs {
    /// Errors: the file cannot be read, or the record size is 0.
    pub fn settings(&self) -> Result<ReplaySettings, String> {
        let metadata = std::fs::metadata(&self.input).map_err(|e| format!("{}: {e}", self.input.display()))?;
        if !metadata.is_file() {
            return Err(format!("{} is not a regular file", self.input.display()));
        }
        if self.record_bytes == 0 {
            return Err("--record-bytes must be at least 1".to_owned());
        }
        let part = (metadata.len() / (ROLLS + 1)).clamp(64 << 10, 64 << 20);
        Ok(ReplaySettings {
            input: self.input.clone(),
            topic: self.topic.clone().unwrap_or_else(|| format!("loadgen-{}-replay", run_name())),
            spec: self.settings.spec(self.segment_bytes.unwrap_or(part)),
            record_bytes: self.record_bytes as usize,
            window: self.window as usize,
            min_rolls: self.min_rolls,
        })
    }
}
