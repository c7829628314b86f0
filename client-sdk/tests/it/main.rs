//! The SDK over real QUIC and gRPC with mutual TLS, against doubles of a router and of metad that fail on demand.

#![allow(clippy::unwrap_used)]

mod admin;
mod consume;
mod deadlines;
mod double;
mod faults;
mod groups;
mod log;
mod produce;
mod refusals;
mod seek;
