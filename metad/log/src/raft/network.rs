//! openraft's network over gRPC. Entries go over one long stream, many in flight: a proposal waits for one round trip,
//! never for the answer to the one before it.

use super::codec::{decode, encode};
use super::peers::{Peer, Peers};
use super::types::{AppendRequest, AppendResult, Snapshot, Types, Vote, VoteRequest, VoteResponse};
use bytes::Bytes;
use futures::{Stream, StreamExt};
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Unreachable};
use openraft::network::{RPCOption, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult, TransferLeaderRequest,
    TransferLeaderResponse,
};
use openraft::{EmptyNode, OptionalSend};
use parking_lot::Mutex;
use seam_grpc::RaftMessage;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Code, Status};

type RpcError = RPCError<Types>;

/// A piece of a snapshot in flight. Bytes.
const CHUNK_BYTES: usize = 256 << 10;

/// The first message of a snapshot: what follows, and under whose vote.
#[derive(Serialize, Deserialize)]
pub struct SnapshotHead {
    pub vote: Vote,
    pub meta: super::types::SnapshotMeta,
    pub bytes: u64,
}

/// Makes a [`Link`] to a member.
pub struct Network {
    pub peers: Peers,
    /// A stream with requests in flight and no answer for this long is given up and begun again.
    pub stall: Duration,
    pub snapshot_timeout: Duration,
}

impl Network {
    fn link(&self, target: u64, choose: impl Fn(&Peer) -> Channel) -> Link {
        let peer = self.peers.get(target);
        let channel = peer.as_deref().map(choose);
        Link { target, peer, channel, stall: self.stall, snapshot_timeout: self.snapshot_timeout }
    }
}

impl RaftNetworkFactory<Types> for Network {
    type Network = Link;

    async fn new_client(&mut self, target: u64, _node: &EmptyNode) -> Link {
        self.link(target, |peer| peer.control.clone())
    }

    async fn new_heartbeat_client(&mut self, target: u64, _node: &EmptyNode) -> Link {
        self.link(target, |peer| peer.beat.clone())
    }

    async fn new_snapshot_client(&mut self, target: u64, _node: &EmptyNode) -> Link {
        self.link(target, |peer| peer.bulk.clone())
    }
}

/// One use of the connection to one member.
pub struct Link {
    target: u64,
    peer: Option<Arc<Peer>>,
    channel: Option<Channel>,
    stall: Duration,
    snapshot_timeout: Duration,
}

/// A member that is not there is left alone for a while; anything else is tried again soon.
fn rpc_error(status: &Status) -> RpcError {
    match status.code() {
        Code::Unavailable | Code::PermissionDenied | Code::Unauthenticated => {
            RPCError::Unreachable(Unreachable::new(status))
        }
        _ => RPCError::Network(NetworkError::new(status)),
    }
}

fn network_error(why: impl ToString) -> RpcError {
    RPCError::Network(NetworkError::from_string(why))
}

impl Link {
    fn client(&self) -> Result<seam_grpc::raft_client::RaftClient<Channel>, RpcError> {
        let channel = self.channel.as_ref().ok_or_else(|| {
            RPCError::Unreachable(Unreachable::from_string(format!("member {} is not configured here", self.target)))
        })?;
        Ok(Peer::client(channel))
    }

    fn name(&self) -> &str {
        self.peer.as_ref().map_or("?", |peer| peer.member.name.as_str())
    }

    /// Sends what comes out of `input` and gives the answers in the same order.
    ///
    /// The first request is taken before anything is dialed: openraft pauses in there after an error, and a member that
    /// refuses connections would otherwise be tried without a pause.
    async fn stream<S>(&mut self, input: S) -> Result<BoxStream<'static, Result<AppendResult, RpcError>>, RpcError>
    where
        S: Stream<Item = AppendRequest> + Send + Unpin + 'static,
    {
        let mut input = input.fuse();
        let Some(first) = input.next().await else { return Ok(futures::stream::empty().boxed()) };
        let input = futures::stream::iter([first]).chain(input);
        let mut client = self.client()?;
        let flight = Flight::default();
        let sent = flight.clone();
        let name = self.name().to_owned();
        // A request that does not encode ends the stream; openraft then begins another and says so.
        let requests = input.map(move |request| {
            sent.sent();
            encode(&request).map(|body| RaftMessage { body }).map_err(|why| {
                tracing::error!(peer = %name, %why, "an append request does not encode");
            })
        });
        let requests = requests
            .take_while(|request| futures::future::ready(request.is_ok()))
            .filter_map(|request| futures::future::ready(request.ok()));
        let answer = tokio::time::timeout(self.stall, client.append(requests)).await;
        let answers = answer.map_err(|_| network_error("no answer to a new stream"))?.map_err(|why| rpc_error(&why))?;
        Ok(answers_of(answers.into_inner(), flight, self.stall).boxed())
    }

