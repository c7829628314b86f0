//! Where a tail goes on: which replica, when to leave it, which successors to hold open.

use super::silence::Silence;
use super::{Effect, Input, State, Stream, Successor, Tail, TailStream};
use crate::Tick;
use crate::chain::Chains;
use seam_wire::error::{Certainty, ErrorCode, WireError};
use seam_wire::{NodeId, Offset, SegmentId};
use std::collections::VecDeque;

/// Full rounds over the replicas after which "offset out of range" is believed.
const FINAL_ROUNDS: u32 = 2;

impl Tail {
    /// A stream is over before its time.
    pub(super) fn on_broken(&mut self, now: Tick, id: TailStream, error: Option<WireError>, out: &mut Vec<Effect>) {
        match &self.state {
            State::Reading { stream, segment, .. } if stream.id == id => {
                let segment = *segment;
                self.counters.breaks += 1;
                self.leave(now, segment, error, out);
            }
            State::Reading { .. } | State::Searching { .. } => self.on_successor_broken(now, id, out),
            State::Over => {}
        }
    }

    fn on_successor_broken(&mut self, now: Tick, id: TailStream, out: &mut Vec<Effect>) {
        let found = self.successors.iter().find_map(|(segment, successor)| match successor {
            Successor::Open { stream, attempts, .. } if stream.id == id => Some((*segment, *attempts)),
            Successor::Open { .. } | Successor::Broken { .. } => None,
        });
        if let Some((segment, attempts)) = found {
            self.counters.breaks += 1;
            out.push(Effect::Close { stream: id });
            let retry_at = now.after_us(self.backoff(attempts));
            self.successors.insert(segment, Successor::Broken { retry_at, attempts: attempts.saturating_add(1) });
        }
    }

    /// Gives up the current stream and looks again, at the next replica.
    pub(super) fn leave(&mut self, now: Tick, segment: SegmentId, error: Option<WireError>, out: &mut Vec<Effect>) {
        let wait = match self.attempts {
            0 => 0,
            more => self.backoff(more - 1),
        };
        let next = State::Searching { segment: Some(segment), retry_at: Some(now.after_us(wait)) };
        if let State::Reading { stream, .. } = std::mem::replace(&mut self.state, next) {
            out.push(Effect::Close { stream: stream.id });
        }
        self.attempts = self.attempts.saturating_add(1);
        self.turn = self.turn.wrapping_add(1);
        self.lost_since.get_or_insert(now);
        self.last_error = error.or(self.last_error.take());
    }

    fn backoff(&self, attempts: u32) -> u64 {
        self.settings.retry_min_us.saturating_mul(1 << attempts.min(20)).min(self.settings.retry_max_us)
    }

    /// No word though the chain says that there is more: this replica does not have it, or does not live.
    pub(super) fn leave_if_stalled(&mut self, now: Tick, out: &mut Vec<Effect>) {
        let State::Reading { segment, last_word, owed: true, .. } = self.state else {
            return; // Nothing new in an open segment is no stall.
        };
        if now.since(last_word) < self.settings.stall_us {
            return;
        }
        self.counters.stalls += 1;
        let detail = format!("a replica of sealed {segment} brought nothing though there is more");
        self.leave(now, segment, Some(WireError::retry(ErrorCode::Unavailable, detail)), out);
    }

    /// The segment is decided and the node that is read from does not live: whoever holds the end may serve it, and a
    /// stream to a dead process would only be missed when its time is over.
    pub(super) fn leave_if_over(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        let State::Reading { segment, node, .. } = self.state else {
            return;
        };
        if chains.sealed(segment).is_some() && !chains.lives(node) {
            let error = WireError::retry(ErrorCode::Unavailable, format!("{node} is dead"));
            self.counters.breaks += 1;
            self.leave(now, segment, Some(error), out);
        }
    }

    /// The stall clock starts when the chain shows the seal: an idle open segment owes nothing.
    pub(super) fn note_owed(&mut self, now: Tick, chains: &Chains) {
        if let State::Reading { segment, last_word, owed, .. } = &mut self.state
            && !*owed
            && chains.sealed(*segment).is_some()
        {
            *owed = true;
            *last_word = now;
        }
    }

