//! One client tail: dense delivery over any number of segments, with the successor's stream open before the switch.
//! Not a place for offsets to be resolved (`Latest`, the end of a bounded read): the shell asks segd and hands numbers in.
//!
//! A small machine: it searches (no stream), or reads one stream; beside that it holds streams on ready candidates, opened
//! from their start whatever that will be. At `End` the stream on the segment named next becomes the current one: no round
//! trip. R2, R6: what is delivered starts at or below the offset wanted, ends above it, and the next delivery goes on there;
//! asserted in `deliver`.

mod search;
mod silence;
mod walk;

pub use walk::{WalkError, wanted_part};

use crate::Tick;
use crate::chain::Chains;
use bytes::Bytes;
use seam_wire::error::{ErrorCode, WireError};
use seam_wire::msg::FromSegd;
use seam_wire::{NodeId, Offset, RangeId, SegmentId};
use silence::Silence;
use std::collections::{BTreeMap, VecDeque};

/// One tail stream to one node, as the core numbers it. Never reused within a tail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TailStream(pub u64);

/// Waits, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TailSettings {
    /// A replica that brings nothing for so long, though the segment is known to be sealed and so has more to say, is left.
    pub stall_us: u64,
    /// After so long without a word of an open segment the committed end is asked for; the wait doubles to `silence_max_us`
    /// while there is nothing.
    pub silence_us: u64,
    pub silence_max_us: u64,
    /// First wait before the same replicas are tried again; doubles to `retry_max_us`.
    pub retry_min_us: u64,
    pub retry_max_us: u64,
    /// With no replica that serves the tail for so long, the tail fails (retryable).
    pub patience_us: u64,
}

impl Default for TailSettings {
    fn default() -> Self {
        TailSettings {
            stall_us: 1_000_000,
            silence_us: 3_000_000,
            silence_max_us: 60_000_000,
            retry_min_us: 10_000,
            retry_max_us: 1_000_000,
            patience_us: 60_000_000,
        }
    }
}

/// What happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// A message, and its payload (empty but for `Records`), on a stream.
    FromSegd { stream: TailStream, msg: FromSegd, payload: Bytes },
    /// The stream could not be opened, or broke, or ended without `End`.
    Broken { stream: TailStream },
    /// Something about this range, or about nodes, changed in `Chains`. Also the first input of a tail.
    ChainChanged,
    /// Time passed while the shell was ready to take messages; due at [`Tail::next_deadline`].
    Tick,
    /// The answer to `AskEnd`: the committed end, and the segment's own end where it is decided. `None`: nobody answered.
    Committed { segment: SegmentId, bounds: Option<(Offset, Option<Offset>)> },
    /// The client took what was delivered only now: time since then was not the replica's.
    Resumed,
}

/// What the shell does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Open a tail stream. `from: None`: the segment's start, whatever it will be.
    Open {
        stream: TailStream,
        segment: SegmentId,
        node: NodeId,
        from: Option<Offset>,
    },
    Close {
        stream: TailStream,
    },
    /// Whole batches, in order; `next` is the offset after the last record.
    Deliver {
        next: Offset,
        payload: Bytes,
    },
    /// Ask for the segment's committed end; `Input::Committed` brings the answer, or that there is none.
    AskEnd {
        segment: SegmentId,
        node: NodeId,
    },
    /// A bounded tail is complete. Nothing follows.
    Finished {
        end: Offset,
    },
    /// The tail is over. Nothing follows.
    Failed {
        error: WireError,
    },
}

/// What was counted since the tail was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TailCounters {
    /// Boundaries passed.
    pub handovers: u64,
    /// Of those, onto a stream that was open already.
    pub warm_handovers: u64,
    /// Replicas left because they brought nothing.
    pub stalls: u64,
    /// Streams of open segments left because records waited and none came.
    pub stuck: u64,
    pub breaks: u64,
    /// Payloads or ends that did not fit what was wanted; never delivered.
    pub order_faults: u64,
    /// Ended because what was wanted next lies below the log's start: 0 or 1.
    pub trimmed: u64,
}

