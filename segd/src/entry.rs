//! Journal writes as bytes: each sits in an envelope that binds it to its segment, its offset and its epoch.
//!
//! The same envelopes, in the same order, make up segment files.

use bytes::Bytes;
use seam_wire::batch;
use seam_wire::envelope::{Envelope, EnvelopeError, EnvelopeKind};
use seam_wire::meta::SegmentSpec;
use seam_wire::msg::{Decision, SealEntry};
use seam_wire::table::TableSnapshot;
use seam_wire::{Epoch, Offset, SegmentId};
use segd_core::io::Write;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Header and body of one envelope, not copied together.
#[derive(Clone, Debug)]
pub struct Piece {
    pub header: Bytes,
    pub body: Bytes,
}

impl Piece {
    pub fn len(&self) -> usize {
        self.header.len() + self.body.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What an envelope holds, read back.
#[derive(Clone, Debug)]
pub enum Item {
    Header(SegmentSpec),
    Start {
        start: Offset,
        table: TableSnapshot,
    },
    Batch {
        base: Offset,
        batch: Bytes,
    },
    Seal(SealEntry),
    Promise(Epoch),
    Decided(Decision),
    Reclaimed,
    /// A kind this segd does not write to segments; skipped.
    Other,
}

#[derive(Serialize, Deserialize)]
struct StartBody {
    start: Offset,
    table: TableSnapshot,
}

/// An envelope that cannot be read.
#[derive(Debug, Error)]
pub enum EntryError {
    #[error(transparent)]
    Envelope(#[from] EnvelopeError),
    #[error("the body of {kind:?} of {segment} does not decode: {why}")]
    Body { segment: SegmentId, kind: EnvelopeKind, why: postcard::Error },
    #[error("a batch of {segment} at {base}: {why}")]
    Batch { segment: SegmentId, base: Offset, why: batch::BatchError },
    #[error("the envelope of {segment} says {base}, the batch in it {found}")]
    Misplaced { segment: SegmentId, base: Offset, found: Offset },
}

/// The envelopes of one write, in order. `Records` makes one a batch.
pub fn encode(segment: SegmentId, write: &Write) -> Vec<Piece> {
    let control = |kind, epoch, base_offset, body: Vec<u8>| {
        vec![piece(&Envelope { kind, segment, base_offset, epoch }, Bytes::from(body))]
    };
    match write {
        Write::Header { spec } => control(EnvelopeKind::Header, Epoch::PRIMARY, Offset(0), plain(spec)),
        Write::Start { start, table } => {
            let body = plain(&StartBody { start: *start, table: table.clone() });
            control(EnvelopeKind::Begun, Epoch::PRIMARY, *start, body)
        }
        Write::Records { epoch, base: _, next: _, payload } => batch::split(payload.clone())
            .map(|batch| batch.expect("R2: the node checked that these batches make up the offsets"))
            .map(|batch| {
                let header = batch::BatchHeader::parse(&batch).expect("R2: split parsed this header");
                let base_offset = header.base_offset;
                piece(&Envelope { kind: EnvelopeKind::Batch, segment, base_offset, epoch: *epoch }, batch)
            })
            .collect(),
        Write::Seal(seal) => control(EnvelopeKind::Seal, Epoch::PRIMARY, seal.end, plain(seal)),
        Write::Promise(epoch) => control(EnvelopeKind::Fence, *epoch, Offset(0), Vec::new()),
        Write::Decided(decision) => control(EnvelopeKind::Decided, Epoch::PRIMARY, decision.end, plain(decision)),
    }
}

/// The tombstone of a reclaimed segment: its id stays refused.
pub fn reclaimed(segment: SegmentId) -> Piece {
    let kind = EnvelopeKind::Reclaimed;
    piece(&Envelope { kind, segment, base_offset: Offset(0), epoch: Epoch::PRIMARY }, Bytes::new())
}

fn piece(envelope: &Envelope, body: Bytes) -> Piece {
    let header = envelope.header_for(&body).expect("R1: frames bound what reaches the node below an envelope's limit");
    Piece { header: Bytes::copy_from_slice(&header), body }
}

fn plain<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_allocvec(value).expect("plain data always encodes")
}

/// One envelope at the start of `bytes`: its segment, what it holds, and its whole length.
pub fn decode(bytes: &Bytes) -> Result<(SegmentId, Item, usize), EntryError> {
    let (envelope, body, len) = seam_wire::envelope::decode(bytes)?;
    let body = bytes.slice(body);
    let segment = envelope.segment;
    let item = match envelope.kind {
        EnvelopeKind::Header => Item::Header(read(&envelope, &body)?),
        EnvelopeKind::Begun => {
            let StartBody { start, table } = read(&envelope, &body)?;
            Item::Start { start, table }
        }
        EnvelopeKind::Batch => {
            let base = envelope.base_offset;
            let header = batch::BatchHeader::parse(&body).map_err(|why| EntryError::Batch { segment, base, why })?;
            if header.base_offset != base {
                return Err(EntryError::Misplaced { segment, base, found: header.base_offset });
            }
            Item::Batch { base, batch: body }
        }
        EnvelopeKind::Seal => Item::Seal(read(&envelope, &body)?),
        EnvelopeKind::Fence => Item::Promise(envelope.epoch),
        EnvelopeKind::Decided => Item::Decided(read(&envelope, &body)?),
        EnvelopeKind::Reclaimed => Item::Reclaimed,
        EnvelopeKind::Truncate | EnvelopeKind::Journal => Item::Other,
    };
    Ok((segment, item, len))
}

fn read<T: DeserializeOwned>(envelope: &Envelope, body: &[u8]) -> Result<T, EntryError> {
    postcard::from_bytes(body).map_err(|why| EntryError::Body { segment: envelope.segment, kind: envelope.kind, why })
}
