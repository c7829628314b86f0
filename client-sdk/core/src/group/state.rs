//! The group: a fold over its log and nothing else. No clock, no randomness: whoever has read the log up to an offset knows
//! the same members, the same generation, the same owner of each range and the same committed offsets.
//!
//! G1. A range has one owner at most, and only its owner's commits count.
//! G2. Ranges are shared out evenly among those subscribed to their topic, to within one; only what must move moves.
//! G3. A range that moves between live members changes hands at its owner's `Release`, not before.
//! G4. Committed offsets only grow, but for an operator's reset.

use super::assign::{Candidate, Held, assign};
use super::entry::{Act, Entry, MemberId, Place, Subscription};
use seam_wire::{Offset, RangeId};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Bounds of a group, so that its state fits a record.
pub const MAX_MEMBERS: usize = 512;
pub const MAX_TOPICS: usize = 64;
pub const MAX_RANGES: u32 = 256;
pub const MAX_LABEL_BYTES: usize = 128;

/// A member, as the log knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    pub label: String,
    /// Silent for so long, it may be evicted.
    pub session_timeout_ms: u64,
    pub topics: BTreeSet<String>,
    /// Offset of its last entry.
    pub last_seen: Offset,
}

/// A range, as the group knows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Who delivers it.
    pub owner: Option<MemberId>,
    /// Who gets it when the owner has released it.
    pub heir: Option<MemberId>,
    /// The generation in which the owner got it. What was written in an older one does not count.
    pub term: u64,
    /// The generation in which the owner was asked to release it, while there is an heir.
    pub asked: u64,
    /// All below it is done.
    pub committed: Option<Offset>,
}

/// A topic's ranges, by index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topic {
    pub first_range: RangeId,
    pub shares: Vec<Share>,
}

/// What an entry brought about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Counted,
    /// Its author is no member (any more).
    NotAMember,
    /// A commit: these places are not its author's in the generation it named. The others counted.
    Fenced(Vec<Place>),
    /// Overtaken by what came before it in the log.
    Stale,
    /// A reset: so many members are subscribed to the topic.
    InUse(usize),
    /// A bound of the group.
    Full(&'static str),
}

/// A consumer group at one position of its log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    next: Offset,
    generation: u64,
    members: BTreeMap<MemberId, Member>,
    topics: BTreeMap<String, Topic>,
    records_since_snapshot: u64,
    bytes_since_snapshot: u64,
}

impl Group {
    /// The offset of the entry to be folded next.
    pub fn next(&self) -> Offset {
        self.next
    }

