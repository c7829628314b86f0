//! Frames over QUIC streams.
//!
//! `FrameReader` and `FrameWriter` belong to one task each. Where several tasks send, or one must not wait for the
//! network, `spawn_writer` gives the stream an owner task and hands out `FrameSender`s.
//!
//! A bad frame ends its stream, never the connection: the reader stops the stream with `code::BAD_FRAME` and the other
//! streams go on.

mod coalesce;
mod error;
mod open;
mod reader;
mod sender;
mod writer;

pub use error::{StreamError, TrySendError};
pub use open::{open_bi, open_uni};
pub use reader::FrameReader;
pub use sender::{FrameSender, WriterLimits, WriterStats, spawn_writer, spawn_writer_with};
pub use writer::FrameWriter;