#[derive(Clone, Debug)]
struct Stream {
    id: TailStream,
    opened: bool,
    /// What came before its turn: at most what one read brings beyond `TailOpened`.
    held: VecDeque<(FromSegd, Bytes)>,
}

#[derive(Clone, Debug)]
enum State {
    /// No stream. `segment` is the one to go on in, where an `End` named it; else the chain says.
    Searching {
        segment: Option<SegmentId>,
        retry_at: Option<Tick>,
    },
    Reading {
        segment: SegmentId,
        /// Who is read from.
        node: NodeId,
        stream: Stream,
        last_word: Tick,
        /// The chain says that the segment is sealed: more, or `End`, is owed.
        owed: bool,
    },
    Over,
}

#[derive(Clone, Debug)]
enum Successor {
    Open { stream: Stream, node: NodeId, attempts: u32 },
    Broken { retry_at: Tick, attempts: u32 },
}

/// One client tail at one router.
#[derive(Clone, Debug)]
pub struct Tail {
    range: RangeId,
    settings: TailSettings,
    wanted: Offset,
    until: Option<Offset>,
    state: State,
    silence: Silence,
    successors: BTreeMap<SegmentId, Successor>,
    next_stream: u64,
    /// Where the rotation over replicas stands.
    turn: u64,
    attempts: u32,
    /// Since when no replica serves the tail.
    lost_since: Option<Tick>,
    last_error: Option<WireError>,
    counters: TailCounters,
}

impl Tail {
    /// A tail of `range` from `from` on; with `until`, it ends there, else it follows. `hint` spreads readers over replicas.
    /// The first input must be `ChainChanged`.
    pub fn new(range: RangeId, from: Offset, until: Option<Offset>, hint: u64, settings: TailSettings) -> Self {
        Tail {
            range,
            settings,
            wanted: from,
            until,
            state: State::Searching { segment: None, retry_at: None },
            silence: Silence::new(Tick(0), &settings),
            successors: BTreeMap::new(),
            next_stream: 0,
            turn: hint,
            attempts: 0,
            lost_since: None,
            last_error: None,
            counters: TailCounters::default(),
        }
    }

    /// Takes one input; effects are appended to `out`, to be carried out in order.
    pub fn handle(&mut self, now: Tick, input: Input, chains: &Chains, out: &mut Vec<Effect>) {
        if self.over() {
            return;
        }
        match input {
            Input::FromSegd { stream, msg, payload } => self.on_message(now, stream, msg, payload, out),
            Input::Broken { stream } => self.on_broken(now, stream, None, out),
            Input::Tick => {
                self.leave_if_stalled(now, out);
                self.mind_silence(now, chains, out);
            }
            Input::Committed { segment, bounds } => self.on_committed(now, segment, bounds),
            Input::ChainChanged => {}
            Input::Resumed => self.touch(now),
        }
        self.finish_if_complete(out);
        self.leave_if_over(now, chains, out);
        self.note_owed(now, chains);
        self.search(now, chains, out);
        self.watch_successors(now, chains, out);
    }

    /// When `Input::Tick` is due next, if ever.
    pub fn next_deadline(&self) -> Option<Tick> {
        match &self.state {
            // Successors are opened again beside a stream that is read, not while there is none.
            State::Searching { retry_at, .. } => {
                let give_up = self.lost_since.map(|since| since.after_us(self.settings.patience_us));
                retry_at.iter().copied().chain(give_up).min()
            }
            State::Reading { last_word, owed, .. } => {
                let stall = owed.then(|| last_word.after_us(self.settings.stall_us));
                let silence = if *owed { None } else { self.silence.due(&self.settings) };
                let successors = self.successors.values().filter_map(|successor| match successor {
                    Successor::Broken { retry_at, .. } => Some(*retry_at),
                    Successor::Open { .. } => None,
                });
                stall.into_iter().chain(silence).chain(successors).min()
            }
            State::Over => None,
        }
    }

