//! Spans of this node: of the rolls it announces, of the steps the node tells, of sampled appends and their copies.
//!
//! The context of a roll is drawn here, at the soft mark, and goes to metad with the report; the span ends when the segment's
//! end is recorded.

use seam_transport::telemetry::{self, OpenSpan};
use seam_wire::meta::{MetaItem, SegmentState, SegmentView};
use seam_wire::msg::{FromSegd, Peer};
use seam_wire::report::Report;
use seam_wire::{Offset, SegmentId, Tick, TraceContext};
use segd_core::io::{Effect, Input, Step, StreamId};
use std::collections::BTreeMap;
use tokio::time::Instant;

/// Spans of each kind that may be open at once; the oldest is ended beyond it.
const MAX_OPEN: usize = 4096;

pub struct Traces {
    started: Instant,
    rolls: BTreeMap<SegmentId, OpenSpan>,
    appends: BTreeMap<(StreamId, u64), OpenSpan>,
    /// By segment and the offset after the copied records.
    copies: BTreeMap<(SegmentId, Offset), OpenSpan>,
}

impl Traces {
    pub fn new(started: Instant) -> Self {
        Traces { started, rolls: BTreeMap::new(), appends: BTreeMap::new(), copies: BTreeMap::new() }
    }

    /// What comes to the node: a sampled append or copy goes on under a span of this node.
    pub fn on_input(&mut self, input: &mut Input) {
        match input {
            Input::Append { stream, seq, trace: Some(trace), .. } => {
                hang(&mut self.appends, (*stream, *seq), "segd.append", trace);
            }
            Input::Peer { segment, msg: Peer::Replicate { seal: None, next, .. }, trace: Some(trace), .. } => {
                hang(&mut self.copies, (*segment, *next), "segd.copy", trace);
            }
            Input::Meta(update) => update.items.iter().for_each(|item| self.on_item(item)),
            Input::StreamClosed { stream } => self.appends.retain(|(of, _), _| of != stream),
            Input::Append { .. }
            | Input::Peer { .. }
            | Input::PeerUp(_)
            | Input::StreamOpen { .. }
            | Input::Persisted { .. }
            | Input::Delivered { .. }
            | Input::JournalFailed
            | Input::ReadDone { .. }
            | Input::ReportAnswered { .. }
            | Input::Registered { .. }
            | Input::Founded { .. }
            | Input::Tick => {}
        }
    }

    fn on_item(&mut self, item: &MetaItem) {
        let MetaItem::Segment(SegmentView { spec, state, .. }) = item else { return };
        let over = matches!(state, SegmentState::Sealed { .. } | SegmentState::Reclaiming | SegmentState::Reclaimed);
        if over && let Some(span) = self.rolls.remove(&spec.id) {
            span.end();
        }
    }

    /// What the node wants done.
    pub fn on_effect(&mut self, effect: &mut Effect) {
        match effect {
            Effect::Report { report: Report::SoftMark { segment, trace, .. }, trace: carried, .. } => {
                if trace.is_none() {
                    *trace = self.announced(*segment);
                }
                *carried = *trace;
            }
            Effect::Reply { stream, reply, .. } => match reply {
                FromSegd::AppendAck { seq, .. } | FromSegd::AppendError { seq, .. } => {
                    end(&mut self.appends, &(*stream, *seq));
                }
                FromSegd::AppendOpened
                | FromSegd::Moved { .. }
                | FromSegd::TailOpened { .. }
                | FromSegd::Records { .. }
                | FromSegd::End { .. }
                | FromSegd::Committed { .. }
                | FromSegd::Error { .. } => {}
            },
            Effect::CloseStream { stream } => self.appends.retain(|(of, _), _| of != stream),
            Effect::Send { segment, msg: Peer::Stored { durable_end, .. }, .. } if !self.copies.is_empty() => {
                let stored: Vec<_> =
                    self.copies.range((*segment, Offset(0))..=(*segment, *durable_end)).map(|(key, _)| *key).collect();
                stored.iter().for_each(|key| end(&mut self.copies, key));
            }
            Effect::Step(step) => self.record(step),
            Effect::Report { .. }
            | Effect::Send { .. }
            | Effect::Fresh { .. }
            | Effect::Persist { .. }
            | Effect::Read { .. }
            | Effect::Publish { .. }
            | Effect::Forget { .. }
            | Effect::Found { .. }
            | Effect::LogStart { .. }
            | Effect::Count(_)
            | Effect::Note { .. } => {}
        }
    }

    /// The context of the roll out of `segment`: the same for every repetition.
    fn announced(&mut self, segment: SegmentId) -> Option<TraceContext> {
        if let Some(span) = self.rolls.get(&segment) {
            return Some(span.context());
        }
        let mut span = OpenSpan::root("roll", std::time::Instant::now())?;
        span.attribute("segment", segment);
        let context = span.context();
        put(&mut self.rolls, segment, span);
        Some(context)
    }

    fn record(&self, step: &Step) {
        let at = |tick: Tick| (self.started + std::time::Duration::from_micros(tick.0)).into_std();
        let span = telemetry::Step { name: step.name, parent: &step.trace, from: at(step.from), to: at(step.to) };
        span.record(&[("segment", &step.segment)]);
    }
}

/// Goes on under a span of this node; what is not sampled is handed on as it is.
fn hang<K: Ord>(open: &mut BTreeMap<K, OpenSpan>, key: K, name: &'static str, trace: &mut TraceContext) {
    if let Some(span) = OpenSpan::child(name, trace, std::time::Instant::now()) {
        *trace = span.context();
        put(open, key, span);
    }
}

fn put<K: Ord>(open: &mut BTreeMap<K, OpenSpan>, key: K, span: OpenSpan) {
    open.insert(key, span);
    if open.len() > MAX_OPEN {
        open.pop_first();
    }
}

fn end<K: Ord>(open: &mut BTreeMap<K, OpenSpan>, key: &K) {
    if let Some(span) = open.remove(key) {
        span.end();
    }
}
