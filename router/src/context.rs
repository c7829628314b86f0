//! What every task of the router needs.

use crate::clock::Clock;
use crate::config::Limits;
use crate::counters::Counters;
use crate::nodes::Nodes;
use crate::picture::Picture;
use seam_transport::quic::QuicConfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

pub struct Context {
    pub name: String,
    pub limits: Limits,
    pub quic: QuicConfig,
    pub clock: Clock,
    pub picture: Picture,
    pub nodes: Nodes,
    pub counters: Counters,
    pub stop: CancellationToken,
    /// Every stream of a client: at a stop they get to say their last word.
    pub streams: TaskTracker,
}
