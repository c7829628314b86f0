//! What the member's task and the application's stream tell each other: which ranges to read, and how far the application
//! is. Levels, not edges: the stream brings itself up to the board whenever it is polled, and may be polled as late as it
//! likes.

use super::error::GroupError;
use client_core::group::member::{Position, Positions};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use seam_wire::{Offset, Tick};
use std::collections::BTreeMap;
use std::task::Waker;
use tokio::sync::Notify;

/// A range to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    pub term: u64,
    /// Where to begin, or to go on. `None`: nothing is committed.
    pub from: Option<Offset>,
    /// Nothing more of it may be handed out for now: it is not to be read.
    holding: bool,
    position: Option<Position>,
}

/// What the member's task shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    pub joined: bool,
    pub generation: u64,
    /// Ranges that another member is handing over to this one.
    pub waiting: u32,
    pub evictions: u64,
    pub lease_until: Option<Tick>,
}

/// Whether a record may be handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Given,
    /// The range is not ours any more, or not for now. What was read of it is dropped, and its reading with it.
    Dropped,
    /// Whether it still is ours is not known.
    Later,
}

#[derive(Default)]
struct State {
    slots: BTreeMap<u32, Slot>,
    /// Counts changes of which ranges are to be read, and in which term.
    version: u64,
    standing: Standing,
    failure: Option<GroupError>,
}

#[derive(Default)]
pub struct Board {
    state: Mutex<State>,
    stream: AtomicWaker,
    /// The application came back, or a place to start was found.
    pub moved: Notify,
}

impl Board {
    // -- by the member's task

    pub fn positions(&self) -> Positions {
        let state = self.state.lock();
        state.slots.iter().filter_map(|(range, slot)| slot.position.map(|position| (*range, position))).collect()
    }

    pub fn begin(&self, range: u32, term: u64, from: Option<Offset>) {
        let mut state = self.state.lock();
        state.slots.insert(range, Slot { term, from, holding: false, position: None });
        state.version += 1;
    }

    pub fn end(&self, range: u32) {
        let mut state = self.state.lock();
        state.slots.remove(&range);
        state.version += 1;
    }

    pub fn hold(&self, range: u32, holding: bool) {
        let mut state = self.state.lock();
        if let Some(slot) = state.slots.get_mut(&range) {
            slot.holding = holding;
            state.version += 1;
        }
    }

    /// Shows where the member stands, and wakes the stream.
    pub fn show(&self, standing: Standing) {
        self.state.lock().standing = standing;
        self.stream.wake();
    }

    /// Nothing follows.
    pub fn fail(&self, failure: GroupError) {
        let mut state = self.state.lock();
        state.slots.clear();
        state.version += 1;
        state.failure = Some(failure);
        drop(state);
        self.stream.wake();
    }

    // -- by the application's stream

    pub fn register(&self, waker: &Waker) {
        self.stream.register(waker);
    }

    pub fn failure(&self) -> Option<GroupError> {
        self.state.lock().failure.clone()
    }

    pub fn standing(&self) -> Standing {
        self.state.lock().standing
    }

    /// The ranges to read, if they are others than at version `seen`, which is brought up.
    pub fn changes(&self, seen: &mut u64) -> Option<BTreeMap<u32, Slot>> {
        let state = self.state.lock();
        let on = |slot: &Slot| Slot { from: slot.position.map(|it| it.handed).or(slot.from), ..*slot };
        (*seen != state.version).then(|| {
            *seen = state.version;
            state.slots.iter().filter(|(_, slot)| !slot.holding).map(|(range, slot)| (*range, on(slot))).collect()
        })
    }

    /// Where reading begins in this term.
    pub fn started(&self, range: u32, term: u64, start: Offset) {
        if let Some(slot) = self.state.lock().slots.get_mut(&range).filter(|slot| slot.term == term) {
            slot.position.get_or_insert(Position { term, start, handed: start, done: start });
        }
        self.moved.notify_one();
    }

    /// The application asks for more: it is done with what it was handed last of this range.
    pub fn came_back(&self, range: u32, term: u64) {
        let mut state = self.state.lock();
        if let Some(slot) = state.slots.get_mut(&range).filter(|slot| slot.term == term)
            && let Some(position) = &mut slot.position
        {
            position.done = position.handed;
            if slot.holding {
                self.moved.notify_one();
            }
        }
    }

    /// Whether the record at `offset` may be handed out; then it counts as handed.
    pub fn hand(&self, now: Tick, range: u32, term: u64, offset: Offset) -> Verdict {
        let mut state = self.state.lock();
        let lease = state.standing.lease_until;
        let Some(slot) = state.slots.get_mut(&range).filter(|slot| slot.term == term) else {
            return Verdict::Dropped;
        };
        if slot.holding {
            return Verdict::Dropped;
        }
        if lease.is_none_or(|until| now >= until) {
            return Verdict::Later;
        }
        let position = slot.position.as_mut().expect("a record came, so reading began");
        assert!(position.handed <= offset, "R6: range {range}: {offset} is handed out again");
        position.handed = offset.plus(1);
        Verdict::Given
    }

    /// The ranges that are read, each with the offset that comes next.
    pub fn reading(&self) -> Vec<(u32, Option<Offset>)> {
        let state = self.state.lock();
        state.slots.iter().map(|(range, slot)| (*range, slot.position.map(|it| it.handed).or(slot.from))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        let board = Board::default();
        board.begin(3, 7, Some(Offset(5)));
        board.started(3, 7, Offset(5));
        board.show(Standing { joined: true, lease_until: Some(Tick(100)), ..Standing::default() });
        board
    }

    #[test]
    fn only_what_is_ours_and_proven_is_handed_out() {
        let board = board();
        assert_eq!(board.hand(Tick(99), 3, 7, Offset(5)), Verdict::Given);
        assert_eq!(board.hand(Tick(100), 3, 7, Offset(6)), Verdict::Later, "the lease is over");
        assert_eq!(board.hand(Tick(99), 3, 6, Offset(6)), Verdict::Dropped, "of another term");
        let mut seen = 0;
        board.hold(3, true);
        assert_eq!(board.hand(Tick(99), 3, 7, Offset(6)), Verdict::Dropped);
        assert!(board.changes(&mut seen).unwrap().is_empty(), "it is not read");
        board.hold(3, false);
        assert_eq!(board.changes(&mut seen).unwrap()[&3].from, Some(Offset(6)), "it goes on where it was");
        assert_eq!(board.hand(Tick(99), 3, 7, Offset(6)), Verdict::Given);
        board.end(3);
        assert_eq!(board.hand(Tick(99), 3, 7, Offset(7)), Verdict::Dropped);
    }

    #[test]
    fn a_record_is_done_when_the_application_comes_back() {
        let board = board();
        board.hand(Tick(0), 3, 7, Offset(5));
        assert_eq!(board.positions()[&3].done, Offset(5));
        board.came_back(3, 6);
        assert_eq!(board.positions()[&3].done, Offset(5), "that was another term");
        board.came_back(3, 7);
        assert_eq!(board.positions()[&3].done, Offset(6));
    }
}
