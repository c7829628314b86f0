//! gRPC over mutual TLS: our own acceptor in front of tonic, so that certificates can be reloaded and every request
//! carries the verified identity of its sender.
//!
//! Generated clients and servers have a decode limit of 4 MiB of their own: give them
//! `.max_decoding_message_size(MAX_MESSAGE_BYTES)`, both sides.

mod accept;
mod client;
mod config;
mod peer;
mod server;

pub use client::{ChannelError, NoConnection, channel, root_cause};
pub use config::{GrpcConfig, MAX_MESSAGE_BYTES};
pub use peer::{Peer, peer, require_role};
pub use server::{GrpcError, GrpcServer, serve};
