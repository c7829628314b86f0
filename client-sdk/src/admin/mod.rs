//! Administration: topics, nodes, rolls, status. Calls go to metad over gRPC, never to a router.

mod convert;
mod types;

pub use types::{
    AcceptedLoss, AlterTopic, NodeInfo, RangeInfo, RecoveryInfo, RollAnnouncement, RollRecord, RollRecovery,
    SegmentInfo, Status, TopicInfo,
};

use crate::client::Client;
use crate::error::Error;
use convert::Nonsense;
use seam_grpc as rpc;
use seam_transport::meta_client::{MetaClient, MetaError};
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::topic::{TopicConfig, validate_user_name};
use std::time::{Duration, Instant};
use tonic::Code;

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
    client: Client,
}

impl Admin {
    pub(crate) fn new(client: Client) -> Self {
        Admin { client }
    }

    fn meta(&self) -> &MetaClient {
        &self.client.inner.meta
    }

    /// Creates a topic. Errors: a setting out of bounds; a name that begins with `seam.`; `AlreadyExists`; `Unavailable`
    /// with fewer nodes than replicas.
    pub async fn create_topic(&self, name: &str, config: TopicConfig) -> Result<TopicInfo, Error> {
        validate_user_name(name)?;
        self.create_internal_topic(name, config).await
    }

    pub(crate) async fn create_internal_topic(&self, name: &str, config: TopicConfig) -> Result<TopicInfo, Error> {
        config.validate()?;
        let what = || format!("create topic {name:?}");
        let request = rpc::CreateTopicRequest { name: name.to_owned(), config: Some(convert::config_to_rpc(&config)) };
        let answer = self.meta().create_topic(request).await.map_err(|error| failed(what(), error))?;
        convert::topic(answer).map_err(|detail| nonsense(what(), detail))
    }

    /// Changes what is `Some`, from the next prepared segment on, retention at once. Errors: `UnknownTopic`; a setting out of bounds.
    pub async fn alter_topic(&self, name: &str, change: AlterTopic) -> Result<TopicInfo, Error> {
        let what = || format!("alter topic {name:?}");
        let request = convert::alter_to_rpc(name, &change);
        let answer = self.meta().alter_topic(request).await.map_err(|error| failed(what(), error))?;
        convert::topic(answer).map_err(|detail| nonsense(what(), detail))
    }

    /// Deletes a topic with all its records. Errors: `UnknownTopic`; a name that begins with `seam.`.
    pub async fn delete_topic(&self, name: &str) -> Result<(), Error> {
        validate_user_name(name)?;
        self.delete_internal_topic(name).await
    }

    pub(crate) async fn delete_internal_topic(&self, name: &str) -> Result<(), Error> {
        let request = rpc::DeleteTopicRequest { name: name.to_owned() };
        let answer = self.meta().delete_topic(request).await;
        answer.map(drop).map_err(|error| failed(format!("delete topic {name:?}"), error))
    }

