//! Messages on QUIC streams. A frame (`crate::frame`) carries one of them, its segment, and an opaque payload.
//!
//! | family | stream | direction |
//! | --- | --- | --- |
//! | `ToRouter` / `FromRouter` | bidirectional, opened by the client | client ⇄ router |
//! | `ToSegd` / `FromSegd` | bidirectional, opened by the router | router ⇄ segd |
//! | `Peer` | unidirectional, one per (peer, segment), opened by the sender | segd → segd |
//!
//! Payloads are one record batch (`Append`), or record batches back to back (`Records`, `Replicate`, `RecoveryData`).

use crate::error::WireError;
use crate::meta::Binder;
use crate::table::TableSnapshot;
use crate::{Epoch, Offset, RangeId, SegmentId};
use serde::{Deserialize, Serialize};

/// Where a tail starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum TailFrom {
    Earliest,
    /// The committed end at the moment the tail opens.
    Latest,
    Offset(Offset),
}

/// Client to router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToRouter {
    /// First frame of a produce stream.
    ProduceOpen { topic: String, range_index: u32 },
    /// Payload: one record batch. `seq` counts the appends of this stream from 0.
    Append { seq: u64 },
    /// First and only frame of a tail stream. `follow: false` ends the stream at the committed end found at open.
    TailOpen { topic: String, range_index: u32, from: TailFrom, follow: bool },
    /// First and only frame of a query stream.
    Offsets { topic: String, range_index: u32 },
}

/// Router to client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromRouter {
    ProduceOpened {
        range: RangeId,
        max_batch_bytes: u32,
    },
    AppendAck {
        seq: u64,
        base_offset: Offset,
    },
    /// This append failed; the stream goes on.
    AppendError {
        seq: u64,
        error: WireError,
    },
    TailOpened {
        range: RangeId,
        start: Offset,
    },
    /// Payload: whole batches; `next` is the offset after the last record. A first batch may begin below the asked offset.
    Records {
        next: Offset,
    },
    /// A tail with `follow: false` reached its end.
    TailEnd {
        end: Offset,
    },
    Offsets {
        range: RangeId,
        earliest: Offset,
        latest: Offset,
    },
    /// The stream is over.
    Error {
        error: WireError,
    },
}

/// Router to segd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToSegd {
    /// First frame of an append stream to the primary of the frame's segment. A candidate holds what comes before its `Begin`.
    AppendOpen,
    /// Payload: one record batch. `seq` counts the appends of this stream from 0.
    Append { seq: u64 },
    /// First frame of a tail or fetch stream. `from: None` means the segment's start, whatever it will be.
    /// `until: Some(end)` ends the stream there; without it the stream follows until `End`.
    TailOpen { from: Option<Offset>, until: Option<Offset> },
    /// First and only frame of a query stream: what is committed of the frame's segment?
    Committed,
}

/// segd to router.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromSegd {
    AppendOpened,
    AppendAck {
        seq: u64,
        base_offset: Offset,
    },
    AppendError {
        seq: u64,
        error: WireError,
    },
    /// The head moved to `next`, which starts at `start`. Appends of this stream with `seq <= accepted_through` are still
    /// acked here; `None`: none was accepted. All later ones belong to `next`, in order.
    Moved {
        next: SegmentId,
        start: Offset,
        accepted_through: Option<u64>,
    },
    TailOpened {
        start: Option<Offset>,
    },
    /// Payload: whole batches, all committed; `next` is the offset after the last record.
    Records {
        next: Offset,
    },
    /// The segment ends at `end` and is followed by `next` (decided). Nothing comes after this frame.
    End {
        end: Offset,
        next: SegmentId,
    },
    /// Answer to `Committed`; `start: None` when not yet begun.
    Committed {
        start: Option<Offset>,
        committed: Offset,
        end: Option<Offset>,
    },
    Error {
        error: WireError,
    },
}

/// What a primary measured and hands to its successor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Pace {
    pub rate_bytes_per_s: u64,
    pub rate_records_per_s: u64,
    /// Announce-to-ready of recent rolls, a decaying maximum; 0: not measured yet.
    pub roll_latency_us: u64,
}

