//! What must hold in every state, by the numbers of the roll protocol, and what must be seen in some.

use super::config::Witness;
use super::ghost::Rule;
use super::layout::{EPOCHS, M, N, REPLICAS, SPARE, START};
use super::roll::Roll;
use super::world::World;
use seam_wire::{Epoch, Offset, SegmentId};
use segd_core::primary::Phase;
use stateright::Property;
use std::collections::BTreeMap;

pub const R1_KEPT: &str = "R1 an acked record is never lost";
pub const R1_HELD: &str = "R1 what is acked is held by A";
pub const R2: &str = "R2 one record at an offset";
pub const R2_DENSE: &str = "R2 no hole below a recorded end";
pub const R3: &str = "R3 one start, at the prior's end";
pub const R4: &str = "R4 nothing commits before the prior is decided";
pub const R5: &str = "R5 one decided end and next";
pub const R5_EPOCH: &str = "R5 an epoch fixes one end";
pub const R7: &str = "R7 a shown end is never taken back";
pub const R8: &str = "R8 a fenced replica acks its old primary nothing";
pub const R10: &str = "R10 nothing chosen is reclaimed";
pub const R13: &str = "R13 begun by its binder only";
pub const R14: &str = "R14 no duplicate is answered before its original is committed";
pub const R15: &str = "R15 no switch behind a closed gate";
pub const ASSERTIONS: &str = "no assertion of the machines fails";
pub const LIVE: &str = "the head moves on in the end";

pub const WITNESSES: [(Witness, &str); 6] = [
    (Witness::RollsWithoutMetad, "seen: M acks with metad knowing nothing (R12)"),
    (Witness::CandidateAcks, "seen: a recovery's candidate acks"),
    (Witness::AgentFollowsSeal, "seen: an agent follows the seal entry"),
    (Witness::TwoAgentsFix, "seen: two agents fix an end each"),
    (Witness::SpareFollows, "seen: the spare follows, M was given back"),
    (Witness::ChainAcks, "seen: K acks"),
];

pub fn witness_name(witness: Witness) -> &'static str {
    WITNESSES.iter().find(|(known, _)| *known == witness).map_or("", |(_, name)| name)
}

pub fn properties(live: bool, witnesses: &[Witness]) -> Vec<Property<Roll>> {
    let mut all: Vec<Property<Roll>> = vec![
        Property::always(R1_KEPT, |roll, w: &World| acked_are_kept(roll, w) && !w.ghost.asserted(1)),
        Property::always(R1_HELD, |_, w: &World| !w.ghost.is_broken(Rule::AckedUnheld)),
        Property::always(R2, |_, w: &World| one_record_at_an_offset(w) && !w.ghost.asserted(2)),
        Property::always(R2_DENSE, |roll, w: &World| no_hole(roll, w)),
        Property::always(R3, |_, w: &World| one_start(w) && !w.ghost.asserted(3)),
        Property::always(R4, |_, w: &World| !w.ghost.is_broken(Rule::R4)),
        Property::always(R5, |_, w: &World| at_most_one(w.ghost.decided.iter().copied()) && !w.ghost.asserted(5)),
        Property::always(R5_EPOCH, |_, w: &World| at_most_one(w.ghost.fixed.iter().copied())),
        Property::always(R7, |_, w: &World| at_most_one(w.ghost.shown.iter().copied())),
        Property::always(R8, |_, w: &World| !w.ghost.is_broken(Rule::R8)),
        Property::always(R10, |_, w: &World| nothing_chosen_is_reclaimed(w)),
        Property::always(R13, |_, w: &World| !w.ghost.is_broken(Rule::R13)),
        Property::always(R14, |_, w: &World| !w.ghost.is_broken(Rule::R14)),
        Property::always(R15, |_, w: &World| !w.ghost.is_broken(Rule::R15)),
        Property::always(ASSERTIONS, |_, w: &World| !w.ghost.is_broken(Rule::Assertion)),
    ];
    if live {
        // Exact, for the condition never ceases to hold and no path has a cycle: it fails if and only if some path ends
        // without it.
        all.push(Property::eventually(LIVE, |roll, w| head_moved(roll, w) || w.ghost.is_broken(Rule::Assertion)));
    }
    for witness in witnesses {
        let seen: fn(&Roll, &World) -> bool = match witness {
            Witness::RollsWithoutMetad => |_, w| acks(w, M) && w.facts.decided.is_none(),
            Witness::CandidateAcks => {
                |roll, w| (1..=EPOCHS as u64).any(|epoch| acks(w, roll.config.layout.candidate(Epoch(epoch))))
            }
            Witness::AgentFollowsSeal => |_, w| {
                let next = w.facts.decided.map(|decision| decision.next);
                next == Some(M) && w.agents.iter().flatten().any(|agent| agent.safe() == w.facts.decided)
            },
            Witness::TwoAgentsFix => |_, w| w.agents.iter().flatten().filter(|a| a.decision().is_some()).count() > 1,
            Witness::SpareFollows => {
                |_, w| w.facts.m_is_gone && w.facts.decided.is_some_and(|decision| decision.next == SPARE)
            }
            Witness::ChainAcks => |_, w| acks(w, SPARE),
        };
        all.push(Property::sometimes(witness_name(*witness), seen));
    }
    all
}

