//! The router over real connections: moves, breaks, hostile clients, slow readers.

#![allow(clippy::unwrap_used)]

mod doors;
mod moves;
mod segd;
mod world;
