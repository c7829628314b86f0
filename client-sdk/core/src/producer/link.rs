//! The stream of a range: opened, watched, left and opened again.

use super::batch::Place;
use super::{Effect, RangeProducer, StreamId};
use crate::error::SendError;
use seam_wire::Tick;
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::traps::{self, Trap};

#[derive(Debug)]
pub(super) enum Link {
    Idle,
    Opening {
        stream: StreamId,
        until: Tick,
    },
    Open(OpenLink),
    /// Waiting to open again.
    Waiting {
        until: Tick,
        elsewhere: bool,
    },
}

#[derive(Debug)]
pub(super) struct OpenLink {
    pub stream: StreamId,
    pub next_seq: u64,
    /// When something last came, or had to come for the first time.
    pub heard_at: Tick,
    /// An append was refused: nothing is sent before this, nor before all that was sent is answered.
    pub resume_at: Option<Tick>,
}

impl Link {
    pub fn stream(&self) -> Option<StreamId> {
        match self {
            Link::Opening { stream, .. } => Some(*stream),
            Link::Open(open) => Some(open.stream),
            Link::Idle | Link::Waiting { .. } => None,
        }
    }
}

impl<T> RangeProducer<T> {
    pub(super) fn open_link(&mut self, now: Tick, elsewhere: bool, out: &mut Vec<Effect<T>>) {
        let stream = StreamId(self.next_stream);
        self.next_stream += 1;
        self.counters.streams_opened += 1;
        self.link = Link::Opening { stream, until: now.after_us(self.settings.open_us) };
        out.push(Effect::Open { stream, elsewhere });
    }

    pub(super) fn on_opened(&mut self, now: Tick, stream: StreamId) {
        match &self.link {
            Link::Opening { stream: opening, .. } if *opening == stream => {
                self.unknown_since = None;
                self.link = Link::Open(OpenLink { stream, next_seq: 0, heard_at: now, resume_at: None });
            }
            Link::Opening { .. } | Link::Idle | Link::Open(_) | Link::Waiting { .. } => {}
        }
    }

    /// The router will not have this stream.
    pub(super) fn on_refused(&mut self, now: Tick, stream: StreamId, error: WireError, out: &mut Vec<Effect<T>>) {
        if self.link.stream() != Some(stream) {
            return;
        }
        let unknown = matches!(error.code, ErrorCode::UnknownTopic | ErrorCode::UnknownRange);
        let patient = unknown && {
            let since = *self.unknown_since.get_or_insert(now);
            now.since(since) < self.settings.unknown_patience_us
        };
        if error.retryable || patient {
            return self.break_link(now, error.to_string());
        }
        self.break_link(now, error.to_string());
        self.link = Link::Idle;
        while let Some(batch) = self.queue.front() {
            let mut error = SendError::from(error.clone());
            if batch.may_exist {
                error.certainty = Certainty::Indeterminate;
            }
            self.end(0, Err(error), out);
        }
    }

    /// What was on the stream waits to be sent again; a copy of each may be under way.
    pub(super) fn break_link(&mut self, now: Tick, detail: String) {
        for batch in &mut self.queue {
            if batch.is_sent() {
                batch.place = Place::Waiting;
                batch.may_exist = true;
                if traps::active(Trap::RetriedAsNew) {
                    batch.may_exist = false;
                    batch.base_sequence = None;
                    self.hole = true;
                }
            }
        }
        self.counters.streams_broken += 1;
        self.last_failure = Some(detail);
        let wait_us = if self.tries == 0 { 0 } else { self.retry_us() };
        self.tries = self.tries.saturating_add(1);
        self.link = Link::Waiting { until: now.after_us(wait_us), elsewhere: true };
    }

    /// The wait before the next try.
    pub(super) fn retry_us(&self) -> u64 {
        let doubled = self.settings.retry_min_us.saturating_mul(1 << self.tries.saturating_sub(1).min(20));
        doubled.min(self.settings.retry_max_us)
    }

    fn stall_us(&self) -> u64 {
        self.settings.stall_us.saturating_mul(1 << self.stalls.min(20))
    }

    pub(super) fn link_deadline(&self) -> Option<Tick> {
        match &self.link {
            Link::Idle => None,
            Link::Opening { until, .. } => Some(*until),
            Link::Waiting { .. } | Link::Open(_) if self.queue.is_empty() => None,
            Link::Waiting { until, .. } => Some(*until),
            Link::Open(open) => {
                let stall = self.queue.iter().any(|batch| batch.is_sent());
                let stall = stall.then(|| open.heard_at.after_us(self.stall_us()));
                let resume = if stall.is_none() { open.resume_at } else { None };
                stall.into_iter().chain(resume).min()
            }
        }
    }

    pub(super) fn on_time(&mut self, now: Tick, out: &mut Vec<Effect<T>>) {
        match &self.link {
            Link::Waiting { until, elsewhere } if *until <= now && !self.queue.is_empty() => {
                self.open_link(now, *elsewhere, out);
            }
            Link::Opening { stream, until } if *until <= now => {
                out.push(Effect::Close { stream: *stream });
                self.break_link(now, "no router opened the stream in time".to_owned());
            }
            Link::Open(open) => {
                let stalled = open.heard_at.after_us(self.stall_us()) <= now;
                if stalled && self.queue.iter().any(|batch| batch.is_sent()) {
                    out.push(Effect::Close { stream: open.stream });
                    self.counters.stalls += 1;
                    self.stalls = self.stalls.saturating_add(1);
                    self.break_link(now, "the router took the batches and was silent".to_owned());
                }
            }
            Link::Idle | Link::Opening { .. } | Link::Waiting { .. } => {}
        }
    }
}
