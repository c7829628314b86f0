//! What of a tail is delivered and where it goes on. Not the bytes: a batch is known by its first and its next offset.
//!
//! T1. Each offset is delivered at most once and in order: what lies below the next offset is dropped, what begins above
//! it is a hole and is never delivered.
//! T2. After a break the tail goes on at the offset after the last one delivered.
//! T3. What retention deleted before it was delivered is told, once, and the tail goes on where the log starts.

use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::TailFrom;
use seam_wire::traps::{self, Trap};
use seam_wire::{Offset, Tick};

/// Waits and bounds. Durations in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailSettings {
    /// First wait before a broken tail is opened again; doubles to `retry_max_us`. The first try is made at once.
    pub retry_min_us: u64,
    pub retry_max_us: u64,
    /// How long a router may not know a topic that somebody else knows: news of it may be under way.
    pub unknown_patience_us: u64,
    /// Times the same offset may come damaged, or a hole be seen at it, before it is believed.
    pub strikes: u32,
    /// After so long without a word on an open tail the range's end is asked for; the wait doubles to `silence_max_us` while
    /// nothing waits.
    pub silence_us: u64,
    pub silence_max_us: u64,
    /// When records wait, what is under way has so long to come.
    pub stuck_us: u64,
    /// Give up when no record came for so long since something first failed; `None`: never.
    pub give_up_us: Option<u64>,
}

impl Default for TailSettings {
    fn default() -> Self {
        TailSettings {
            retry_min_us: 20_000,
            retry_max_us: 1_000_000,
            unknown_patience_us: 2_000_000,
            strikes: 4,
            silence_us: 15_000_000,
            silence_max_us: 240_000_000,
            stuck_us: 2_000_000,
            give_up_us: None,
        }
    }
}

/// What happened. `Opened` to `Damaged` are of the tail opened last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailInput {
    /// Open the first tail.
    Start,
    /// The router serves from `start` on.
    Opened { start: Offset },
    /// A batch that holds `[base, next)`.
    Batch { base: Offset, next: Offset },
    /// The end of a tail that does not follow.
    Ended { end: Offset },
    /// The router ended the stream with a reason, or no router could be reached.
    Refused { error: WireError },
    /// The stream or its connection broke.
    Broken { detail: String },
    /// A batch cannot be what was written.
    Damaged { detail: String },
    /// The answer to `AskEnd`: the offset after the last committed record; `None`: nobody answered.
    EndKnown { end: Option<Offset> },
    /// Time passed; due at [`Tail::next_deadline`].
    Tick,
}

/// What the shell does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailEffect {
    /// Open a tail, at another router than the last if `elsewhere`; what is left of the last one is of no use.
    Open { from: TailFrom, elsewhere: bool },
    /// Ask a router for the range's end; `EndKnown` brings the answer.
    AskEnd,
    /// Hand on the records of the batch from `first` on.
    Deliver { first: Offset, next: Offset },
    /// The records `[from, start)` were deleted before they were delivered. The tail goes on at `start`.
    Trimmed { from: Offset, start: Offset },
    /// All that was asked for has been delivered.
    Finish,
    /// The tail cannot go on.
    Fail(TailFailure),
}

/// Why a tail cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TailFailure {
    Refused(WireError),
    Hole { expected: Offset, found: Offset },
    Damaged { at: Offset, detail: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    New,
    Opening,
    Open,
    /// Waiting to open again.
    Waiting {
        until: Tick,
        elsewhere: bool,
    },
    Over,
}

/// The tail of one range.
#[derive(Clone, Debug)]
pub struct Tail {
    settings: TailSettings,
    from: TailFrom,
    state: State,
    /// Due next; `None` until the first tail told where it starts.
    next: Option<Offset>,
    /// A reader from the earliest offset who has got nothing yet: he wants the log's start, wherever it moves.
    at_earliest: bool,
    /// Tries since something last came.
    tries: u32,
    strikes: u32,
    unknown_since: Option<Tick>,
    /// Since when nothing works.
    cut_off_since: Option<Tick>,
    silence: Silence,
    stuck: u64,
}

/// What is known of the silence of an open tail.
#[derive(Clone, Copy, Debug)]
struct Silence {
    since: Tick,
    wait_us: u64,
    asked: bool,
    /// Since when it is known that records wait.
    waiting: Option<Tick>,
}

