//! Over real sockets on loopback: certificates, frames, flow control, gRPC, metrics.

#![allow(clippy::unwrap_used)]

mod frames;
mod grpc;
mod http;
mod quic;
mod rotation;
mod sender;
mod world;
