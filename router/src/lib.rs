//! router, the way in: takes producers and tails, and forwards them to the segment where they belong, over any number of
//! rolls. The shell around `router_core`; it keeps no state that it cannot lose.
//!
//! One task a range for appends (`range`), one a tail (`tail`), one a client stream (`produce`); connections to all segd
//! nodes are kept standing (`upstreams`). Each reader has its own upstream tail: there is no shared fan-out yet.

pub mod config;
pub mod counters;
pub mod listen;
pub mod offsets;
pub mod produce;
pub mod range;
pub mod server;
pub mod shared;
pub mod tail;
pub mod upstreams;

pub use config::Config;
pub use server::Server;
