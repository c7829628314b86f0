//! What goes into the machine and what comes out, its settings and its counters. Plain data.

use crate::accumulate::ClosedBatch;
use crate::error::SendError;
use seam_wire::Offset;
use seam_wire::error::WireError;

/// A produce stream, as this machine numbers it. Never reused, so a late word is known as late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// Limits and waits. Durations in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerSettings {
    /// Batches taken and not settled: 1 to 16.
    pub max_in_flight: usize,
    /// First wait before a refused batch is sent again, or a stream opened again; doubles to `retry_max_us`. A broken
    /// stream is opened again at once the first time.
    pub retry_min_us: u64,
    pub retry_max_us: u64,
    /// How long a stream with batches in flight may be silent before another router is tried. Doubles each time in vain.
    pub stall_us: u64,
    /// How long opening a stream may take.
    pub open_us: u64,
    /// How long a router may not know the topic: news of it may be under way.
    pub unknown_patience_us: u64,
}

impl Default for ProducerSettings {
    fn default() -> Self {
        ProducerSettings {
            max_in_flight: 8,
            retry_min_us: 10_000,
            retry_max_us: 1_000_000,
            stall_us: 4_000_000,
            open_us: 10_000_000,
            unknown_patience_us: 2_000_000,
        }
    }
}

/// What happened.
#[derive(Debug)]
pub enum Input<T> {
    /// A batch to send. Only while [`RangeProducer::room`] is above 0, in the order of the accumulator.
    Batch(ClosedBatch<T>),
    /// The stream is open and takes appends.
    Opened {
        stream: StreamId,
    },
    /// The router ended the stream with a reason, or it could not be opened.
    Refused {
        stream: StreamId,
        error: WireError,
    },
    /// The stream or its connection broke.
    Broken {
        stream: StreamId,
        detail: String,
    },
    Ack {
        stream: StreamId,
        seq: u64,
        base_offset: Offset,
    },
    /// One append failed; the stream goes on.
    Failed {
        stream: StreamId,
        seq: u64,
        error: WireError,
    },
    /// Time passed; due at [`RangeProducer::next_deadline`].
    Tick,
}

/// What the shell does.
#[derive(Debug)]
pub enum Effect<T> {
    /// Open a stream; at another router than the last one if `elsewhere`.
    Open { stream: StreamId, elsewhere: bool },
    /// `seq` counts the appends of the stream from 0.
    Send { stream: StreamId, seq: u64, payload: bytes::Bytes },
    /// The stream has no more use.
    Close { stream: StreamId },
    /// The outcome of a batch: the offset of its first record, or why it has none.
    Done { waiters: Vec<T>, cost: usize, result: Result<Offset, SendError> },
}

/// What was counted since the producer was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub batches: u64,
    pub acks: u64,
    pub failed: u64,
    /// Of `failed`: it may have happened.
    pub indeterminate: u64,
    /// Sends beyond the first of a batch.
    pub resends: u64,
    pub streams_opened: u64,
    pub streams_broken: u64,
    /// Streams left because nothing came.
    pub stalls: u64,
    pub epochs: u64,
}