impl Silence {
    fn new(now: Tick, settings: &TailSettings) -> Self {
        Silence { since: now, wait_us: settings.silence_us, asked: false, waiting: None }
    }
}

impl Tail {
    pub fn new(from: TailFrom, settings: TailSettings) -> Self {
        let next = match from {
            TailFrom::Offset(offset) => Some(offset),
            TailFrom::Earliest | TailFrom::Latest => None,
        };
        Tail {
            settings,
            from,
            state: State::New,
            next,
            at_earliest: from == TailFrom::Earliest,
            tries: 0,
            strikes: 0,
            unknown_since: None,
            cut_off_since: None,
            silence: Silence::new(Tick(0), &settings),
            stuck: 0,
        }
    }

    /// The offset due next, once it is known.
    pub fn next_offset(&self) -> Option<Offset> {
        self.next
    }

    /// Times it heard nothing though records waited, and was opened elsewhere.
    pub fn stuck(&self) -> u64 {
        self.stuck
    }

    /// Whether a tail is open: it is to be read.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// When `Tick` is due.
    pub fn next_deadline(&self) -> Option<Tick> {
        match self.state {
            State::Waiting { until, .. } => Some(until),
            State::Open => match self.silence {
                Silence { waiting: Some(since), .. } => Some(since.after_us(self.settings.stuck_us)),
                Silence { asked: true, .. } => None,
                Silence { since, wait_us, .. } => Some(since.after_us(wait_us)),
            },
            State::New | State::Opening | State::Over => None,
        }
    }

    /// Takes one input; effects are appended to `out`, to be carried out in order.
    pub fn handle(&mut self, now: Tick, input: TailInput, out: &mut Vec<TailEffect>) {
        match input {
            TailInput::Start => self.open(false, out),
            TailInput::Opened { start } => self.on_opened(now, start, out),
            TailInput::Batch { base, next } => self.on_batch(now, base, next, out),
            TailInput::Ended { end } => self.on_ended(now, end, out),
            TailInput::Refused { error } => self.on_refused(now, error, out),
            TailInput::Broken { detail } => {
                let error = WireError::retry(ErrorCode::Unavailable, detail);
                self.again(now, true, error, out);
            }
            TailInput::Damaged { detail } => {
                let at = self.next.unwrap_or_default();
                self.strike(now, TailFailure::Damaged { at, detail }, out);
            }
            TailInput::EndKnown { end } => self.on_end_known(now, end),
            TailInput::Tick => match self.state {
                State::Waiting { until, elsewhere } if until <= now => self.open(elsewhere, out),
                State::Open => self.mind_silence(now, out),
                State::Waiting { .. } | State::New | State::Opening | State::Over => {}
            },
        }
    }

    fn open(&mut self, elsewhere: bool, out: &mut Vec<TailEffect>) {
        self.state = State::Opening;
        // T2
        let again = u64::from(traps::active(Trap::TailRepeats));
        let from = self.next.map_or(self.from, |next| TailFrom::Offset(Offset(next.0.saturating_sub(again))));
        out.push(TailEffect::Open { from, elsewhere });
    }

    fn on_opened(&mut self, now: Tick, start: Offset, out: &mut Vec<TailEffect>) {
        if self.state != State::Opening {
            return;
        }
        let expected = *self.next.get_or_insert(start);
        if start > expected {
            return self.strike(now, TailFailure::Hole { expected, found: start }, out);
        }
        self.state = State::Open;
        self.silence = Silence::new(now, &self.settings);
        self.unknown_since = None;
        // A tail that must come to an end has not heard anything yet: a router may open it and be silent, time and again.
        if self.settings.give_up_us.is_none() {
            self.cut_off_since = None;
        }
    }

    fn on_batch(&mut self, now: Tick, base: Offset, next: Offset, out: &mut Vec<TailEffect>) {
        let (State::Open, Some(expected)) = (self.state, self.next) else {
            return;
        };
        if base > expected {
            return self.strike(now, TailFailure::Hole { expected, found: base }, out);
        }
        self.tries = 0;
        self.silence = Silence::new(now, &self.settings);
        self.cut_off_since = None;
        if traps::active(Trap::TailRepeats) && base < expected {
            out.push(TailEffect::Deliver { first: base, next: next.min(expected) });
        }
        if next > expected {
            // T1: nothing below `expected`, nothing skipped.
            self.next = Some(next);
            self.at_earliest = false;
            self.strikes = 0;
            out.push(TailEffect::Deliver { first: expected, next });
        }
    }

