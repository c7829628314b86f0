//! The trace of a roll: read from metad's views, handed on in frames, and told as finished steps. Decides nothing.
//!
//! A context stands in the view of the segment that ends. It is drawn outside (by the shell at the soft mark, or by metad's)
//! and is data here. Without one, or with one that is not sampled, nothing is told.

use super::{Node, Outbox};
use crate::io::{Effect, Step};
use seam_wire::msg::Peer;
use seam_wire::report::Report;
use seam_wire::{SegmentId, Tick, TraceContext};

impl Node {
    /// Of the roll or recovery that ends this segment.
    pub(super) fn trace_of(&self, segment: SegmentId) -> Option<TraceContext> {
        self.views.get(&segment)?.trace
    }

    /// Of the roll or recovery that this segment is to follow.
    pub(super) fn trace_into(&self, segment: SegmentId) -> Option<TraceContext> {
        self.trace_of(self.views.get(&segment)?.spec.prior?)
    }

    /// A step that began at `from` (`None`: it never did) and is over now.
    pub(super) fn step(
        &self,
        trace: Option<TraceContext>,
        name: &'static str,
        segment: SegmentId,
        from: Option<Tick>,
        out: &mut Outbox,
    ) {
        if let (Some(trace), Some(from)) = (trace, from) {
            out.push(Effect::Step(Step { trace, name, segment, from, to: self.now }));
        }
    }

    /// What a message to another node carries.
    pub(super) fn frame_trace(&self, segment: SegmentId, msg: &Peer) -> Option<TraceContext> {
        match msg {
            Peer::Open
            | Peer::Opened
            | Peer::Table { .. }
            | Peer::TableRequest { .. }
            | Peer::Begin { .. }
            | Peer::Begun { .. } => self.trace_into(segment),
            Peer::Replicate { seal: Some(_), .. }
            | Peer::Stored { sealed: true, .. }
            | Peer::SubscribeSeal { .. }
            | Peer::SealHeld { .. }
            | Peer::Decided { .. }
            | Peer::Fence { .. }
            | Peer::Promised { .. }
            | Peer::CannotAnswer { .. }
            | Peer::RecoveryFetch { .. }
            | Peer::RecoveryData { .. } => self.trace_of(segment),
            Peer::Replicate { seal: None, .. }
            | Peer::Stored { sealed: false, .. }
            | Peer::Resend { .. }
            | Peer::Fenced { .. }
            | Peer::Ping { .. }
            | Peer::Pong { .. } => None,
        }
    }

    /// What a report to metad carries.
    pub(super) fn report_trace(&self, report: &Report) -> Option<TraceContext> {
        match report {
            Report::SoftMark { segment, .. }
            | Report::Sealed { segment, .. }
            | Report::Stalled { segment }
            | Report::Undecidable { segment, .. }
            | Report::Recovered { segment, .. } => self.trace_of(*segment),
            Report::Ready { segment, .. }
            | Report::GateOpened { segment, .. }
            | Report::Released { segment }
            | Report::Reclaimed { segment, .. } => self.trace_into(*segment),
        }
    }

    /// A peer may know of the roll before our own watch told us.
    pub(super) fn learn_trace(&mut self, segment: SegmentId, msg: &Peer, trace: Option<TraceContext>) {
        let ending = if let Peer::Begin { prior, .. } = msg {
            *prior
        } else if matches!(msg, Peer::SealHeld { .. } | Peer::Fence { .. }) {
            segment
        } else {
            return;
        };
        if let Some(view) = self.views.get_mut(&ending).filter(|view| view.trace.is_none()) {
            view.trace = trace;
        }
    }
}
