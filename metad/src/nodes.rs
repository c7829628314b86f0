//! The service `Metadata`: what nodes and routers say and watch. A node speaks for itself only, by its certificate.

use crate::engine::Engine;
use crate::status::{bad, denied, failed, name_leader, not_leader, unexpected};
use crate::{session, watching};
use futures::StreamExt;
use futures::stream::BoxStream;
use metad_core::{Answer, Input};
use seam_grpc::metadata_server::Metadata;
use seam_grpc::{
    HeartbeatRequest, HeartbeatResponse, RegisterRequest, RegisterResponse, ReportRequest, ReportResponse,
    WatchRequest, WatchUpdate,
};
use seam_transport::grpc::require_role;
use seam_transport::telemetry::{OpenSpan, extract};
use seam_transport::{Identity, Role};
use seam_wire::report::Report;
use seam_wire::{Incarnation, NodeId};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

pub struct NodesService {
    pub engine: Arc<Engine>,
    pub watchers: usize,
    pub watch_idle: Duration,
}

impl NodesService {
    /// The caller is the node it speaks for: its certificate has the name that the node is registered under.
    fn check_self<T>(&self, request: &Request<T>, node: NodeId) -> Result<(), Status> {
        let identity = self.require(request, &[Role::Segd])?;
        check_speaker(&self.engine, &identity, node)
    }

    fn require<T>(&self, request: &Request<T>, roles: &[Role]) -> Result<Identity, Status> {
        require_role(request, roles).inspect_err(|_| {
            self.engine.counts.bad_requests.fetch_add(1, Ordering::Relaxed);
        })
    }
}

/// The holder of this certificate may speak for this node.
pub(crate) fn check_speaker(engine: &Engine, identity: &Identity, node: NodeId) -> Result<(), Status> {
    let view = engine.view();
    match view.meta().node(node) {
        Some(known) if *known.name != *identity.name => {
            let why = format!("{identity} may not speak for {node}, which is {}", known.name);
            drop(view);
            Err(denied(engine, why))
        }
        // One that is not registered is told to register, by the driver.
        Some(_) | None => Ok(()),
    }
}

#[tonic::async_trait]
impl Metadata for NodesService {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<RegisterResponse>, Status> {
        self.check_self(&request, NodeId(request.get_ref().node_id))?;
        let identity = self.require(&request, &[Role::Segd])?;
        let RegisterRequest { node_id, name, addr, domain, incarnation } = request.into_inner();
        if *name != *identity.name {
            let why = format!("{identity} may not register as {name:?}; use the name in its certificate");
            return Err(denied(&self.engine, why));
        }
        if node_id == 0 || addr.is_empty() || domain.is_empty() || incarnation == 0 {
            return Err(bad(&self.engine, "node_id, addr, domain and incarnation must be given"));
        }
        let input = |reply| Input::Register {
            id: NodeId(node_id),
            name,
            addr,
            domain,
            incarnation: Incarnation(incarnation),
            reply,
        };
        match self.engine.ask(input).await {
            Answer::Registered { version, heartbeat_ms, next_segment } => {
                Ok(Response::new(RegisterResponse { version, heartbeat_ms, next_segment: next_segment.0 }))
            }
            Answer::NotLeader => Err(not_leader(&self.engine)),
            Answer::Failed(error) => Err(failed(error)),
            answer => Err(unexpected(&answer)),
        }
    }

    type SessionStream = ReceiverStream<Result<HeartbeatResponse, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<HeartbeatRequest>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let identity = self.require(&request, &[Role::Segd])?;
        if !*self.engine.leads().borrow() {
            return Err(not_leader(&self.engine));
        }
        let (answers, stream) = mpsc::channel(session::ANSWERS);
        tokio::spawn(session::serve(self.engine.clone(), identity, request.into_inner(), answers));
        let mut response = Response::new(ReceiverStream::new(stream));
        name_leader(&self.engine, response.metadata_mut());
        Ok(response)
    }

    async fn report(&self, request: Request<ReportRequest>) -> Result<Response<ReportResponse>, Status> {
        self.check_self(&request, NodeId(request.get_ref().node_id))?;
        let parent = extract(request.metadata());
        let span = parent.and_then(|parent| OpenSpan::child("metad.report", &parent, Instant::now()));
        let ReportRequest { node_id, incarnation, report } = request.into_inner();
        let report: Report = postcard::from_bytes(&report)
            .map_err(|why| bad(&self.engine, format!("the report does not parse: {why}; check the versions")))?;
        let input =
            |reply| Input::Report { node: NodeId(node_id), incarnation: Incarnation(incarnation), report, reply };
        let answer = self.engine.ask(input).await;
        if let Some(mut span) = span {
            span.attribute("node", NodeId(node_id));
            span.end();
        }
        match answer {
            Answer::Report { done, why } => Ok(Response::new(ReportResponse { done, why })),
            Answer::NotLeader => Err(not_leader(&self.engine)),
            Answer::Failed(error) => Err(failed(error)),
            answer => Err(unexpected(&answer)),
        }
    }

    type WatchStream = BoxStream<'static, Result<WatchUpdate, Status>>;

    async fn watch(&self, request: Request<WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let identity = self.require(&request, &[Role::Segd, Role::Router, Role::Client])?;
        if self.engine.counts.watchers.load(Ordering::Relaxed) >= self.watchers as u64 {
            return Err(Status::resource_exhausted("too many watchers here; ask another member"));
        }
        let WatchRequest { after_version, who } = request.into_inner();
        tracing::debug!(%identity, who, after_version, "watch");
        // A member that was just started would show what was long ago, to whoever knows nothing yet.
        if tokio::time::timeout(watching::CATCH_UP, self.engine.log().caught_up()).await.is_err() {
            return Err(Status::unavailable("this member is still catching up with its own log; ask another member"));
        }
        let updates = watching::watch(self.engine.clone(), after_version, self.watch_idle).boxed();
        let mut response = Response::new(updates);
        name_leader(&self.engine, response.metadata_mut());
        Ok(response)
    }
}
