//! One deadline per concern; setting it again moves it.

use seam_wire::{NodeId, SegmentId, Tick};
use std::collections::{BTreeMap, BTreeSet};

use crate::io::ReportId;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum TimerKey {
    Report(ReportId),
    /// Ask followers whether they have the candidate open.
    Open(SegmentId),
    /// Ping the candidates of this segment.
    Ping(SegmentId),
    /// Repeat `Begin` to the successor of this segment.
    Begin(SegmentId),
    /// Repeat `SubscribeSeal` for this successor.
    Subscribe(SegmentId),
    /// Look whether this follower of the segment makes progress.
    Resend(SegmentId, NodeId),
    /// Age, announcement and patience of the roll of this segment.
    Roll(SegmentId),
    /// Repeat `Fence` in the recovery of this segment.
    Fence(SegmentId),
    /// Look whether the segment commits.
    Stall(SegmentId),
}

#[derive(Debug, Default)]
pub(super) struct Timers {
    due: BTreeMap<TimerKey, Tick>,
    order: BTreeSet<(Tick, TimerKey)>,
}

impl Timers {
    pub fn set(&mut self, key: TimerKey, at: Tick) {
        self.cancel(key);
        self.due.insert(key, at);
        self.order.insert((at, key));
    }

    pub fn set_if_unset(&mut self, key: TimerKey, at: Tick) {
        if !self.due.contains_key(&key) {
            self.set(key, at);
        }
    }

    pub fn cancel(&mut self, key: TimerKey) {
        if let Some(at) = self.due.remove(&key) {
            self.order.remove(&(at, key));
        }
    }

    pub fn next(&self) -> Option<Tick> {
        self.order.first().map(|(at, _)| *at)
    }

    pub fn pop_due(&mut self, now: Tick) -> Option<TimerKey> {
        let (at, key) = *self.order.first()?;
        if at > now {
            return None;
        }
        self.cancel(key);
        Some(key)
    }
}