    /// Opens a stream where the tail goes on, if it has none and one can be had.
    pub(super) fn search(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        let State::Searching { segment, retry_at } = self.state else {
            return;
        };
        if chains.deleted(self.range) {
            let error = WireError::refused(ErrorCode::UnknownTopic, "the topic was deleted");
            return self.fail(error, out);
        }
        if let Some(earliest) = chains.earliest(self.range).filter(|earliest| self.wanted < *earliest) {
            return self.fail(WireError::trimmed(self.wanted, earliest), out);
        }
        let lost_since = *self.lost_since.get_or_insert(now);
        if now.since(lost_since) >= self.settings.patience_us {
            let last = self.last_error.as_ref().map(|error| format!("; the last word was: {error}"));
            let at = segment.or_else(|| chains.locate(self.range, self.wanted));
            let at =
                at.map_or_else(|| format!("{} has no segment for it yet", self.range), |id| chains.whereabouts(id));
            let detail = format!("no replica serves offset {}: {at}{}", self.wanted, last.unwrap_or_default());
            return self.fail(WireError::retry(ErrorCode::Unavailable, detail), out);
        }
        if retry_at.is_some_and(|at| at > now) {
            return;
        }
        // What an `End` named, unless that is gone too: then the log starts behind it, and it was empty.
        let segment = segment.filter(|segment| !chains.gone(*segment));
        let segment = segment.or_else(|| chains.locate(self.range, self.wanted));
        let readers = segment.map(|segment| chains.readers(segment, 0)).unwrap_or_default();
        let rounds = self.attempts / (readers.len().max(1) as u32);
        if let Some(error) = self.last_error.as_ref().filter(|error| is_final(error) && rounds >= FINAL_ROUNDS) {
            let error = error.clone();
            return self.fail(error, out);
        }
        let (Some(segment), false) = (segment, readers.is_empty()) else {
            // The watch will tell, or a node will come back; both wake the tail.
            self.state = State::Searching { segment, retry_at: None };
            return;
        };
        let node = readers[(self.turn % readers.len() as u64) as usize];
        let stream = self.open(segment, node, Some(self.wanted), out);
        let owed = chains.sealed(segment).is_some();
        self.state = State::Reading { segment, node, stream, last_word: now, owed };
        self.silence = Silence::new(now, &self.settings);
    }

    fn open(&mut self, segment: SegmentId, node: NodeId, from: Option<Offset>, out: &mut Vec<Effect>) -> Stream {
        let id = TailStream(self.next_stream);
        self.next_stream += 1;
        out.push(Effect::Open { stream: id, segment, node, from });
        Stream { id, opened: false, held: VecDeque::new() }
    }

    /// Holds a stream on each ready candidate of the segment that is read, and lets go of those that cannot be chosen.
    pub(super) fn watch_successors(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        let State::Reading { segment, .. } = self.state else {
            return;
        };
        let gone: Vec<SegmentId> =
            self.successors.keys().copied().filter(|id| chains.never_chosen(*id) || chains.gone(*id)).collect();
        for id in gone {
            if let Some(Successor::Open { stream, .. }) = self.successors.remove(&id) {
                out.push(Effect::Close { stream: stream.id });
            }
        }
        if self.until.is_some() {
            return;
        }
        let ready: Vec<SegmentId> = chains.candidates(segment).map(|view| view.spec.id).collect();
        self.successors.retain(|id, successor| match successor {
            Successor::Open { .. } => true,
            Successor::Broken { .. } => ready.contains(id),
        });
        for id in ready {
            let attempts = match self.successors.get(&id) {
                None => 0,
                Some(Successor::Broken { retry_at, attempts }) if *retry_at <= now => *attempts,
                Some(Successor::Open { .. } | Successor::Broken { .. }) => continue,
            };
            let Some(node) = chains.primary(id).filter(|node| chains.node(*node).is_some()) else {
                let retry_at = now.after_us(self.backoff(attempts));
                self.successors.insert(id, Successor::Broken { retry_at, attempts: attempts.saturating_add(1) });
                continue;
            };
            let stream = self.open(id, node, None, out);
            self.successors.insert(id, Successor::Open { stream, node, attempts });
        }
    }

    /// Shorthand for the first input.
    pub fn start(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        self.handle(now, Input::ChainChanged, chains, out);
    }
}

/// Whether no other replica can answer differently.
fn is_final(error: &WireError) -> bool {
    error.code == ErrorCode::OffsetOutOfRange && error.certainty == Certainty::Definite
}

/// The log starts above what is wanted: retention deleted it.
pub(super) fn starts_above(error: &WireError, wanted: Offset) -> bool {
    matches!(error.code, ErrorCode::Trimmed { start } if start > wanted)
}
