//! How segd, routers and the SDK talk to metad: any member is asked, the leader is found and remembered.
//!
//! Calls go to the leader, as last seen; a member that is not the leader says who is. A call has one deadline and a
//! bounded number of attempts inside it. All calls of the control plane are idempotent, so one whose answer was lost
//! is simply made again. [`MetaClient::watch`] follows the state by version, over the death of any member.

mod call;
mod config;
mod error;
mod members;
mod session;
mod watch;

pub use config::{MetaClientConfig, MetaMember};
pub use error::{MetaError, RETRY_KEY};
pub use members::LEADER_KEY;
pub use session::MetaSession;
pub use watch::MetaWatch;

use crate::grpc::{ChannelError, GrpcConfig, MAX_MESSAGE_BYTES};
use crate::telemetry::{inject, inject_context};
use crate::tls::TlsMaterial;
use members::Members;
use seam_grpc as rpc;
use seam_grpc::admin_client::AdminClient;
use seam_grpc::metadata_client::MetadataClient;
use seam_wire::report::Report;
use seam_wire::{Incarnation, NodeId, TraceContext};
use std::sync::Arc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// A client of the metadata cluster. Clones share connections and the knowledge of the leader.
#[derive(Clone)]
pub struct MetaClient {
    members: Arc<Members>,
    config: MetaClientConfig,
}

fn metadata(channel: Channel) -> MetadataClient<Channel> {
    MetadataClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE_BYTES)
        .max_encoding_message_size(MAX_MESSAGE_BYTES)
}

fn admin(channel: Channel) -> AdminClient<Channel> {
    AdminClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES).max_encoding_message_size(MAX_MESSAGE_BYTES)
}

/// A request that carries the trace of whoever makes it.
fn traced<T>(message: T) -> Request<T> {
    let mut request = Request::new(message);
    inject(request.metadata_mut());
    request
}

macro_rules! calls {
    ($($(#[$doc:meta])* $service:ident.$name:ident($request:ty) -> $response:ty;)*) => {$(
        $(#[$doc])*
        ///
        /// # Errors
        /// [`MetaError::Refused`] with the member's reason, or [`MetaError::Deadline`].
        pub async fn $name(&self, request: $request) -> Result<$response, MetaError> {
            self.call(stringify!($name), &request, |channel, request| async move {
                $service(channel).$name(traced(request)).await
            })
            .await
        }
    )*};
}

impl MetaClient {
    /// Prepares connections to `members`; none is made before it is used.
    ///
    /// # Errors
    /// An address or a name that cannot be dialed, or no member at all.
    pub fn new(
        members: &[MetaMember],
        tls: &TlsMaterial,
        grpc: &GrpcConfig,
        config: MetaClientConfig,
    ) -> Result<MetaClient, ChannelError> {
        let members = Arc::new(Members::new(members, tls, grpc)?);
        Ok(MetaClient { members, config })
    }

    /// The leader's name, as last seen.
    pub fn leader(&self) -> Option<String> {
        self.members.leader_name()
    }

    calls! {
        /// A node came up.
        metadata.register(rpc::RegisterRequest) -> rpc::RegisterResponse;
        /// Changes a topic's settings, from the next prepared segment on.
        admin.alter_topic(rpc::AlterTopicRequest) -> rpc::TopicInfo;
        /// Deletes a topic.
        admin.delete_topic(rpc::DeleteTopicRequest) -> rpc::DeleteTopicResponse;
        /// Lists the topics.
        admin.list_topics(rpc::ListTopicsRequest) -> rpc::ListTopicsResponse;
        /// Shows a topic with its chains.
        admin.describe_topic(rpc::DescribeTopicRequest) -> rpc::TopicInfo;
        /// Lists the nodes.
        admin.list_nodes(rpc::ListNodesRequest) -> rpc::ListNodesResponse;
        /// Asks the heads of a topic to roll.
        admin.roll_topic(rpc::RollTopicRequest) -> rpc::RollTopicResponse;
        /// Takes a node out of placement, or puts it back.
        admin.drain_node(rpc::DrainNodeRequest) -> rpc::DrainNodeResponse;
        /// Gives up what nobody can tell of a range's head.
        admin.accept_loss(rpc::AcceptLossRequest) -> rpc::AcceptLossResponse;
        /// The rolls of a topic.
        admin.roll_history(rpc::RollHistoryRequest) -> rpc::RollHistoryResponse;
        /// The state of the member that answers: the leader where one is known.
        admin.status(rpc::StatusRequest) -> rpc::StatusResponse;
    }

    /// Opens a session with the leader: `first` is its first heartbeat, whose answer is the next thing to take.
    ///
    /// # Errors
    /// [`MetaError::Refused`] with the member's reason, or [`MetaError::Deadline`].
    pub async fn open_session(&self, first: rpc::HeartbeatRequest) -> Result<MetaSession, MetaError> {
        let open = |channel: Channel, first| async move { session::open(channel, first).await };
        let (beats, answers) = self.call("session", &first, open).await?;
        Ok(MetaSession::new(self.members.clone(), self.config.attempt_timeout(), beats, answers))
    }

    /// Reports to the leader. `done == false`: try again later.
    ///
    /// # Errors
    /// [`MetaError::Refused`] with the member's reason, or [`MetaError::Deadline`].
    pub async fn report(
        &self,
        node: NodeId,
        incarnation: Incarnation,
        report: &Report,
        trace: Option<TraceContext>,
    ) -> Result<rpc::ReportResponse, MetaError> {
        let body = postcard::to_allocvec(report)
            .map_err(|why| MetaError::Refused(Status::internal(format!("the report does not encode: {why}"))))?;
        let request = rpc::ReportRequest { node_id: node.0, incarnation: incarnation.0, report: body.into() };
        self.call("report", &request, |channel, request| async move {
            let mut request = traced(request);
            inject_context(request.metadata_mut(), trace.as_ref());
            metadata(channel).report(request).await
        })
        .await
    }

    /// Makes a topic. If an attempt's answer was lost and the topic is there as asked, that is success.
    ///
    /// # Errors
    /// [`MetaError::Refused`] with the member's reason, or [`MetaError::Deadline`].
    pub async fn create_topic(&self, request: rpc::CreateTopicRequest) -> Result<rpc::TopicInfo, MetaError> {
        let mut unsure = false;
        let create = |channel, request| async move { admin(channel).create_topic(traced(request)).await };
        let outcome = self.call_noting("create_topic", &request, create, &mut unsure).await;
        match outcome {
            Err(MetaError::Refused(status)) if unsure && status.code() == Code::AlreadyExists => {
                let there = self.describe_topic(rpc::DescribeTopicRequest { name: request.name.clone() }).await?;
                if there.config == request.config { Ok(there) } else { Err(MetaError::Refused(status)) }
            }
            outcome => outcome,
        }
    }

    /// Follows the state: everything after `after_version`, or a snapshot first (`reset`) where that is too old or 0.
    /// Never ends and never fails: it goes from member to member, and prefers the leader, who knows first.
    pub fn watch(&self, after_version: u64, who: &str) -> MetaWatch {
        MetaWatch::start(self.members.clone(), self.config.clone(), after_version, who.to_owned())
    }
}
