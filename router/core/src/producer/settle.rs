//! What follows from the picture: which segment is the head, which streams are wanted, what can be sent.

use super::inflight::Place;
use super::stream::{Fate, State, Stream};
use super::{Effect, RangeProducer, UpstreamId};
use crate::Tick;
use crate::chain::Chains;
use seam_wire::SegmentId;
use seam_wire::error::{ErrorCode, WireError};

/// Moves followed from metad's head. Each is a roll that metad has not recorded yet; a longer chain is a loop.
const MAX_UNRECORDED_MOVES: usize = 64;

impl RangeProducer {
    /// Brings head and streams in line with the chain. Not needed for a plain append or ack.
    pub(super) fn settle(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        self.moved_to.retain(|segment, next| {
            chains.sealed(*segment).is_none() && !chains.gone(*segment) && !is_over(*next, chains)
        });
        self.correct_moves(chains);
        self.reopen_at = None;
        self.head = self.find_head(chains);
        self.review_streams(now, chains, out);
        if chains.deleted(self.range) {
            self.fail_deleted(out);
        } else {
            self.open_streams(now, chains, out);
        }
        let over = |segment| chains.sealed(segment).is_some() || is_over(segment, chains);
        self.retries.retain(|segment, _| chains.segment(*segment).is_some() && !over(*segment));
    }

    /// A segment that never was in the chain names the one that was chosen in its place: then it is the segment both were
    /// to follow that went on there, and what its primary told was overruled.
    fn correct_moves(&mut self, chains: &Chains) {
        let prior = |segment: SegmentId| chains.segment(segment).and_then(|view| view.spec.prior);
        let sideways: Vec<(SegmentId, SegmentId, SegmentId)> = self
            .moved_to
            .iter()
            .filter_map(|(from, to)| prior(*to).filter(|prior| prior != from).map(|prior| (*from, prior, *to)))
            .collect();
        for (from, prior, to) in sideways {
            self.moved_to.remove(&from);
            if chains.sealed(prior).is_none() {
                self.moved_to.insert(prior, to);
            }
        }
    }

    /// metad's head, led on by the moves it does not know of yet.
    fn find_head(&mut self, chains: &Chains) -> Option<SegmentId> {
        let mut head = chains.head(self.range)?;
        for _ in 0..MAX_UNRECORDED_MOVES {
            match self.moved_to.get(&head) {
                Some(next) => head = *next,
                None => return Some(head),
            }
        }
        self.counters.anomalies += 1;
        self.moved_to.clear();
        chains.head(self.range)
    }

    /// Ends streams that can bring nothing any more; gives a bound to those that owe a word.
    fn review_streams(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        let ups: Vec<UpstreamId> = self.streams.keys().copied().collect();
        for up in ups {
            let stream = &self.streams[&up];
            let segment = stream.segment;
            match self.verdict(now, stream, chains) {
                Verdict::Keep => {}
                Verdict::Await => {
                    let until = now.after_us(self.settings.moved_patience_us);
                    let stream = self.streams.get_mut(&up).expect("listed above");
                    stream.patience = Some(stream.patience.unwrap_or(until));
                }
                Verdict::Close => self.close_stream(up, out),
                Verdict::Break(fate) => {
                    self.break_stream(now, up, fate, out);
                    out.push(Effect::CloseUpstream { up, segment });
                }
            }
        }
    }

    fn verdict(&self, now: Tick, stream: &Stream, chains: &Chains) -> Verdict {
        let segment = stream.segment;
        let empty = stream.sent.is_empty();
        if chains.never_chosen(segment) {
            // What was sent there is in no segment of the chain, and never will be.
            return if empty { Verdict::Close } else { Verdict::Break(Fate::NotTaken) };
        }
        if chains.gone(segment) {
            // It may have been in the chain, so what was sent there may be in the log, or may have been.
            return if empty { Verdict::Close } else { Verdict::Break(Fate::Unknown) };
        }
        if stream.patience.is_some_and(|until| until <= now) {
            return if empty { Verdict::Close } else { Verdict::Break(Fate::Unknown) };
        }
        let decided = chains.sealed(segment).map(|(_, next)| next);
        if decided.is_some() && !empty && chains.writer_is_over(segment) {
            return Verdict::Break(Fate::Unknown);
        }
        let told = self.moved_to.get(&segment).copied();
        let recovered = chains.segment(segment).is_some_and(|view| view.recovery.is_some());
        match (stream.state, decided) {
            (State::Moved { .. }, _) if empty => Verdict::Close,
            // Decided otherwise than its primary said: that primary is fenced and owes nothing.
            (State::Moved { next }, _) if decided.or(told).is_some_and(|other| other != next) => {
                Verdict::Break(Fate::Unknown)
            }
            // All of it is committed; a living primary has sent its acks by now.
            (State::Moved { .. }, Some(_)) => Verdict::Await,
            (State::Moved { .. }, None) => Verdict::Keep,
            (State::Opening | State::Open | State::Refusing, Some(_)) if empty => Verdict::Close,
            (State::Opening | State::Open | State::Refusing, Some(_)) if recovered => Verdict::Break(Fate::Unknown),
            (State::Opening | State::Open | State::Refusing, Some(_)) => Verdict::Await,
            (State::Refusing, None) => Verdict::Await,
            (State::Opening | State::Open, None) if empty && !self.wanted(segment, chains) => Verdict::Close,
            (State::Opening | State::Open, None) => Verdict::Keep,
        }
    }

