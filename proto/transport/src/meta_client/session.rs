//! A node's session with the leader: the stream of its heartbeats. One at a time, each answered before the next.

use super::members::Members;
use super::metadata;
use seam_grpc as rpc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Response, Status, Streaming};

type Opened = (mpsc::Sender<rpc::HeartbeatRequest>, Streaming<rpc::HeartbeatResponse>);

pub(super) async fn open(channel: Channel, first: rpc::HeartbeatRequest) -> Result<Response<Opened>, Status> {
    let (beats, stream) = mpsc::channel(1);
    beats.try_send(first).map_err(|_| Status::internal("a queue just made has room"))?;
    let response = metadata(channel).session(ReceiverStream::new(stream)).await?;
    Ok(response.map(|answers| (beats, answers)))
}

/// A standing session. Dropping it ends it, which the leader takes for the end of this process.
pub struct MetaSession {
    members: Arc<Members>,
    /// For the answer to one heartbeat.
    patience: Duration,
    beats: mpsc::Sender<rpc::HeartbeatRequest>,
    answers: Streaming<rpc::HeartbeatResponse>,
    /// When the heartbeat that is not answered yet left.
    sent: Instant,
    round_trip: Duration,
}

impl MetaSession {
    pub(super) fn new(
        members: Arc<Members>,
        patience: Duration,
        beats: mpsc::Sender<rpc::HeartbeatRequest>,
        answers: Streaming<rpc::HeartbeatResponse>,
    ) -> Self {
        MetaSession { members, patience, beats, answers, sent: Instant::now(), round_trip: Duration::ZERO }
    }

    /// Of the last heartbeat that was answered; zero before the first.
    pub fn round_trip(&self) -> Duration {
        self.round_trip
    }

    /// The answer to the heartbeat sent last.
    ///
    /// # Errors
    /// The session is over: the connection broke, the leader stepped down or gave no answer in time. Open another.
    pub async fn answer(&mut self) -> Result<rpc::HeartbeatResponse, Status> {
        match tokio::time::timeout_at(self.sent + self.patience, self.answers.message()).await {
            Ok(Ok(Some(answer))) => {
                self.round_trip = self.sent.elapsed();
                Ok(answer)
            }
            Ok(Ok(None)) => Err(Status::unavailable("the leader ended the session")),
            Ok(Err(status)) => Err(self.learn_from(status)),
            Err(_) => {
                if let Some(silent) = self.members.leader() {
                    self.members.is_not_leader(silent);
                }
                Err(Status::deadline_exceeded("the leader gave no answer to a heartbeat in time"))
            }
        }
    }

    /// Sends another heartbeat.
    ///
    /// # Errors
    /// The session is over.
    pub async fn beat(&mut self, beat: rpc::HeartbeatRequest) -> Result<(), Status> {
        self.sent = Instant::now();
        self.beats.send(beat).await.map_err(|_| Status::unavailable("the session is over"))
    }

    /// Resolves when the session is over. Only while no answer is due.
    pub async fn over(&mut self) -> Status {
        match self.answers.message().await {
            Ok(Some(_)) => Status::internal("an answer to no heartbeat"),
            Ok(None) => Status::unavailable("the leader ended the session"),
            Err(status) => self.learn_from(status),
        }
    }

    /// A leader that steps down names the next one where it knows it. One whose connection broke may still lead.
    fn learn_from(&self, status: Status) -> Status {
        if let Some(leader) = self.members.named_in(status.metadata()) {
            self.members.is_leader(leader);
        }
        status
    }
}
