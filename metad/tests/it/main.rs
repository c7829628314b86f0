//! metad as its users meet it: three real members, their real clients.

#![allow(clippy::unwrap_used)]

mod cluster;
mod nodes;
mod process;
#[path = "../../log/tests/conformance/relay.rs"]
mod relay;
mod roles;
mod rolls;
mod sessions;
mod speed;
mod watching;
