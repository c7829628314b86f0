//! segd, the tier that owns the bytes: the shell around `segd_core::node::Node`.
//!
//! It receives, calls the node, carries out its effects, and decides nothing. One task drives the node (`driver`); readers
//! and writers of streams, the journal's threads and the metadata client feed it. The bytes live in `store`.

pub mod appends;
pub mod completions;
pub mod config;
pub mod counters;
pub mod driver;
pub mod entry;
pub mod identity;
pub mod links;
pub mod listen;
pub mod meta;
pub mod server;
pub mod store;
pub mod tails;
pub mod traces;

pub use config::Config;
pub use server::Server;
