//! The other members as this one reaches them: connections that are made ahead of need and kept.
//!
//! An election needs votes within its timeout; on a slow link, making a TCP and a TLS connection first would take three
//! round trips of it. So every member keeps a warm connection to every other, and measures the round trip while at it.

use super::settings::Member;
use bytes::Bytes;
use seam_grpc::RaftMessage;
use seam_grpc::raft_client::RaftClient;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tonic::transport::Channel;

/// Makes a connection to a member that connects when first used and again whenever it broke.
pub type Dialer = Arc<dyn Fn(&Member) -> Channel + Send + Sync>;

/// No message between members is larger. Bytes.
pub const MESSAGE_BYTES: usize = 16 << 20;
/// How often an idle connection is tried. Also how often the round trip is measured.
const WARM_EVERY: Duration = Duration::from_secs(1);

/// One other member.
pub struct Peer {
    pub member: Member,
    /// Votes and entries.
    pub control: Channel,
    /// Heartbeats: never behind a queue of entries.
    pub beat: Channel,
    /// Snapshots: large, and in nobody's way.
    pub bulk: Channel,
    round_trip_us: AtomicU64,
}

impl Peer {
    /// A client on one of the peer's connections.
    pub fn client(channel: &Channel) -> RaftClient<Channel> {
        RaftClient::new(channel.clone())
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES)
    }

    /// The last round trip measured, 0 before the first.
    pub fn round_trip_us(&self) -> u64 {
        self.round_trip_us.load(Ordering::Relaxed)
    }

    /// An empty pre-vote: answered with an empty body, changes nothing anywhere. Returns whether it was answered.
    async fn warm(&self, channel: &Channel) -> bool {
        let started = Instant::now();
        let mut client = Peer::client(channel);
        let call = client.pre_vote(RaftMessage { body: Bytes::new() });
        match tokio::time::timeout(WARM_EVERY * 5, call).await {
            Ok(Ok(_)) => {
                let micros = u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
                self.round_trip_us.store(micros, Ordering::Relaxed);
                true
            }
            Ok(Err(why)) => {
                tracing::debug!(peer = %self.member.name, %why, "member not reached");
                false
            }
            Err(_) => {
                tracing::debug!(peer = %self.member.name, "member does not answer");
                false
            }
        }
    }
}

/// All other members, by id.
#[derive(Clone)]
pub struct Peers {
    by_id: Arc<BTreeMap<u64, Arc<Peer>>>,
}

impl Peers {
    /// Prepares connections to every member but `own`.
    pub fn new(members: &[Member], own: u64, dial: &Dialer) -> Self {
        let others = members.iter().filter(|member| member.id != own);
        let by_id = others.map(|member| {
            let peer = Peer {
                member: member.clone(),
                control: dial(member),
                beat: dial(member),
                bulk: dial(member),
                round_trip_us: AtomicU64::new(0),
            };
            (member.id, Arc::new(peer))
        });
        Peers { by_id: Arc::new(by_id.collect()) }
    }

    pub fn get(&self, id: u64) -> Option<Arc<Peer>> {
        self.by_id.get(&id).cloned()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Peer>> {
        self.by_id.values()
    }

    /// Keeps the connections warm until dropped.
    pub async fn keep_warm(self, heartbeat: Duration) {
        let tasks = self.by_id.values().map(|peer| {
            let peer = peer.clone();
            async move {
                let mut told = false;
                let mut was_there = true;
                loop {
                    let (is_there, _) = tokio::join!(peer.warm(&peer.control), peer.warm(&peer.beat));
                    match (was_there, is_there) {
                        (true, false) => tracing::warn!(peer = %peer.member.name, "metadata member out of reach"),
                        (false, true) => tracing::info!(peer = %peer.member.name, "metadata member in reach"),
                        (true, true) | (false, false) => {}
                    }
                    was_there = is_there;
                    let round_trip = Duration::from_micros(peer.round_trip_us());
                    if round_trip > heartbeat && !told {
                        tracing::warn!(
                            peer = %peer.member.name, ?round_trip, ?heartbeat,
                            "the round trip exceeds heartbeat_ms: an idle leader will lose its lease; raise timing.heartbeat_ms"
                        );
                    }
                    told = round_trip > heartbeat;
                    tokio::time::sleep(WARM_EVERY).await;
                }
            }
        });
        futures::future::join_all(tasks).await;
    }
}