    /// Whether the shell is to read `stream` now. A successor is read only until it says that it is open: what it has to
    /// say waits in its own window for its turn.
    pub fn reads(&self, stream: TailStream) -> bool {
        match &self.state {
            State::Reading { stream: current, .. } if current.id == stream => true,
            State::Reading { .. } | State::Searching { .. } => {
                self.successors.values().any(|successor| match successor {
                    Successor::Open { stream: open, .. } => open.id == stream && !open.opened,
                    Successor::Broken { .. } => false,
                })
            }
            State::Over => false,
        }
    }

    /// The offset that is delivered next.
    pub fn wanted(&self) -> Offset {
        self.wanted
    }

    /// The segment that is read now.
    pub fn segment(&self) -> Option<SegmentId> {
        match &self.state {
            State::Reading { segment, .. } => Some(*segment),
            State::Searching { segment, .. } => *segment,
            State::Over => None,
        }
    }

    pub fn over(&self) -> bool {
        match self.state {
            State::Over => true,
            State::Searching { .. } | State::Reading { .. } => false,
        }
    }

    pub fn counters(&self) -> TailCounters {
        self.counters
    }

    fn on_message(&mut self, now: Tick, stream: TailStream, msg: FromSegd, payload: Bytes, out: &mut Vec<Effect>) {
        match &mut self.state {
            State::Reading { stream: current, last_word, owed, .. } if current.id == stream => {
                *last_word = now;
                current.opened = true;
                self.silence = Silence::new(now, &self.settings);
                // One that opens and never brings what it owes serves nothing.
                let served = match msg {
                    FromSegd::Error { .. } => false,
                    FromSegd::TailOpened { .. } => !*owed,
                    FromSegd::Records { .. }
                    | FromSegd::End { .. }
                    | FromSegd::AppendOpened
                    | FromSegd::AppendAck { .. }
                    | FromSegd::AppendError { .. }
                    | FromSegd::Moved { .. }
                    | FromSegd::Committed { .. } => true,
                };
                if served {
                    self.lost_since = None;
                    self.last_error = None;
                }
                self.on_current(now, stream, msg, payload, out);
            }
            State::Reading { .. } | State::Searching { .. } => self.on_successor(now, stream, msg, payload, out),
            State::Over => {}
        }
    }

    fn on_current(&mut self, now: Tick, stream: TailStream, msg: FromSegd, payload: Bytes, out: &mut Vec<Effect>) {
        match msg {
            FromSegd::TailOpened { .. } => {}
            FromSegd::Records { next } => match wanted_part(payload, self.wanted, self.until, next) {
                Ok((part, next)) => self.deliver(next, part, out),
                Err(error) => self.on_fault(now, stream, error.to_string(), out),
            },
            FromSegd::End { end, .. } if end > self.wanted => {
                let detail = format!("the segment is said to end at {end}, but {} was not seen yet", self.wanted);
                self.on_fault(now, stream, detail, out);
            }
            FromSegd::End { next, .. } => self.hand_over(now, next, out),
            // metad's committed word, which runs ahead of the picture here: no replica will say otherwise.
            FromSegd::Error { error } if search::starts_above(&error, self.wanted) => self.fail(error, out),
            FromSegd::Error { error } => self.on_broken(now, stream, Some(error), out),
            FromSegd::AppendOpened
            | FromSegd::AppendAck { .. }
            | FromSegd::AppendError { .. }
            | FromSegd::Moved { .. }
            | FromSegd::Committed { .. } => {
                self.on_fault(now, stream, "a message that is no answer to a tail".to_owned(), out);
            }
        }
    }

