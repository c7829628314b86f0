//! The service `Admin`: operators and clients. Changes go through the driver; reads come from the leader's state, once a
//! barrier has shown that it is the newest.

use crate::engine::{Engine, View};
use crate::status::{bad, failed, name_leader, not_leader, unexpected};
use crate::views::{node_info, read_config, read_patch, roll_record, topic_info};
use metad_core::{Admin as AdminInput, Answer, Input};
use metad_log::ProposeError;
use seam_grpc as rpc;
use seam_grpc::admin_server::Admin;
use seam_transport::Role;
use seam_transport::grpc::require_role;
use seam_wire::meta::TopicView;
use seam_wire::{NodeId, SegmentId, TopicId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tonic::{Request, Response, Status};

pub struct AdminService {
    pub engine: Arc<Engine>,
    pub name: String,
    pub members: Vec<String>,
}

impl AdminService {
    fn admit<T>(&self, request: Request<T>) -> Result<T, Status> {
        require_role(&request, &[Role::Client]).inspect_err(|_| {
            self.engine.counts.bad_requests.fetch_add(1, Ordering::Relaxed);
        })?;
        Ok(request.into_inner())
    }

    /// What the state says now, and nobody can have seen newer.
    async fn read<A>(&self, look: impl FnOnce(View<'_>) -> Result<A, Status>) -> Result<Response<A>, Status> {
        match self.engine.log().barrier().await {
            Ok(()) => {}
            Err(
                ProposeError::NotLeader { .. }
                | ProposeError::Unknown(_)
                | ProposeError::Overloaded
                | ProposeError::ShuttingDown
                | ProposeError::TooLarge { .. },
            ) => return Err(not_leader(&self.engine)),
        }
        let view = self.engine.view();
        if !view.driver().leads() {
            drop(view);
            return Err(not_leader(&self.engine));
        }
        look(view).map(Response::new)
    }

    async fn change(&self, request: AdminInput) -> Result<Answer, Status> {
        match self.engine.ask(|reply| Input::Admin { request, reply }).await {
            Answer::NotLeader => Err(not_leader(&self.engine)),
            Answer::Failed(error) => Err(failed(error)),
            answer @ (Answer::Topic(_)
            | Answer::Deleted
            | Answer::Drained
            | Answer::Rolling(_)
            | Answer::LossAccepted { .. }
            | Answer::Heartbeat { .. }
            | Answer::Registered { .. }
            | Answer::Report { .. }) => Ok(answer),
        }
    }

    fn show(&self, id: TopicId) -> Result<Response<rpc::TopicInfo>, Status> {
        let view = self.engine.view();
        let topic = view.meta().topic(id).ok_or_else(|| Status::internal(format!("{id} is gone: this is a bug")))?;
        Ok(Response::new(topic_info(&view, &topic)))
    }

    async fn topic_change(&self, request: AdminInput) -> Result<Response<rpc::TopicInfo>, Status> {
        match self.change(request).await? {
            Answer::Topic(id) => self.show(id),
            answer => Err(unexpected(&answer)),
        }
    }
}

fn find(view: &View<'_>, name: &str) -> Result<TopicView, Status> {
    view.meta().topic_named(name).ok_or_else(|| Status::not_found(format!("topic {name:?} does not exist")))
}

#[tonic::async_trait]
impl Admin for AdminService {
    async fn create_topic(
        &self,
        request: Request<rpc::CreateTopicRequest>,
    ) -> Result<Response<rpc::TopicInfo>, Status> {
        let rpc::CreateTopicRequest { name, config } = self.admit(request)?;
        let config = read_config(config).map_err(|why| bad(&self.engine, why))?;
        self.topic_change(AdminInput::CreateTopic { name, config }).await
    }

    async fn alter_topic(&self, request: Request<rpc::AlterTopicRequest>) -> Result<Response<rpc::TopicInfo>, Status> {
        let request = self.admit(request)?;
        let patch = read_patch(&request).map_err(|why| bad(&self.engine, why))?;
        self.topic_change(AdminInput::AlterTopic { name: request.name, patch }).await
    }

    async fn delete_topic(
        &self,
        request: Request<rpc::DeleteTopicRequest>,
    ) -> Result<Response<rpc::DeleteTopicResponse>, Status> {
        let rpc::DeleteTopicRequest { name } = self.admit(request)?;
        match self.change(AdminInput::DeleteTopic { name }).await? {
            Answer::Deleted => Ok(Response::new(rpc::DeleteTopicResponse {})),
            answer => Err(unexpected(&answer)),
        }
    }

    async fn list_topics(
        &self,
        request: Request<rpc::ListTopicsRequest>,
    ) -> Result<Response<rpc::ListTopicsResponse>, Status> {
        let rpc::ListTopicsRequest {} = self.admit(request)?;
        self.read(|view| {
            let topics = view.meta().topics().map(|topic| topic_info(&view, &topic)).collect();
            Ok(rpc::ListTopicsResponse { topics })
        })
        .await
    }

    async fn describe_topic(
        &self,
        request: Request<rpc::DescribeTopicRequest>,
    ) -> Result<Response<rpc::TopicInfo>, Status> {
        let rpc::DescribeTopicRequest { name } = self.admit(request)?;
        self.read(|view| Ok(topic_info(&view, &find(&view, &name)?))).await
    }

    async fn list_nodes(
        &self,
        request: Request<rpc::ListNodesRequest>,
    ) -> Result<Response<rpc::ListNodesResponse>, Status> {
        let rpc::ListNodesRequest {} = self.admit(request)?;
        self.read(|view| {
            let nodes = view.driver().nodes(view.now, view.meta()).into_iter().map(node_info).collect();
            Ok(rpc::ListNodesResponse { nodes })
        })
        .await
    }

    async fn roll_topic(
        &self,
        request: Request<rpc::RollTopicRequest>,
    ) -> Result<Response<rpc::RollTopicResponse>, Status> {
        let rpc::RollTopicRequest { name, range_index } = self.admit(request)?;
        match self.change(AdminInput::RollTopic { name, range_index }).await? {
            Answer::Rolling(segments) => {
                let rolling = segments.into_iter().map(|segment| segment.0).collect();
                Ok(Response::new(rpc::RollTopicResponse { rolling }))
            }
            answer => Err(unexpected(&answer)),
        }
    }

    async fn drain_node(
        &self,
        request: Request<rpc::DrainNodeRequest>,
    ) -> Result<Response<rpc::DrainNodeResponse>, Status> {
        let rpc::DrainNodeRequest { node_id, drain } = self.admit(request)?;
        match self.change(AdminInput::DrainNode { node: NodeId(node_id), drain }).await? {
            Answer::Drained => Ok(Response::new(rpc::DrainNodeResponse {})),
            answer => Err(unexpected(&answer)),
        }
    }

    async fn accept_loss(
        &self,
        request: Request<rpc::AcceptLossRequest>,
    ) -> Result<Response<rpc::AcceptLossResponse>, Status> {
        let rpc::AcceptLossRequest { name, range_index, segment } = self.admit(request)?;
        let (topic, segment) = (name.clone(), SegmentId(segment));
        match self.change(AdminInput::AcceptLoss { name, range_index, segment }).await? {
            Answer::LossAccepted { epoch, candidate } => {
                tracing::warn!(
                    topic, range_index, %segment, %epoch, %candidate,
                    "an operator gave up what no replica that answers holds of this segment"
                );
                Ok(Response::new(rpc::AcceptLossResponse { epoch: epoch.0, candidate: candidate.0 }))
            }
            answer => Err(unexpected(&answer)),
        }
    }

    async fn roll_history(
        &self,
        request: Request<rpc::RollHistoryRequest>,
    ) -> Result<Response<rpc::RollHistoryResponse>, Status> {
        let rpc::RollHistoryRequest { name, last } = self.admit(request)?;
        self.read(|view| {
            let topic = find(&view, &name)?;
            let last = usize::try_from(last).unwrap_or(usize::MAX);
            let meta = view.meta();
            let rolls = topic.ranges.iter().flat_map(|range| meta.history(*range, last));
            let rolls = rolls.map(|record| roll_record(meta, record));
            Ok(rpc::RollHistoryResponse { rolls: rolls.collect() })
        })
        .await
    }

    /// Any member answers, of itself.
    async fn status(&self, request: Request<rpc::StatusRequest>) -> Result<Response<rpc::StatusResponse>, Status> {
        let rpc::StatusRequest {} = self.admit(request)?;
        let log = self.engine.log().status();
        let leader = self.engine.log().leadership().borrow().leader.clone();
        let (version, counters) = {
            let view = self.engine.view();
            (view.meta().version(), view.meta().counters())
        };
        let mut response = Response::new(rpc::StatusResponse {
            name: self.name.clone(),
            leader: leader.unwrap_or_default(),
            term: log.term,
            version,
            log_bytes: log.log_bytes,
            candidates_made: counters.made,
            candidates_used: counters.used,
            candidates_reclaimed: counters.reclaimed,
            candidates_open: counters.open,
            members: self.members.clone(),
        });
        name_leader(&self.engine, response.metadata_mut());
        Ok(response)
    }
}
