//! The proof tools: a world simulator over the real cores, and the campaigns that run it.

pub mod boundary;
pub mod campaign;
pub mod model;
pub mod report;
pub mod scenario;
pub mod shrink;
pub mod traps;
pub mod world;