    async fn unary<R, A>(&self, request: &R, ttl: Duration, call: Unary) -> Result<A, RpcError>
    where
        R: Serialize + Sync,
        A: serde::de::DeserializeOwned,
    {
        let mut client = self.client()?;
        let message = RaftMessage { body: encode(request).map_err(network_error)? };
        let answer = async {
            match call {
                Unary::Vote => client.vote(message).await,
                Unary::PreVote => client.pre_vote(message).await,
                Unary::TransferLeader => client.transfer_leader(message).await,
            }
        };
        let answer = tokio::time::timeout(ttl, answer).await.map_err(|_| network_error("no answer in time"))?;
        let answer = answer.map_err(|why| rpc_error(&why))?;
        decode(&answer.into_inner().body).map_err(network_error)
    }
}

#[derive(Clone, Copy)]
enum Unary {
    Vote,
    PreVote,
    TransferLeader,
}

/// When the requests without an answer were sent, oldest first.
#[derive(Clone, Default)]
struct Flight(Arc<Mutex<VecDeque<Instant>>>);

impl Flight {
    fn sent(&self) {
        self.0.lock().push_back(Instant::now());
    }

    fn answered(&self) {
        self.0.lock().pop_front();
    }

    fn oldest(&self) -> Option<Duration> {
        self.0.lock().front().map(Instant::elapsed)
    }
}

/// Answers in order, each decoded; an error if one is overdue.
fn answers_of(
    answers: tonic::Streaming<RaftMessage>,
    flight: Flight,
    stall: Duration,
) -> impl Stream<Item = Result<AppendResult, RpcError>> + Send + 'static {
    futures::stream::unfold(Some((answers, flight)), move |state| async move {
        let (mut answers, flight) = state?;
        loop {
            match tokio::time::timeout(stall, answers.message()).await {
                Ok(Ok(Some(message))) => {
                    flight.answered();
                    let result = decode::<AppendResult>(&message.body).map_err(network_error);
                    return Some((result, Some((answers, flight))));
                }
                Ok(Ok(None)) => return None,
                Ok(Err(status)) => return Some((Err(rpc_error(&status)), None)),
                Err(_) if flight.oldest().is_some_and(|age| age >= stall) => {
                    return Some((Err(network_error("a stream of entries makes no progress")), None));
                }
                Err(_) => {}
            }
        }
    })
}

impl RaftNetworkV2<Types> for Link {
    type SnapshotData = Bytes;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RpcError> {
        let mut answers = self.stream(futures::stream::iter([rpc])).await?;
        let answer = answers.next().await.ok_or_else(|| network_error("the stream ended without an answer"))?;
        Ok(answer?.into())
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<'s, Result<BoxStream<'s, Result<StreamAppendResult<Types>, RpcError>>, RpcError>>
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + OptionalSend + Unpin + 'static,
    {
        Box::pin(async move {
            let answers: BoxStream<'s, _> = self.stream(input).await?;
            Ok(answers)
        })
    }

    async fn vote(&mut self, rpc: VoteRequest, option: RPCOption) -> Result<VoteResponse, RpcError> {
        self.unary(&rpc, option.hard_ttl(), Unary::Vote).await
    }

    async fn pre_vote(&mut self, rpc: VoteRequest, option: RPCOption) -> Result<VoteResponse, RpcError> {
        self.unary(&rpc, option.hard_ttl(), Unary::PreVote).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let mut client = self.client()?;
        let head = SnapshotHead { vote, meta: snapshot.meta, bytes: snapshot.snapshot.len() as u64 };
        let head = encode(&head).map_err(network_error)?;
        let mut rest = snapshot.snapshot;
        let chunks = std::iter::from_fn(move || {
            let take = rest.len().min(CHUNK_BYTES);
            (take > 0).then(|| RaftMessage { body: rest.split_to(take) })
        });
        let messages = futures::stream::iter(std::iter::once(RaftMessage { body: head }).chain(chunks));
        let transfer = tokio::time::timeout(self.snapshot_timeout, client.snapshot(messages));
        let answer = tokio::select! {
            closed = cancel => return Err(closed.into()),
            answer = transfer => answer,
        };
        let answer = answer.map_err(|_| network_error("the snapshot took too long"))?.map_err(|why| rpc_error(&why))?;
        Ok(decode(&answer.into_inner().body).map_err(network_error)?)
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RpcError> {
        self.unary(&req, option.hard_ttl(), Unary::TransferLeader).await
    }
}
