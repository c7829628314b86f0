//! Consumer groups: the fold against rules it must keep whatever is written, and members over a log in memory.

#![allow(clippy::unwrap_used)]

mod fold;
mod node;
mod random;
mod world;