    fn on_ended(&mut self, now: Tick, end: Offset, out: &mut Vec<TailEffect>) {
        let (State::Open, Some(expected)) = (self.state, self.next) else {
            return;
        };
        if end > expected {
            return self.strike(now, TailFailure::Hole { expected, found: end }, out);
        }
        self.state = State::Over;
        out.push(TailEffect::Finish);
    }

    /// T3. The log starts at `start` now, above what is due.
    fn on_trimmed(&mut self, now: Tick, start: Offset, error: WireError, out: &mut Vec<TailEffect>) {
        match self.next {
            Some(_) if self.at_earliest => self.next = None,
            Some(from) if from < start => {
                self.next = Some(start);
                out.push(TailEffect::Trimmed { from, start });
            }
            // It does not concern what is due: a router that is confused, or behind.
            Some(_) | None => return self.again(now, true, error, out),
        }
        self.tries = 0;
        self.again(now, false, error, out);
    }

    fn on_refused(&mut self, now: Tick, error: WireError, out: &mut Vec<TailEffect>) {
        if self.state == State::Over {
            return;
        }
        if let ErrorCode::Trimmed { start } = error.code {
            return self.on_trimmed(now, start, error, out);
        }
        let unknown = matches!(error.code, ErrorCode::UnknownTopic | ErrorCode::UnknownRange);
        if unknown {
            let since = *self.unknown_since.get_or_insert(now);
            if now.since(since) < self.settings.unknown_patience_us {
                return self.again(now, false, error, out);
            }
        }
        if error.retryable {
            return self.again(now, true, error, out);
        }
        self.fail(TailFailure::Refused(error), out);
    }

    /// Nothing came for a while: asks whether there is anything, or leaves a router that does not bring what there is.
    fn mind_silence(&mut self, now: Tick, out: &mut Vec<TailEffect>) {
        if self.next_deadline().is_none_or(|due| now < due) {
            return;
        }
        if self.silence.waiting.is_some() {
            self.stuck += 1;
            let error = WireError::retry(ErrorCode::Unavailable, "a tail heard nothing though records wait");
            return self.again(now, true, error, out);
        }
        self.silence.asked = true;
        out.push(TailEffect::AskEnd);
    }

    fn on_end_known(&mut self, now: Tick, end: Option<Offset>) {
        if self.state != State::Open || !self.silence.asked {
            return; // Something came meanwhile.
        }
        self.silence.asked = false;
        if end > self.next {
            self.silence.waiting = Some(now);
        } else {
            self.silence.since = now;
            self.silence.wait_us = self.silence.wait_us.saturating_mul(2).min(self.settings.silence_max_us);
        }
    }

    /// Something that no correct cluster sends: believed only when it comes again and again.
    fn strike(&mut self, now: Tick, failure: TailFailure, out: &mut Vec<TailEffect>) {
        self.strikes += 1;
        if self.strikes >= self.settings.strikes {
            return self.fail(failure, out);
        }
        let error = WireError::retry(ErrorCode::Internal, format!("{failure:?}"));
        self.again(now, true, error, out);
    }

    fn again(&mut self, now: Tick, elsewhere: bool, mut error: WireError, out: &mut Vec<TailEffect>) {
        if self.state == State::Over {
            return;
        }
        let since = *self.cut_off_since.get_or_insert(now);
        if let Some(give_up_us) = self.settings.give_up_us
            && now.since(since) >= give_up_us
        {
            error.detail = format!("nothing came for {} ms: {}", now.since(since) / 1_000, error.detail);
            return self.fail(TailFailure::Refused(error), out);
        }
        let doubled = self.settings.retry_min_us.saturating_mul(1 << self.tries.saturating_sub(1).min(20));
        let wait_us = if self.tries == 0 { 0 } else { doubled.min(self.settings.retry_max_us) };
        self.tries = self.tries.saturating_add(1);
        self.state = State::Waiting { until: now.after_us(wait_us), elsewhere };
    }

    fn fail(&mut self, failure: TailFailure, out: &mut Vec<TailEffect>) {
        if self.state != State::Over {
            self.state = State::Over;
            out.push(TailEffect::Fail(failure));
        }
    }
}