    /// The head, or a candidate to follow it.
    fn wanted(&self, segment: SegmentId, chains: &Chains) -> bool {
        let Some(head) = self.head else {
            return chains.root_candidates(self.range).any(|view| view.spec.id == segment);
        };
        segment == head || chains.candidates(head).any(|view| view.spec.id == segment)
    }

    fn open_streams(&mut self, now: Tick, chains: &Chains, out: &mut Vec<Effect>) {
        let Some(head) = self.head else {
            for view in chains.root_candidates(self.range) {
                self.open_stream(now, view.spec.id, chains, out);
            }
            return;
        };
        self.open_stream(now, head, chains, out);
        for view in chains.candidates(head) {
            self.open_stream(now, view.spec.id, chains, out);
        }
    }

    fn open_stream(&mut self, now: Tick, segment: SegmentId, chains: &Chains, out: &mut Vec<Effect>) {
        let held = self
            .streams
            .values()
            .any(|stream| stream.segment == segment && (stream.usable() || stream.state == State::Refusing));
        if held {
            return;
        }
        if let Some(retry) = self.retries.get(&segment).filter(|retry| retry.at > now) {
            self.reopen_at = Some(self.reopen_at.map_or(retry.at, |at| at.min(retry.at)));
            return;
        }
        let Some(node) = chains.primary(segment) else {
            return; // Its placement is not known yet; the watch will tell.
        };
        let up = UpstreamId(self.next_up);
        self.next_up += 1;
        self.streams.insert(up, Stream::new(segment));
        if self.head == Some(segment) {
            out.push(Effect::OpenUpstream { up, segment, node });
        } else {
            self.counters.warmed += 1;
            out.push(Effect::WarmUpstream { up, segment, node });
        }
    }

    /// The stream appends go to now.
    pub(super) fn head_stream(&self) -> Option<UpstreamId> {
        let head = self.head?;
        let usable = self.streams.iter().find(|(_, stream)| stream.segment == head && stream.usable());
        usable.map(|(up, _)| *up)
    }

    /// Sends what waits, oldest first, if it may be sent now.
    pub(super) fn flush(&mut self, out: &mut Vec<Effect>) {
        if self.inflight.first_waiting().is_none() {
            return;
        }
        let Some(up) = self.head_stream() else {
            return;
        };
        // A stream that has batches and has not said `Moved` may give some back: they go before anything newer.
        let owing = |stream: &Stream| !stream.sent.is_empty() && !matches!(stream.state, State::Moved { .. });
        if self.streams.iter().any(|(other, stream)| *other != up && owing(stream)) {
            return;
        }
        let stream = self.streams.get_mut(&up).expect("found above");
        while let Some(order) = self.inflight.first_waiting() {
            let seq = stream.next_seq;
            stream.next_seq += 1;
            let batch = self.inflight.place(order, Place::Sent { up, seq });
            self.counters.resends += u64::from(batch.may_exist);
            let (payload, trace) = (batch.payload.clone(), batch.trace);
            stream.sent.push_back((seq, order));
            out.push(Effect::Send { up, segment: stream.segment, seq, payload, trace });
        }
    }

    /// Gives up batches whose time is over.
    pub(super) fn expire(&mut self, now: Tick, out: &mut Vec<Effect>) {
        while let Some(order) = self.inflight.expired(now) {
            self.counters.expired += 1;
            let batch = self.inflight.get(order).expect("a deadline is of a batch in flight");
            let sent = match batch.place {
                Place::Sent { up, seq } => {
                    let stream = self.streams.get_mut(&up).expect("a sent batch is on a stream");
                    stream.take(seq);
                    true
                }
                Place::Waiting => false,
            };
            let error = if sent {
                let detail = "no answer from the range's head within the router's time for an append";
                WireError::unknown(ErrorCode::DeadlineExceeded, detail)
            } else {
                let detail = "the range had no reachable head within the router's time for an append; try again";
                WireError::retry(ErrorCode::DeadlineExceeded, detail)
            };
            self.fail_order(order, error, out);
        }
    }

    fn fail_deleted(&mut self, out: &mut Vec<Effect>) {
        for order in self.inflight.waiting() {
            let error = WireError::refused(ErrorCode::UnknownTopic, "the topic was deleted");
            self.fail_order(order, error, out);
        }
    }
}

/// Nothing is written there any more: not chosen, or deleted.
fn is_over(segment: SegmentId, chains: &Chains) -> bool {
    chains.never_chosen(segment) || chains.gone(segment)
}

/// What becomes of a stream.
enum Verdict {
    Keep,
    /// Kept, but only for `moved_patience`.
    Await,
    Close,
    Break(Fate),
}
