//! Which successor a primary takes, and which it gives back. Keeps the promise of `Released`: never chosen after (trap V8).

use crate::traps::{self, Trap};
use seam_wire::{NodeId, SegmentId};
use std::collections::BTreeMap;

/// A candidate as its binder, the primary of the prior, sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Candidate {
    pub attempt: u32,
    pub primary: NodeId,
    /// Open on this many of its replicas; 0: not ready.
    pub open_on: usize,
    pub replicas: usize,
    /// Its primary answered the last ping.
    pub answers: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Handoff {
    candidates: BTreeMap<SegmentId, Candidate>,
    released: BTreeMap<SegmentId, ()>,
    chosen: Option<SegmentId>,
}

impl Handoff {
    /// metad's newest word on a candidate. Keeps what the pings said.
    pub fn update(&mut self, id: SegmentId, attempt: u32, primary: NodeId, open_on: usize, replicas: usize) {
        let answers = self.candidates.get(&id).is_some_and(|known| known.answers);
        self.candidates.insert(id, Candidate { attempt, primary, open_on, replicas, answers });
    }

    pub fn answers(&mut self, id: SegmentId, answers: bool) {
        if let Some(candidate) = self.candidates.get_mut(&id) {
            candidate.answers = answers;
        }
    }

    /// metad reclaims it (or its primary's life ended): it is no candidate any more.
    pub fn remove(&mut self, id: SegmentId) {
        self.candidates.remove(&id);
    }

    /// metad wants `id` back. True: it is given back, and will never be chosen. False: it was chosen already.
    pub fn release(&mut self, id: SegmentId) -> bool {
        if self.chosen == Some(id) {
            return false;
        }
        self.released.insert(id, ());
        true
    }

    /// The newest ready candidate whose primary answers. Before the hard cap only one that is open on all its replicas: one
    /// open on A alone has spent its fault budget before it began.
    pub fn best(&self, at_hard_cap: bool) -> Option<SegmentId> {
        let usable = |id: &SegmentId, candidate: &Candidate| {
            let released = self.released.contains_key(id) && !traps::active(Trap::V8ReleasedIsChosen);
            let open_enough = candidate.open_on == candidate.replicas || (at_hard_cap && candidate.open_on > 0);
            let before_ready = traps::active(Trap::BeforeReady);
            (candidate.answers && !released && open_enough) || before_ready
        };
        self.candidates
            .iter()
            .filter(|(id, c)| usable(id, c))
            .max_by_key(|(id, c)| (c.attempt, **id))
            .map(|(id, _)| *id)
    }

    /// Takes `id` as the successor: no return.
    pub fn choose(&mut self, id: SegmentId) {
        assert!(self.chosen.is_none(), "R5: a segment has one next: {self:?}");
        self.chosen = Some(id);
    }

    pub fn chosen(&self) -> Option<SegmentId> {
        self.chosen
    }

    pub fn candidates(&self) -> impl Iterator<Item = (SegmentId, Candidate)> + '_ {
        self.candidates.iter().map(|(id, candidate)| (*id, *candidate))
    }

    /// Is some candidate known ready (whether or not its primary answers)?
    pub fn any_ready(&self) -> bool {
        self.candidates.iter().any(|(id, c)| c.open_on > 0 && !self.released.contains_key(id))
    }

    /// The highest attempt seen; 0: none.
    pub fn last_attempt(&self) -> u32 {
        self.candidates.values().map(|candidate| candidate.attempt).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(open_on: &[usize]) -> Handoff {
        let mut handoff = Handoff::default();
        for (index, open_on) in open_on.iter().enumerate() {
            let id = SegmentId(10 + index as u64);
            handoff.update(id, index as u32 + 1, NodeId(index as u32), *open_on, 3);
            handoff.answers(id, true);
        }
        handoff
    }

    #[test]
    fn before_the_hard_cap_only_one_open_on_all() {
        assert_eq!(with(&[3, 2]).best(false), Some(SegmentId(10)));
        assert_eq!(with(&[3, 2]).best(true), Some(SegmentId(11)));
        assert_eq!(with(&[2, 0]).best(false), None);
        assert_eq!(with(&[0]).best(true), None);
    }

    #[test]
    fn v8_a_released_candidate_is_never_chosen_and_a_chosen_one_never_released() {
        let mut handoff = with(&[3, 3]);
        assert!(handoff.release(SegmentId(11)));
        assert_eq!(handoff.best(true), Some(SegmentId(10)));
        handoff.choose(SegmentId(10));
        assert!(!handoff.release(SegmentId(10)));
    }

    #[test]
    fn a_silent_candidate_is_not_taken() {
        let mut handoff = with(&[3]);
        handoff.answers(SegmentId(10), false);
        assert_eq!(handoff.best(true), None);
    }
}
