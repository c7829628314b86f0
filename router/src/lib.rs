//! The router as a process: listens for clients, keeps connections to every segd node warm, follows metad, and carries out
//! what `router-core` decides. Keeps no state that it cannot lose.
//!
//! | module | what it is |
//! | --- | --- |
//! | `server` | a router assembled from its configuration, and taken down |
//! | `listen` | who may connect, and what each stream is for |
//! | `produce` | a client's produce stream: frames in, batches checked, into the range |
//! | `range` | one range's producer core with its clients and upstream streams |
//! | `upstream` | an append stream to one segment's primary |
//! | `tail` | a client's tail: one upstream tail each, no fan-out yet |
//! | `offsets` | the ends of a range, asked of segd |
//! | `nodes` | one warm connection per segd node |
//! | `picture` | the chains as metad last told them, and who is to be woken |

mod clock;
mod config;
mod context;
mod counters;
mod listen;
mod nodes;
mod offsets;
mod picture;
mod place;
mod produce;
mod range;
mod ranges;
mod server;
mod tail;
mod traces;
mod upstream;

pub use config::{Config, Limits};
pub use server::Server;
