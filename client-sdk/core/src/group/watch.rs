//! Who has been silent for too long, on the observer's own clock. A suspicion is only a reason to write `Evict`; whether it
//! counts, the log says.
//!
//! No one is suspected for what may be the observer's own fault: after its start, a pause of its own, or a time in which it
//! could not read the log's end, everybody has a full period again.

use super::entry::MemberId;
use super::state::Group;
use seam_wire::{Offset, Tick};
use std::collections::BTreeMap;

/// Observers further down the list wait so much of the suspect's timeout longer, so that not all of them write at once.
const STAGGER: u64 = 16;
const MAX_STAGGERS: u64 = 8;

#[derive(Clone, Copy, Debug)]
struct Seen {
    last_seen: Offset,
    since: Tick,
}

/// An observer's notes.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    seen: BTreeMap<MemberId, Seen>,
}

impl Watch {
    /// Brings the notes up to the group.
    pub fn look(&mut self, now: Tick, group: &Group) {
        self.seen.retain(|id, _| group.members().contains_key(id));
        for (id, member) in group.members() {
            let seen = self.seen.entry(*id).or_insert(Seen { last_seen: member.last_seen, since: now });
            if seen.last_seen != member.last_seen {
                *seen = Seen { last_seen: member.last_seen, since: now };
            }
        }
    }

    /// Everybody has a full period from `now` on.
    pub fn grace(&mut self, now: Tick) {
        self.seen.values_mut().for_each(|seen| seen.since = now);
    }

    /// Members silent for their session timeout, with the offset of their last entry. Each is named once, and again after
    /// another period. `me` is never named and decides how long to wait for others to act first.
    pub fn suspects(&mut self, now: Tick, group: &Group, me: Option<MemberId>) -> Vec<(MemberId, Offset)> {
        let mut suspects = Vec::new();
        for (id, seen) in self.seen.iter_mut().filter(|(id, _)| Some(**id) != me) {
            if now >= due(group, *id, seen, me) {
                seen.since = now;
                suspects.push((*id, seen.last_seen));
            }
        }
        suspects
    }

    /// When the next one may be suspected.
    pub fn next_deadline(&self, group: &Group, me: Option<MemberId>) -> Option<Tick> {
        let others = self.seen.iter().filter(|(id, _)| Some(**id) != me);
        others.map(|(id, seen)| due(group, *id, seen, me)).min()
    }
}

fn due(group: &Group, id: MemberId, seen: &Seen, me: Option<MemberId>) -> Tick {
    let Some(member) = group.members().get(&id) else {
        return Tick(u64::MAX); // Gone since the last look.
    };
    let timeout_us = member.session_timeout_ms.saturating_mul(1_000);
    let before_me = group.members().keys().filter(|other| **other != id && Some(**other) < me).count() as u64;
    seen.since.after_us(timeout_us + timeout_us / STAGGER * before_me.min(MAX_STAGGERS))
}