    /// All topics, by name; those that Seamlog keeps for itself (`seam.…`) too.
    pub async fn list_topics(&self) -> Result<Vec<TopicInfo>, Error> {
        let what = || "list topics".to_owned();
        let request = rpc::ListTopicsRequest {};
        let answer = self.meta().list_topics(request).await.map_err(|error| failed(what(), error))?;
        let topics: Result<Vec<TopicInfo>, Nonsense> = answer.topics.into_iter().map(convert::topic).collect();
        let mut topics = topics.map_err(|detail| nonsense(what(), detail))?;
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    /// A topic with its chains of segments. Errors: `UnknownTopic`.
    pub async fn describe_topic(&self, name: &str) -> Result<TopicInfo, Error> {
        let what = || format!("describe topic {name:?}");
        let request = rpc::DescribeTopicRequest { name: name.to_owned() };
        let answer = self.meta().describe_topic(request).await.map_err(|error| failed(what(), error))?;
        convert::topic(answer).map_err(|detail| nonsense(what(), detail))
    }

    /// All segd nodes, by id.
    pub async fn list_nodes(&self) -> Result<Vec<NodeInfo>, Error> {
        let answer = self.meta().list_nodes(rpc::ListNodesRequest {}).await;
        let answer = answer.map_err(|error| failed("list nodes".to_owned(), error))?;
        let mut nodes: Vec<NodeInfo> = answer.nodes.into_iter().map(convert::node).collect();
        nodes.sort_by_key(|node| node.id);
        Ok(nodes)
    }

    /// Asks the heads of a topic, or of the range of index `range`, to roll now. Returns the segments asked.
    /// Errors: `UnknownTopic`.
    pub async fn roll_topic(&self, name: &str, range: Option<u32>) -> Result<Vec<u64>, Error> {
        let request = rpc::RollTopicRequest { name: name.to_owned(), range_index: range };
        let answer = self.meta().roll_topic(request).await;
        Ok(answer.map_err(|error| failed(format!("roll topic {name:?}"), error))?.rolling)
    }

    /// Gives up what no replica that answers holds of `segment`, the head of the range: the range goes on with a new segment,
    /// behind a gap entry that readers are told of. Cannot be undone. Errors: `UnknownTopic`, `UnknownRange`; the segment is not
    /// the head; an answer may still decide its end ([`RangeInfo::stuck`] is `None`).
    pub async fn accept_loss(&self, name: &str, range: u32, segment: u64) -> Result<AcceptedLoss, Error> {
        let request = rpc::AcceptLossRequest { name: name.to_owned(), range_index: range, segment };
        let answer = self.meta().accept_loss(request).await;
        let answer =
            answer.map_err(|error| failed(format!("accept the loss of segment {segment} of {name:?}"), error))?;
        Ok(AcceptedLoss { epoch: answer.epoch, candidate: answer.candidate })
    }

    /// Takes a node out of placement (`drain`), or back in.
    pub async fn drain_node(&self, node: u32, drain: bool) -> Result<(), Error> {
        let answer = self.meta().drain_node(rpc::DrainNodeRequest { node_id: node, drain }).await;
        answer.map(drop).map_err(|error| failed(format!("drain node {node}"), error))
    }

    /// The last `last` rolls of each range (0: all that are kept), oldest first. Errors: `UnknownTopic`.
    pub async fn roll_history(&self, name: &str, last: u32) -> Result<Vec<RollRecord>, Error> {
        let request = rpc::RollHistoryRequest { name: name.to_owned(), last };
        let answer = self.meta().roll_history(request).await;
        let answer = answer.map_err(|error| failed(format!("roll history of {name:?}"), error))?;
        Ok(answer.rolls.into_iter().map(convert::roll).collect())
    }

    /// What the leader says of itself and the cluster.
    pub async fn status(&self) -> Result<Status, Error> {
        let answer = self.meta().status(rpc::StatusRequest {}).await;
        answer.map(convert::status).map_err(|error| failed("status".to_owned(), error))
    }

    /// Times one status call to the leader.
    pub async fn ping(&self) -> Result<Duration, Error> {
        let started = Instant::now();
        self.status().await?;
        Ok(started.elapsed())
    }
}

fn failed(what: String, error: MetaError) -> Error {
    let detail = error.to_string();
    let source = match error {
        // Every call may be made again.
        MetaError::Deadline { unsure: true, .. } => WireError::unknown(ErrorCode::DeadlineExceeded, detail),
        MetaError::Deadline { unsure: false, .. } => WireError::retry(ErrorCode::DeadlineExceeded, detail),
        MetaError::Untrusted { unsure, .. } => {
            let certainty = if unsure { Certainty::Indeterminate } else { Certainty::Definite };
            WireError { certainty, ..WireError::refused(ErrorCode::NotAuthorized, detail) }
        }
        MetaError::Refused(status) => WireError::refused(code_of(status.code()), detail),
    };
    Error::Request { what, source }
}

fn code_of(code: Code) -> ErrorCode {
    match code {
        Code::NotFound => ErrorCode::UnknownTopic,
        Code::AlreadyExists => ErrorCode::AlreadyExists,
        Code::InvalidArgument | Code::OutOfRange => ErrorCode::InvalidArgument,
        Code::PermissionDenied | Code::Unauthenticated => ErrorCode::NotAuthorized,
        Code::FailedPrecondition | Code::Unavailable | Code::Aborted | Code::Cancelled => ErrorCode::Unavailable,
        Code::ResourceExhausted => ErrorCode::Overloaded,
        Code::DeadlineExceeded => ErrorCode::DeadlineExceeded,
        Code::Ok | Code::Unknown | Code::Unimplemented | Code::Internal | Code::DataLoss => ErrorCode::Internal,
    }
}

fn nonsense(what: String, detail: Nonsense) -> Error {
    Error::Protocol { what, detail }
}