/// The entry that fixes a segment's end. Takes no offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SealEntry {
    /// The offset after the last record of the segment.
    pub end: Offset,
    pub next: SegmentId,
    /// Hash of the producer table at `end`: the successor checks what it was handed.
    pub table_hash: u64,
}

/// A segment's end and successor, decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Decision {
    pub end: Offset,
    pub next: SegmentId,
}

/// What a recovering agent needs to know of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ReplicaTail {
    /// `None`: the replica never learnt a start (nothing was ever written to it).
    pub start: Option<Offset>,
    /// The offset after the last durable record (the start, or 0, if there is none).
    pub durable_end: Offset,
    /// The primary's own seal entry, if durable here.
    pub seal: Option<SealEntry>,
}

/// segd to segd. The frame's segment is the one the message is about; its epoch stands in the frame too.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Peer {
    // -- opening: M's primary to M's followers and back
    /// "Do you have it open?" Repeated until `Opened`.
    Open,
    Opened,

    // -- replication: the writer (the primary in epoch 0, a recovery agent in its epoch) to a replica and back
    /// Payload: batches `[base, next)` back to back; empty payload with `base == next` carries the bound or the seal alone.
    /// `table` is the producer table at `start`, sent with the first message to a replica that has no start yet.
    Replicate {
        epoch: Epoch,
        start: Offset,
        base: Offset,
        next: Offset,
        committed: Offset,
        seal: Option<SealEntry>,
        table: Option<TableSnapshot>,
    },
    /// All below `durable_end` is durable here (received, for `ack = replicated`); `sealed`: the seal entry too.
    Stored {
        epoch: Epoch,
        durable_end: Offset,
        sealed: bool,
    },
    /// The replica's next expected offset differs from the message's base: send from here.
    Resend {
        epoch: Epoch,
        from: Offset,
    },
    /// The replica promised a higher epoch; the sender's rights are over.
    Fenced {
        promised: Epoch,
    },

    // -- hand-over: N's primary P and M's primary Q. The frame's segment is M.
    /// P asks Q whether it lives; Q answers at once.
    Ping {
        nonce: u64,
    },
    Pong {
        nonce: u64,
    },
    /// N's producer table as of `end`: ahead of the switch from P, or from any of N's replicas on `TableRequest`.
    /// Replaces what came before.
    Table {
        prior: SegmentId,
        end: Offset,
        snapshot: TableSnapshot,
    },
    /// M's primary, begun without P (by `SealHeld` or metad), asks a replica of N for the table at N's end.
    TableRequest {
        prior: SegmentId,
    },
    /// Fixes M's start. Repeated until `Begun`. `delta` holds the entries changed since the last `Table`; `removed` those
    /// gone. `pace` hands on what P measured, so that M's first soft mark is not blind.
    Begin {
        prior: SegmentId,
        binder: Binder,
        end: Offset,
        delta: TableSnapshot,
        removed: Vec<crate::ProducerId>,
        table_hash: u64,
        pace: Pace,
    },
    Begun {
        start: Offset,
    },

    // -- the gate: M's primary and N's replicas. The frame's segment is N.
    /// "Tell me, primary of `watcher`, when you hold N's seal entry durable." Idempotent; answered again on each.
    SubscribeSeal {
        watcher: SegmentId,
    },
    SealHeld {
        seal: SealEntry,
    },
    /// N's primary tells its followers that N is decided.
    Decided {
        decision: Decision,
    },

    // -- recovery: an agent and N's replicas. The frame's segment is N.
    /// Promise `epoch` durably, then answer. Repeated until `Promised` or `Fenced`. With `loss_accepted`, a replica that does
    /// not know where its tail ends answers with what it has.
    Fence {
        epoch: Epoch,
        loss_accepted: bool,
    },
    Promised {
        epoch: Epoch,
        tail: ReplicaTail,
    },
    /// The replica cannot answer: its disk was lost or its tail is unknown. Never counts as empty.
    CannotAnswer {
        epoch: Epoch,
    },
    /// The agent reads what it lacks.
    RecoveryFetch {
        epoch: Epoch,
        from: Offset,
    },
    /// Payload: batches `[base, next)`.
    RecoveryData {
        epoch: Epoch,
        base: Offset,
        next: Offset,
        table: Option<TableSnapshot>,
        start: Offset,
    },
}
