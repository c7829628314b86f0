//! The gRPC service `Raft`: what other members ask of this one. Only a configured member may ask.

use super::codec::{decode, encode};
use super::machine::Machine;
use super::network::SnapshotHead;
use super::types::{AppendRequest, Snapshot, Types, VoteRequest};
use bytes::{Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
use openraft::Raft;
use openraft::raft::TransferLeaderRequest;
use seam_grpc::RaftMessage;
use seam_grpc::raft_server::Raft as RaftRpc;
use serde::Serialize;
use std::sync::Arc;
use tonic::{Request, Response, Status, Streaming};

/// Decides whether a request comes from a member. Reads the peer's verified certificate, never the request.
pub type Admit = Arc<dyn Fn(&tonic::Extensions) -> Result<(), Status> + Send + Sync>;

/// Serves one member's part of the log.
#[derive(Clone)]
pub struct RaftService {
    raft: Raft<Types, Machine>,
    admit: Admit,
    /// A larger snapshot is refused. Bytes.
    snapshot_bytes: u64,
}

impl RaftService {
    pub fn new(raft: Raft<Types, Machine>, admit: Admit, snapshot_bytes: u64) -> Self {
        RaftService { raft, admit, snapshot_bytes }
    }

    /// An empty body asks for nothing: it keeps the connection warm.
    async fn vote_like<F, A, E>(
        &self,
        request: Request<RaftMessage>,
        ask: impl FnOnce(Raft<Types, Machine>, VoteRequest) -> F,
    ) -> Result<Response<RaftMessage>, Status>
    where
        F: Future<Output = Result<A, E>>,
        A: Serialize,
        E: std::fmt::Display,
    {
        (self.admit)(request.extensions())?;
        let body = request.into_inner().body;
        if body.is_empty() {
            return Ok(Response::new(RaftMessage { body: Bytes::new() }));
        }
        let request = decode(&body).map_err(bad)?;
        answer(&ask(self.raft.clone(), request).await.map_err(stopped)?)
    }
}

fn bad(why: impl ToString) -> Status {
    Status::invalid_argument(why.to_string())
}

fn stopped(why: impl std::fmt::Display) -> Status {
    Status::unavailable(format!("the metadata log of this member has stopped: {why}"))
}

fn answer<A: Serialize>(value: &A) -> Result<Response<RaftMessage>, Status> {
    let body = encode(value).map_err(|why| Status::internal(why.to_string()))?;
    Ok(Response::new(RaftMessage { body }))
}

/// The requests of a stream up to the first that cannot be read; openraft then sees the stream end.
fn requests_of(stream: Streaming<RaftMessage>) -> impl Stream<Item = AppendRequest> + Send + 'static {
    futures::stream::unfold(stream, |mut stream| async move {
        let message = match stream.message().await {
            Ok(message) => message?,
            Err(status) => {
                tracing::debug!(%status, "a stream of entries broke");
                return None;
            }
        };
        match decode(&message.body) {
            Ok(request) => Some((request, stream)),
            Err(why) => {
                tracing::warn!(%why, "a stream of entries is given up");
                None
            }
        }
    })
}

#[tonic::async_trait]
impl RaftRpc for RaftService {
    async fn vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        self.vote_like(request, |raft, vote| async move { raft.vote(vote).await }).await
    }

    async fn pre_vote(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        self.vote_like(request, |raft, vote| async move { raft.pre_vote(vote).await }).await
    }

    type AppendStream = BoxStream<'static, Result<RaftMessage, Status>>;

    async fn append(&self, request: Request<Streaming<RaftMessage>>) -> Result<Response<Self::AppendStream>, Status> {
        (self.admit)(request.extensions())?;
        let results = self.raft.stream_append(requests_of(request.into_inner()));
        let answers = results.map(|result| {
            let result = result.map_err(stopped)?;
            let body = encode(&result).map_err(|why| Status::internal(why.to_string()))?;
            Ok(RaftMessage { body })
        });
        Ok(Response::new(answers.boxed()))
    }

    async fn snapshot(&self, request: Request<Streaming<RaftMessage>>) -> Result<Response<RaftMessage>, Status> {
        (self.admit)(request.extensions())?;
        let mut stream = request.into_inner();
        let head = stream.message().await?.ok_or_else(|| bad("a snapshot without its head"))?;
        let head: SnapshotHead = decode(&head.body).map_err(bad)?;
        if head.bytes > self.snapshot_bytes {
            let text = format!("a snapshot of {} bytes exceeds the limit of {}", head.bytes, self.snapshot_bytes);
            return Err(Status::resource_exhausted(text));
        }
        let bytes = usize::try_from(head.bytes).map_err(bad)?;
        let mut data = BytesMut::with_capacity(bytes);
        while let Some(chunk) = stream.message().await? {
            if data.len() + chunk.body.len() > bytes {
                return Err(bad("a snapshot longer than its head said"));
            }
            data.extend_from_slice(&chunk.body);
        }
        if data.len() != bytes {
            return Err(bad(format!("a snapshot of {} bytes ended after {}", bytes, data.len())));
        }
        let snapshot = Snapshot { meta: head.meta, snapshot: data.freeze() };
        answer(&self.raft.install_full_snapshot(head.vote, snapshot).await.map_err(stopped)?)
    }

    async fn transfer_leader(&self, request: Request<RaftMessage>) -> Result<Response<RaftMessage>, Status> {
        (self.admit)(request.extensions())?;
        let request: TransferLeaderRequest<Types> = decode(&request.into_inner().body).map_err(bad)?;
        answer(&self.raft.handle_transfer_leader(request).await.map_err(stopped)?)
    }
}
