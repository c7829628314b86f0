//! Administration: topics, nodes, rolls, status. Calls go to metad over gRPC, never to a router.

mod types;

pub use types::{AlterTopic, NodeInfo, RangeInfo, RollRecord, SegmentInfo, Status, TopicInfo};

use crate::client::Client;
use crate::error::Error;
use seam_wire::topic::TopicConfig;
use std::time::Duration;

/// Administration of a cluster. Cheap to clone. Each call ends within `request_timeout_ms` of the settings.
///
/// ```no_run
/// # async fn example() -> Result<(), seamlog::Error> {
/// use seamlog::{Client, ClientConfig, TopicConfig};
///
/// let client = Client::connect(ClientConfig::load("client.toml")?)?;
/// let admin = client.admin();
/// let config = TopicConfig { segment_bytes: 4 << 20, ..TopicConfig::default() };
/// let topic = admin.create_topic("events", config).await?;
/// println!("{} ranges", topic.ranges.len());
/// for roll in admin.roll_history("events", 10).await? {
///     println!("{} -> {} at {}", roll.segment, roll.next, roll.end);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Admin {
    #[allow(dead_code)]
    client: Client,
}

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Admin { client }
    }

    /// Creates a topic. Errors: a setting out of bounds; `AlreadyExists`; `Unavailable` with fewer nodes than replicas.
    pub async fn create_topic(&self, name: &str, config: TopicConfig) -> Result<TopicInfo, Error> {
        let _ = (name, config);
        todo!()
    }

    /// Changes what is `Some`, from the next prepared segment on.
    pub async fn alter_topic(&self, name: &str, change: AlterTopic) -> Result<TopicInfo, Error> {
        let _ = (name, change);
        todo!()
    }

    /// Deletes a topic with all its records.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        let _ = name;
        todo!()
    }

    /// All topics, by name.
    pub async fn list_topics(&self) -> Result<Vec<TopicInfo>, Error> {
        todo!()
    }

    /// A topic with its chains of segments. Errors: `UnknownTopic`.
    pub async fn describe_topic(&self, name: &str) -> Result<TopicInfo, Error> {
        let _ = name;
        todo!()
    }

    /// All segd nodes, by id.
    pub async fn list_nodes(&self) -> Result<Vec<NodeInfo>, Error> {
        todo!()
    }

    /// Asks the heads of a topic, or of one of its ranges, to roll now. Returns the segments asked.
    pub async fn roll_topic(&self, name: &str, range: Option<u32>) -> Result<Vec<u64>, Error> {
        let _ = (name, range);
        todo!()
    }

    /// Takes a node out of placement (`drain`), or back in.
    pub async fn drain_node(&self, node: u32, drain: bool) -> Result<(), Error> {
        let _ = (node, drain);
        todo!()
    }

    /// The last `last` rolls of each range (0: all that are kept), oldest first.
    pub async fn roll_history(&self, name: &str, last: u32) -> Result<Vec<RollRecord>, Error> {
        let _ = (name, last);
        todo!()
    }

    /// What the leader says of the cluster.
    pub async fn status(&self) -> Result<Status, Error> {
        todo!()
    }

    /// Times one status call to the leader.
    pub async fn ping(&self) -> Result<Duration, Error> {
        todo!()
    }
}
