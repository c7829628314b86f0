//! Arguments that several commands share.

use crate::seam::ProducerSettings;
use crate::target::TopicSpec;
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// How the cluster is reached, and what is done with the result.
#[derive(Debug, Args)]
pub struct ClusterArgs {
    /// How to reach the cluster.
    #[arg(long, value_name = "FILE", env = "SEAM_CONFIG", default_value = "./.seam/client.toml")]
    pub config: PathBuf,
    /// Where the report goes. Its keys are a contract; see docs.
    #[arg(long, value_name = "FILE")]
    pub json: PathBuf,
    /// Directory on the file system of the segments, where the cost of a sync is measured
    /// [default: that of the local cluster, else that of the client file].
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
    /// Measure even though the data lies in memory, where a sync costs nothing.
    #[arg(long)]
    pub allow_tmpfs: bool,
    /// Only report: exit with 0 even when a claim does not hold.
    #[arg(long)]
    pub no_fail: bool,
    /// Keep the topics that the run makes. Without it they are deleted at its end; those of a `verify` that found something are
    /// kept as evidence, and so is the topic that `replay` is given by name.
    #[arg(long)]
    pub keep_topics: bool,
    /// How long a record may wait for others to share its batch. 0: none waits.
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pub linger_ms: u64,
    /// Batches in flight for each producer.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=16))]
    pub in_flight: u16,
    /// An append without an outcome by then is an error.
    #[arg(long, value_name = "S", default_value_t = 30)]
    pub deadline_s: u64,
}

impl ClusterArgs {
    pub fn producer(&self) -> ProducerSettings {
        ProducerSettings {
            linger: Duration::from_millis(self.linger_ms),
            max_in_flight: self.in_flight.into(),
            deadline: Duration::from_secs(self.deadline_s.max(1)),
        }
    }
}

/// Settings of the topics that are made.
#[derive(Debug, Args)]
pub struct TopicArgs {
    /// Copies of each segment.
    #[arg(long, default_value_t = 3)]
    pub replicas: u8,
    /// Copies that must hold a record before it is acked.
    #[arg(long, default_value_t = 2)]
    pub ack_quorum: u8,
    /// What it means to hold a record.
    #[arg(long, default_value = "durable", value_parser = ["durable", "replicated"])]
    pub ack: String,
    /// Where successors go.
    #[arg(long, default_value = "balanced", value_parser = ["balanced", "round-robin", "sticky"])]
    pub placement: String,
    /// When an anticipatory roll is prepared.
    #[arg(long, default_value = "soft", value_parser = ["soft", "at-open"])]
    pub anticipation: String,
}

impl TopicArgs {
    pub fn spec(&self, segment_bytes: u64) -> TopicSpec {
        TopicSpec {
            replicas: self.replicas,
            ack_quorum: self.ack_quorum,
            ack: self.ack.clone(),
            anticipation: self.anticipation.clone(),
            placement: self.placement.clone(),
            segment_bytes,
        }
    }
}

/// A name that tells one run from another.
pub fn run_name() -> String {
    format!("{:08x}", rand::random::<u32>())
}
