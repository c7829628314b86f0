//! A tail of an open segment that hears nothing: is there nothing, or does it hear nothing of what there is? It asks for the
//! committed end, ever less often while nothing waits; when records wait and still none comes, it leaves its stream.

use super::{Effect, State, Tail, TailSettings};
use crate::Tick;
use crate::chain::Chains;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::{Offset, SegmentId};

/// What a tail knows of its stream's silence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Silence {
    /// The last word, or the last answer that there is nothing.
    since: Tick,
    wait_us: u64,
    asked: bool,
    /// Since when it is known that more is committed than came.
    waiting: Option<Tick>,
}

impl Silence {
    pub(super) fn new(now: Tick, settings: &TailSettings) -> Self {
        Silence { since: now, wait_us: settings.silence_us, asked: false, waiting: None }
    }

    /// When something is to be done about it.
    pub(super) fn due(&self, settings: &TailSettings) -> Option<Tick> {
        match self.waiting {
            Some(since) => Some(since.after_us(settings.stall_us)),
            None if self.asked => None,
            None => Some(self.since.after_us(self.wait_us)),
        }
    }
}

impl Tail {
    /// Time passed: asks, or leaves a stream on which nothing came though records wait.
    pub(super) fn mind_silence(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        let State::Reading { segment, owed: false, .. } = self.state else {
            return; // Of a sealed segment more is owed: that is watched anyway.
        };
        if self.silence.due(&self.settings).is_none_or(|due| now < due) {
            return;
        }
        if self.silence.waiting.is_some() {
            self.counters.stuck += 1;
            let detail = format!("nothing came of {segment} though more than {} is committed", self.wanted);
            return self.leave(now, segment, Some(WireError::retry(ErrorCode::Unavailable, detail)), out);
        }
        match chains.primary(segment) {
            Some(node) => {
                self.silence.asked = true;
                out.push(Effect::AskEnd { segment, node });
            }
            None => self.nothing_waits(now),
        }
    }

    /// The answer; `None`: nobody gave one.
    pub(super) fn on_committed(&mut self, now: Tick, of: SegmentId, bounds: Option<(Offset, Option<Offset>)>) {
        match &self.state {
            State::Reading { segment, .. } if *segment == of && self.silence.asked => {}
            State::Reading { .. } | State::Searching { .. } | State::Over => return, // Overtaken by word of its own.
        }
        self.silence.asked = false;
        match bounds {
            // What is on its way gets the time that any word gets.
            Some((committed, end)) if committed > self.wanted || end.is_some() => self.silence.waiting = Some(now),
            Some(_) | None => self.nothing_waits(now),
        }
    }

    fn nothing_waits(&mut self, now: Tick) {
        self.silence.since = now;
        self.silence.wait_us = self.silence.wait_us.saturating_mul(2).min(self.settings.silence_max_us);
    }
}
