//! Append streams of routers: which segment each is for, and how far it was accepted.

use crate::io::{Effect, StreamId};
use crate::node::{Node, Outbox};
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::meta::SegmentState;
use seam_wire::msg::FromSegd;
use seam_wire::{Offset, SegmentId};
use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct Stream {
    pub segment: SegmentId,
    /// The last append of this stream that was accepted or answered with an error.
    pub accepted_through: Option<u64>,
    /// `Moved` was sent: nothing more is taken on it.
    pub moved: bool,
}

#[derive(Debug, Default)]
pub(super) struct Streams {
    streams: BTreeMap<StreamId, Stream>,
}

impl Streams {
    pub fn get_mut(&mut self, stream: StreamId) -> Option<&mut Stream> {
        self.streams.get_mut(&stream)
    }

    pub fn open(&mut self, stream: StreamId, segment: SegmentId) {
        self.streams.insert(stream, Stream { segment, accepted_through: None, moved: false });
    }

    pub fn close(&mut self, stream: StreamId) {
        self.streams.remove(&stream);
    }

    pub fn accepted(&mut self, stream: StreamId, seq: u64) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.accepted_through = Some(seq);
        }
    }

    pub fn all(&self) -> Vec<StreamId> {
        self.streams.keys().copied().collect()
    }

    /// Streams of this segment that may still be given `Moved`.
    pub fn of(&self, segment: SegmentId) -> Vec<StreamId> {
        let here = self.streams.iter().filter(|(_, stream)| stream.segment == segment && !stream.moved);
        here.map(|(id, _)| *id).collect()
    }

    pub fn of_all(&self, segment: SegmentId) -> Vec<StreamId> {
        self.streams.iter().filter(|(_, stream)| stream.segment == segment).map(|(id, _)| *id).collect()
    }
}

impl Node {
    pub(super) fn on_stream_open(&mut self, stream: StreamId, segment: SegmentId, out: &mut Outbox) {
        self.streams.open(stream, segment);
        if self.writers.contains_key(&segment) {
            out.push(Effect::Reply { stream, reply: FromSegd::AppendOpened, trace: None });
            self.redirect_if_over(segment, stream, out);
            return;
        }
        self.refuse_stream(stream, segment, out);
    }

    /// A stream to a segment whose head has moved is told so at once.
    fn redirect_if_over(&mut self, segment: SegmentId, stream: StreamId, out: &mut Outbox) {
        let writer = &self.writers[&segment];
        if let Some(seal) = writer.seal() {
            self.move_stream(stream, seal.next, seal.end, out);
        } else if let Some((next, start)) = self.known_move(segment) {
            self.move_stream(stream, next, start, out);
        }
    }

    /// Where appends to `segment` belong, by metad's word: past its decided end, or past its prior's when it was not chosen.
    pub(super) fn known_move(&self, segment: SegmentId) -> Option<(SegmentId, Offset)> {
        let view = self.views.get(&segment)?;
        if let SegmentState::Sealed { end, next, .. } | SegmentState::Trimmed { end, next, .. } = view.state {
            return Some((next, end));
        }
        match self.views.get(&view.spec.prior?)?.state {
            SegmentState::Sealed { end, next, .. } | SegmentState::Trimmed { end, next, .. } if next != segment => {
                Some((next, end))
            }
            SegmentState::Sealed { .. }
            | SegmentState::Trimmed { .. }
            | SegmentState::Planned
            | SegmentState::Ready { .. }
            | SegmentState::Open { .. }
            | SegmentState::Reclaiming
            | SegmentState::Reclaimed => None,
        }
    }

    pub(super) fn move_stream(&mut self, stream: StreamId, next: SegmentId, start: Offset, out: &mut Outbox) {
        let Some(state) = self.streams.get_mut(stream) else { return };
        if state.moved {
            return;
        }
        state.moved = true;
        let accepted_through = state.accepted_through;
        let trace = self.trace_into(next);
        out.push(Effect::Reply { stream, reply: FromSegd::Moved { next, start, accepted_through }, trace });
    }

    fn refuse_stream(&mut self, stream: StreamId, segment: SegmentId, out: &mut Outbox) {
        if let Some((next, start)) = self.known_move(segment) {
            out.push(Effect::Reply { stream, reply: FromSegd::AppendOpened, trace: None });
            self.move_stream(stream, next, start, out);
            return;
        }
        let error = match self.views.get(&segment) {
            Some(_) => WireError::retry(
                ErrorCode::NotPrimary,
                format!("{} does not write {segment}; look the range's head up again", self.id),
            ),
            None => WireError::retry(
                ErrorCode::UnknownSegment,
                format!("{} knows no {segment}; look the range's head up again", self.id),
            ),
        };
        self.streams.close(stream);
        out.push(Effect::Reply { stream, reply: FromSegd::Error { error }, trace: None });
        out.push(Effect::CloseStream { stream });
    }
}
