//! The watch stream, kept alive over members: resumed by version, moved to the leader, left when it stalls.

use super::config::MetaClientConfig;
use super::members::Members;
use super::metadata;
use seam_grpc::{WatchRequest, WatchUpdate};
use seam_wire::meta::{MetaItem, MetaUpdate};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::Stream;
use tonic::{Status, Streaming};

/// Updates in order of their versions, each once. Ends only with the runtime; stops when dropped.
pub struct MetaWatch {
    updates: mpsc::Receiver<MetaUpdate>,
    task: JoinHandle<()>,
}

impl MetaWatch {
    pub(super) fn start(members: Arc<Members>, config: MetaClientConfig, after_version: u64, who: String) -> Self {
        let (sender, updates) = mpsc::channel(config.watch_queue.max(1));
        let leader = members.follow_leader();
        let follower = Follower { members, config, who, version: after_version, leader, sender };
        MetaWatch { updates, task: tokio::spawn(follower.run()) }
    }

    /// The next update. Cancel-safe. `None` only while the runtime shuts down.
    pub async fn next(&mut self) -> Option<MetaUpdate> {
        self.updates.recv().await
    }
}

impl Stream for MetaWatch {
    type Item = MetaUpdate;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<MetaUpdate>> {
        self.updates.poll_recv(cx)
    }
}

impl Drop for MetaWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// An open stream at one member.
struct Source {
    at: usize,
    stream: Streaming<WatchUpdate>,
    /// Parts of a snapshot that has not come whole yet.
    parts: Vec<MetaItem>,
}

impl Source {
    /// A large snapshot comes in parts, all but the last of version 0. Nobody sees half a state: it is handed on whole.
    fn assemble(&mut self, mut update: MetaUpdate) -> Option<MetaUpdate> {
        if !update.reset {
            return Some(update);
        }
        if update.version == 0 && !update.items.is_empty() {
            self.parts.append(&mut update.items);
            return None;
        }
        if !self.parts.is_empty() {
            self.parts.append(&mut update.items);
            update.items = std::mem::take(&mut self.parts);
        }
        Some(update)
    }
}

struct Follower {
    members: Arc<Members>,
    config: MetaClientConfig,
    who: String,
    /// The newest version handed on.
    version: u64,
    leader: watch::Receiver<Option<usize>>,
    sender: mpsc::Sender<MetaUpdate>,
}

/// Why a source is left.
enum Left {
    /// Nobody listens any more.
    Unwatched,
    /// The member broke off, stalled or sent nonsense.
    Broken(String),
    /// Another member leads; it knows first.
    Moved(Box<Source>),
}

impl Follower {
    async fn run(mut self) {
        let mut at = self.members.leader().unwrap_or(0);
        let mut tries = 0;
        loop {
            let opened = self.open(at).await;
            let mut source = match opened {
                Ok(source) => Some(source),
                Err(why) => {
                    let member = &self.members.get(at).name;
                    tracing::debug!(%member, %why, "cannot watch this metadata member");
                    None
                }
            };
            while let Some(open) = source.take() {
                at = open.at;
                match self.follow(open, &mut tries).await {
                    Left::Unwatched => return,
                    Left::Moved(next) => source = Some(*next),
                    Left::Broken(why) => {
                        let member = &self.members.get(at).name;
                        tracing::info!(%member, %why, "the watch of a metadata member ended; going on with another");
                    }
                }
            }
            tries += 1;
            at = self.next_member(at);
            tokio::select! {
                () = tokio::time::sleep(self.config.backoff(tries)) => {}
                () = self.sender.closed() => return,
            }
        }
    }

    /// The leader unless it is the one that just failed, else the next in turn.
    fn next_member(&self, failed: usize) -> usize {
        match self.members.leader() {
            Some(leader) if leader != failed => leader,
            _ => (failed + 1) % self.members.count(),
        }
    }

    /// Opens a stream at `at`; if that member names another as the leader, at that one if it can be had.
    async fn open(&self, at: usize) -> Result<Source, String> {
        let (source, leader) = self.open_at(at).await.map_err(|why| why.message().to_owned())?;
        match leader {
            Some(leader) if leader != at => match self.open_at(leader).await {
                Ok((better, _)) => Ok(better),
                Err(_) => Ok(source),
            },
            _ => Ok(source),
        }
    }

    async fn open_at(&self, at: usize) -> Result<(Source, Option<usize>), Status> {
        let mut client = metadata(self.members.get(at).channel.clone());
        let request = WatchRequest { after_version: self.version, who: self.who.clone() };
        let answer = tokio::time::timeout(self.config.attempt_timeout(), client.watch(request)).await;
        let answer = answer.map_err(|_| Status::deadline_exceeded("no answer"))??;
        let leader = self.members.named_in(answer.metadata());
        Ok((Source { at, stream: answer.into_inner(), parts: Vec::new() }, leader))
    }

    async fn follow(&mut self, mut source: Source, tries: &mut u32) -> Left {
        loop {
            tokio::select! {
                message = tokio::time::timeout(self.config.stall(), source.stream.message()) => {
                    let message = match message {
                        Err(_) => return Left::Broken("no sign of life".to_owned()),
                        Ok(Err(status)) => return Left::Broken(status.message().to_owned()),
                        Ok(Ok(None)) => return Left::Broken("it ended the stream".to_owned()),
                        Ok(Ok(Some(message))) => message,
                    };
                    *tries = 0;
                    let update: MetaUpdate = match postcard::from_bytes(&message.update) {
                        Ok(update) => update,
                        Err(why) => return Left::Broken(format!("an update does not parse: {why}")),
                    };
                    let Some(update) = source.assemble(update) else { continue };
                    // An update without news is a sign of life.
                    if update.version <= self.version && !update.reset {
                        continue;
                    }
                    self.version = update.version;
                    if self.sender.send(update).await.is_err() {
                        return Left::Unwatched;
                    }
                }
                changed = self.leader.changed() => {
                    let leader = *self.leader.borrow_and_update();
                    if changed.is_err() {
                        return Left::Unwatched;
                    }
                    // The old stream serves until the new one is open: no update waits for the move.
                    if let Some(leader) = leader.filter(|leader| *leader != source.at)
                        && let Ok((better, _)) = self.open_at(leader).await
                    {
                        return Left::Moved(Box::new(better));
                    }
                }
                () = self.sender.closed() => return Left::Unwatched,
            }
        }
    }
}