fn acks(w: &World, segment: SegmentId) -> bool {
    w.ghost.acked.iter().any(|(of, _, _)| *of == segment)
}

/// Below every decided end, on enough disks to be found again, and in no segment that the chain leaves out.
fn acked_are_kept(roll: &Roll, w: &World) -> bool {
    let enough = REPLICAS - usize::from(roll.config.layout.ack_quorum) + 1;
    let ends = |segment| w.ghost.decided.iter().filter(move |(of, _)| *of == segment);
    let in_chain = |segment| {
        roll.config
            .layout
            .spec(segment)
            .prior
            .is_none_or(|prior| ends(prior).all(|(_, decision)| decision.next == segment))
    };
    w.ghost.acked.iter().all(|(segment, offset, record)| {
        let below = ends(*segment).all(|(_, decision)| *offset < decision.end);
        if *segment != N {
            // K hangs on M: a chain that leaves M out leaves K out.
            return below && in_chain(*segment) && (*segment != SPARE || !roll.config.layout.chain || in_chain(M));
        }
        let (holders, lost) = w.holders(*offset, *record);
        let no_other = w.sites.iter().all(|site| site.record(*offset).is_none_or(|held| held == *record));
        below && no_other && holders + lost >= enough && holders > 0
    })
}

fn one_record_at_an_offset(w: &World) -> bool {
    at_most_one(w.ghost.acked.iter().map(|(segment, offset, record)| ((*segment, *offset), *record)))
}

/// Every offset of the recorded segment is on a disk, unless as many disks were lost as a recovery asks copies for. (Where
/// A = R that is one: what was never acked may be decided into the log, and lost with the disk that alone held it.)
fn no_hole(roll: &Roll, w: &World) -> bool {
    let Some(decision) = w.facts.decided else { return true };
    let copies = REPLICAS - usize::from(roll.config.layout.ack_quorum) + 1;
    let lost = w.sites.iter().filter(|site| site.lost).count();
    let on_disk = |offset| w.sites.iter().any(|site| site.record(Offset(offset)).is_some());
    lost >= copies || (START.0..decision.end.0).all(on_disk)
}

/// Started once, and where the prior was decided to end.
fn one_start(w: &World) -> bool {
    let linked = |segment: SegmentId, start| {
        w.ghost
            .decided
            .iter()
            .filter(|(_, decision)| decision.next == segment)
            .all(|(_, decision)| decision.end == start)
    };
    at_most_one(w.ghost.starts.iter().copied())
        && w.ghost.starts.iter().all(|(segment, start)| linked(*segment, *start))
}

fn nothing_chosen_is_reclaimed(w: &World) -> bool {
    let chosen = w.ghost.decided.iter().any(|(of, decision)| *of == N && decision.next == M);
    !(w.facts.m_is_gone && (chosen || acks(w, M)))
}

/// No key with two values.
fn at_most_one<K: Ord, V: PartialEq>(pairs: impl Iterator<Item = (K, V)>) -> bool {
    let mut seen = BTreeMap::new();
    for (key, value) in pairs {
        if seen.get(&key).is_some_and(|known| *known != value) {
            return false;
        }
        seen.insert(key, value);
    }
    true
}

/// N is recorded, and the primary of what follows it may commit.
fn head_moved(roll: &Roll, w: &World) -> bool {
    let Some(decision) = w.facts.decided else { return false };
    let Some(next) = &w.successors[roll.config.layout.slot(decision.next)] else { return false };
    let writes = match next.phase() {
        Phase::Open | Phase::Switched(_) | Phase::Decided(_) => true,
        Phase::Opening | Phase::Ready | Phase::Over => false,
    };
    writes && next.gate().is_open() && next.start() == Some(decision.end)
}