    /// A candidate's stream, before its turn.
    fn on_successor(&mut self, now: Tick, id: TailStream, msg: FromSegd, payload: Bytes, out: &mut Vec<Effect>) {
        let found = self.successors.values_mut().find_map(|successor| match successor {
            Successor::Open { stream, attempts, .. } if stream.id == id => Some((stream, attempts)),
            Successor::Open { .. } | Successor::Broken { .. } => None,
        });
        let Some((stream, attempts)) = found else {
            return; // Late word of a stream that is over.
        };
        match msg {
            FromSegd::Error { error } => self.on_broken(now, id, Some(error), out),
            FromSegd::TailOpened { .. } => {
                stream.opened = true;
                *attempts = 0;
            }
            FromSegd::Records { .. } | FromSegd::End { .. } => {
                stream.opened = true;
                stream.held.push_back((msg, payload));
            }
            FromSegd::AppendOpened
            | FromSegd::AppendAck { .. }
            | FromSegd::AppendError { .. }
            | FromSegd::Moved { .. }
            | FromSegd::Committed { .. } => self.on_broken(now, id, None, out),
        }
    }

    /// R6: each committed record once, in order. What is handed on begins at or below `wanted` and ends above it (checked in
    /// `wanted_part`), and `wanted` only grows.
    fn deliver(&mut self, next: Offset, part: Bytes, out: &mut Vec<Effect>) {
        self.attempts = 0;
        if part.is_empty() {
            return;
        }
        assert!(next > self.wanted, "R6: {} is delivered again up to {next}", self.wanted);
        self.wanted = next;
        out.push(Effect::Deliver { next, payload: part });
    }

    /// The current segment is over (decided): its successor's stream becomes the current one, if there is one.
    fn hand_over(&mut self, now: Tick, next: SegmentId, out: &mut Vec<Effect>) {
        self.counters.handovers += 1;
        self.attempts = 0;
        let old = std::mem::replace(&mut self.state, State::Searching { segment: Some(next), retry_at: None });
        if let State::Reading { stream, .. } = old {
            out.push(Effect::Close { stream: stream.id });
        }
        let successor = self.successors.remove(&next);
        for other in std::mem::take(&mut self.successors).into_values() {
            if let Successor::Open { stream, .. } = other {
                out.push(Effect::Close { stream: stream.id });
            }
        }
        let Some(Successor::Open { mut stream, node, .. }) = successor else {
            return;
        };
        self.counters.warm_handovers += 1;
        let (id, held) = (stream.id, std::mem::take(&mut stream.held));
        self.state = State::Reading { segment: next, node, stream, last_word: now, owed: false };
        self.silence = Silence::new(now, &self.settings);
        for (msg, payload) in held {
            self.on_message(now, id, msg, payload, out);
        }
    }

    /// A replica that contradicts what was delivered: nothing of it is handed on, and it is left.
    fn on_fault(&mut self, now: Tick, stream: TailStream, detail: String, out: &mut Vec<Effect>) {
        self.counters.order_faults += 1;
        self.on_broken(now, stream, Some(WireError::retry(ErrorCode::Internal, detail)), out);
    }

    fn finish_if_complete(&mut self, out: &mut Vec<Effect>) {
        if let Some(end) = self.until.filter(|until| self.wanted >= *until) {
            self.close_all(out);
            out.push(Effect::Finished { end });
        }
    }

    fn fail(&mut self, error: WireError, out: &mut Vec<Effect>) {
        self.counters.trimmed += u64::from(matches!(error.code, ErrorCode::Trimmed { .. }));
        self.close_all(out);
        out.push(Effect::Failed { error });
    }

    fn close_all(&mut self, out: &mut Vec<Effect>) {
        if let State::Reading { stream, .. } = std::mem::replace(&mut self.state, State::Over) {
            out.push(Effect::Close { stream: stream.id });
        }
        for successor in std::mem::take(&mut self.successors).into_values() {
            if let Successor::Open { stream, .. } = successor {
                out.push(Effect::Close { stream: stream.id });
            }
        }
    }

    fn touch(&mut self, now: Tick) {
        if let State::Reading { last_word, .. } = &mut self.state {
            *last_word = now;
            self.silence = Silence::new(now, &self.settings);
        }
    }
}