    /// Counts the changes of who is a member and who owns what.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub fn members(&self) -> &BTreeMap<MemberId, Member> {
        &self.members
    }

    pub fn topics(&self) -> &BTreeMap<String, Topic> {
        &self.topics
    }

    /// Records and bytes of the log since the last snapshot.
    pub fn since_snapshot(&self) -> (u64, u64) {
        (self.records_since_snapshot, self.bytes_since_snapshot)
    }

    /// Goes on at `next` where the log has a gap entry at `from`. False, and nothing changes: the group was folded beyond it.
    #[must_use]
    pub fn skip(&mut self, from: Offset, next: Offset) -> bool {
        let fits = self.next == from;
        if fits {
            self.next = next;
        }
        fits
    }

    /// Folds the next record of the log, `bytes` long; `None`: it is no entry. `offset` must be [`Group::next`].
    pub fn fold(&mut self, offset: Offset, bytes: usize, entry: Option<&Entry>) -> Outcome {
        assert_eq!(offset, self.next, "a group's log is folded without a hole");
        self.next = offset.plus(1);
        self.records_since_snapshot += 1;
        self.bytes_since_snapshot += bytes as u64;
        match entry {
            Some(Entry::Member { member, seq: _, act }) => self.act(offset, *member, act),
            Some(Entry::Evict { member, last_seen }) => match self.members.get(member) {
                Some(suspect) if suspect.last_seen == *last_seen => self.remove(*member),
                Some(_) | None => Outcome::Stale,
            },
            Some(Entry::Reset { ticket: _, force, topic, offsets }) => self.reset(*force, topic, offsets),
            Some(Entry::Snapshot { .. }) => {
                self.records_since_snapshot = 0;
                self.bytes_since_snapshot = 0;
                Outcome::Counted
            }
            None => Outcome::Stale,
        }
    }

    fn act(&mut self, offset: Offset, member: MemberId, act: &Act) -> Outcome {
        if let Act::Join { label, session_timeout_ms, topics } = act {
            return self.join(offset, member, label, *session_timeout_ms, topics);
        }
        let Some(known) = self.members.get_mut(&member) else {
            return Outcome::NotAMember;
        };
        known.last_seen = offset;
        match act {
            Act::Join { .. } | Act::Beat => Outcome::Counted,
            Act::Leave => self.remove(member),
            Act::Commit { generation, places } => self.commit(member, *generation, places),
            Act::Release { generation, topic, range, offset } => {
                self.release(member, *generation, topic, *range, *offset)
            }
        }
    }

    fn join(
        &mut self,
        offset: Offset,
        member: MemberId,
        label: &str,
        timeout_ms: u64,
        topics: &[Subscription],
    ) -> Outcome {
        if let Some(known) = self.members.get_mut(&member) {
            known.last_seen = offset;
            return Outcome::Counted;
        }
        let new = topics.iter().filter(|it| !self.topics.contains_key(&it.topic)).count();
        if self.members.len() >= MAX_MEMBERS {
            return Outcome::Full("members");
        }
        if self.topics.len() + new > MAX_TOPICS {
            return Outcome::Full("topics");
        }
        if label.len() > MAX_LABEL_BYTES || topics.iter().any(|it| it.ranges == 0 || it.ranges > MAX_RANGES) {
            return Outcome::Full("ranges of a topic, or bytes of a label");
        }
        let names: BTreeSet<String> = topics.iter().map(|it| it.topic.clone()).collect();
        let joined =
            Member { label: label.to_owned(), session_timeout_ms: timeout_ms, topics: names, last_seen: offset };
        self.members.insert(member, joined);
        self.generation += 1;
        for subscription in topics {
            self.learn(subscription);
            self.share_out(&subscription.topic);
        }
        Outcome::Counted
    }

    /// A topic made again under its old name has none of the old one's offsets.
    fn learn(&mut self, found: &Subscription) {
        let known = self.topics.get(&found.topic).map(|topic| topic.first_range);
        if known.is_none_or(|known| known < found.first_range) {
            let shares = vec![Share::default(); found.ranges as usize];
            self.topics.insert(found.topic.clone(), Topic { first_range: found.first_range, shares });
        }
    }

    fn remove(&mut self, member: MemberId) -> Outcome {
        let Some(gone) = self.members.remove(&member) else {
            return Outcome::NotAMember;
        };
        self.generation += 1;
        for topic in &gone.topics {
            self.share_out(topic);
        }
        Outcome::Counted
    }

    fn commit(&mut self, member: MemberId, generation: u64, places: &[Place]) -> Outcome {
        let mut fenced = Vec::new();
        for place in places {
            // G1
            match self.share_of(member, generation, &place.topic, place.range) {
                Some(share) => share.commit(place.offset),
                None => fenced.push(place.clone()),
            }
        }
        if fenced.is_empty() { Outcome::Counted } else { Outcome::Fenced(fenced) }
    }

    fn release(
        &mut self,
        member: MemberId,
        generation: u64,
        topic: &str,
        range: u32,
        offset: Option<Offset>,
    ) -> Outcome {
        let now = self.generation;
        let Some(share) = self.share_of(member, generation, topic, range) else {
            return Outcome::Stale;
        };
        // One sent before the range was asked for anew is of a hand-over that was called off: its author delivers again.
        let Some(heir) = share.heir.filter(|_| generation >= share.asked) else {
            return Outcome::Stale;
        };
        if let Some(offset) = offset {
            share.commit(offset);
        }
        share.pass_to(heir, now);
        Outcome::Counted
    }

    /// The range, if it is the member's in this generation.
    fn share_of(&mut self, member: MemberId, generation: u64, topic: &str, range: u32) -> Option<&mut Share> {
        let share = self.topics.get_mut(topic)?.shares.get_mut(range as usize)?;
        (share.owner == Some(member) && generation >= share.term).then_some(share)
    }

    fn reset(&mut self, force: bool, topic: &Subscription, offsets: &[(u32, Offset)]) -> Outcome {
        let users = self.members.values().filter(|member| member.topics.contains(&topic.topic)).count();
        if users > 0 && !force {
            return Outcome::InUse(users);
        }
        if self.topics.len() >= MAX_TOPICS && !self.topics.contains_key(&topic.topic) {
            return Outcome::Full("topics");
        }
        if topic.ranges == 0 || topic.ranges > MAX_RANGES {
            return Outcome::Full("ranges of a topic");
        }
        self.generation += 1;
        self.learn(topic);
        self.share_out(&topic.topic);
        let shares = &mut self.topics.get_mut(&topic.topic).expect("just learnt").shares;
        for (range, offset) in offsets {
            if let Some(share) = shares.get_mut(*range as usize) {
                share.committed = Some(*offset);
                // G4: a new term; its owner begins again at the offset, and commits under way do not count.
                share.term = self.generation;
                share.asked = self.generation;
            }
        }
        Outcome::Counted
    }

    /// Shares a topic's ranges out among its subscribers.
    fn share_out(&mut self, name: &str) {
        let load = |member: MemberId| {
            let others = self.topics.iter().filter(|(topic, _)| topic.as_str() != name);
            others.flat_map(|(_, topic)| &topic.shares).filter(|share| share.target() == Some(member)).count()
        };
        let subscribed = self.members.iter().filter(|(_, member)| member.topics.contains(name));
        let candidates: Vec<Candidate> =
            subscribed.map(|(id, _)| Candidate { member: *id, elsewhere: load(*id) }).collect();
        let is_candidate = |id: &MemberId| candidates.iter().any(|it| it.member == *id);
        let generation = self.generation;
        let Some(topic) = self.topics.get_mut(name) else {
            return;
        };
        for share in &mut topic.shares {
            share.heir = share.heir.filter(is_candidate);
            share.owner = share.owner.filter(is_candidate);
            if let (None, Some(heir)) = (share.owner, share.heir) {
                share.pass_to(heir, generation);
            }
        }
        if candidates.is_empty() {
            return;
        }
        let held: Vec<Held> =
            topic.shares.iter().map(|share| Held { owner: share.owner, target: share.target() }).collect();
        for (share, target) in topic.shares.iter_mut().zip(assign(&candidates, &held)) {
            share.aim(target, generation);
        }
    }

    /// What must hold at every position. Panics naming the rule.
    pub fn assert_invariants(&self) {
        for (name, topic) in &self.topics {
            let subscribed = |id: &MemberId| self.members.get(id).is_some_and(|member| member.topics.contains(name));
            let users: Vec<MemberId> = self.members.keys().copied().filter(subscribed).collect();
            for share in &topic.shares {
                assert!(share.owner.iter().chain(&share.heir).all(subscribed), "G1: {name}: {share:?} of no member");
                assert!(share.heir.is_none() || share.owner.is_some(), "G3: {name}: {share:?} waits for nobody");
                assert!(share.heir.is_none() || share.heir != share.owner, "G3: {name}: {share:?} waits for itself");
                assert!(share.term <= self.generation && share.asked <= self.generation, "{name}: {share:?}");
                assert_eq!(share.owner.is_some(), !users.is_empty(), "G2: {name}: {share:?} is left lying");
            }
            let has = |id: &MemberId| topic.shares.iter().filter(|share| share.target() == Some(*id)).count();
            let counts: Vec<usize> = users.iter().map(has).collect();
            let (least, most) = (counts.iter().min().unwrap_or(&0), counts.iter().max().unwrap_or(&0));
            assert!(most - least <= 1, "G2: {name}: {counts:?}");
        }
    }
}

impl Share {
    /// Who is to have it.
    pub fn target(&self) -> Option<MemberId> {
        self.heir.or(self.owner)
    }

    fn commit(&mut self, offset: Offset) {
        // G4
        self.committed = self.committed.max(Some(offset));
    }

    fn pass_to(&mut self, member: MemberId, generation: u64) {
        self.owner = Some(member);
        self.heir = None;
        self.term = generation;
    }

    fn aim(&mut self, target: MemberId, generation: u64) {
        match self.owner {
            None => self.pass_to(target, generation),
            Some(owner) if owner == target => self.heir = None,
            Some(_) if self.heir.is_none() => {
                // G3
                self.heir = Some(target);
                self.asked = generation;
            }
            Some(_) => self.heir = Some(target),
        }
    }
}
