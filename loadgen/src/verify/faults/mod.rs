//! Things that go wrong, on purpose, in a local cluster: what they are, how they are done, and waiting until all is well again.

mod dev;
mod director;
mod kind;
mod victims;
mod whole;

pub use dev::{Dev, DevError, Signal};
pub use director::{Director, Played};
pub use kind::{Kind, parse_kinds};
