//! Where the replicas of a segment go: a pure function of what is known about the nodes. The same question has the same
//! answer; ties go to the smaller id. The answer stands in the command, nobody computes it again.
//!
//! Nodes that drain, are dead, are not heard or whose disk failed get nothing. Only a successor, which must find a place
//! even in a cluster with fewer healthy nodes than replicas, is filled up with such nodes as followers: they join when
//! they come back.

use seam_wire::NodeId;
use seam_wire::topic::Placement;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use thiserror::Error;

/// What a node is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fitness {
    Usable,
    /// An operator wants it empty.
    Draining,
    /// Not heard for a while, not dead yet.
    Suspect,
    Dead,
    /// Its disk is out of service, whatever its process says.
    DiskFailed,
}

/// A node as placement sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub id: NodeId,
    pub domain: String,
    pub fitness: Fitness,
    /// `None` until the node's first heartbeat to this leader.
    pub free_bytes: Option<u64>,
    pub write_bytes_per_s: u64,
    /// Segments that are planned, ready or open here, those just proposed included.
    pub primaries: u32,
    pub replicas: u32,
}

/// What is to be placed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask<'a> {
    pub replicas: usize,
    /// So many of them must be usable; the rest may be filled up. Equal to `replicas`: strict.
    pub min_usable: usize,
    pub policy: Placement,
    /// Replicas of the segment it follows, the primary first; empty for the first of a range.
    pub prior: &'a [NodeId],
    /// Turns the starting point of `RoundRobin` when there is no prior.
    pub turn: u64,
    /// Taken last: nodes that just failed to open a candidate.
    pub avoid: &'a [NodeId],
    /// A segment's size: nodes without room for two are taken last.
    pub segment_bytes: u64,
}

/// No place: says how many nodes are needed, how many are fit, and what keeps the others out.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{needed} usable segd nodes are needed, {usable} of {registered} are ({draining} draining, {suspect} not heard, \
     {dead} dead, {disk_failed} with a failed disk): start more, or ask for fewer replicas"
)]
pub struct NoPlace {
    pub needed: usize,
    pub usable: usize,
    pub registered: usize,
    pub draining: usize,
    pub suspect: usize,
    pub dead: usize,
    pub disk_failed: usize,
}

/// Distinct nodes, the primary first.
pub fn place(nodes: &[Candidate], ask: &Ask<'_>) -> Result<Vec<NodeId>, NoPlace> {
    let usable: Vec<&Candidate> = nodes.iter().filter(|n| n.fitness == Fitness::Usable).collect();
    let min_usable = ask.min_usable.clamp(1, ask.replicas.max(1));
    let spare: Vec<&Candidate> =
        if min_usable < ask.replicas { nodes.iter().filter(|n| is_spare(n.fitness)).collect() } else { Vec::new() };
    if usable.len() < min_usable || usable.len() + spare.len() < ask.replicas {
        return Err(no_place(nodes, ask.replicas, usable.len()));
    }
    let mut chosen: Vec<&Candidate> = Vec::with_capacity(ask.replicas);
    match ask.policy {
        Placement::RoundRobin => chosen.extend(round_robin(&usable, ask)),
        Placement::Balanced => spread(&usable, ask, &mut chosen),
        Placement::Sticky => {
            // Not if it just failed to open one: else a node whose disk hangs keeps the range from ever rolling.
            let stays = ask.prior.first().filter(|p| !ask.avoid.contains(p));
            let stays = stays.and_then(|p| usable.iter().find(|n| n.id == *p));
            chosen.extend(stays);
            spread(&usable, ask, &mut chosen);
        }
    }
    spread(&spare, ask, &mut chosen);
    Ok(chosen.into_iter().map(|n| n.id).collect())
}

fn is_spare(fitness: Fitness) -> bool {
    match fitness {
        Fitness::Draining | Fitness::Suspect | Fitness::Dead => true,
        Fitness::Usable | Fitness::DiskFailed => false,
    }
}

fn round_robin<'a>(usable: &[&'a Candidate], ask: &Ask<'_>) -> Vec<&'a Candidate> {
    let mut order = usable.to_vec();
    order.sort_unstable_by_key(|n| n.id);
    let start = match ask.prior.first() {
        Some(primary) => order.iter().position(|n| n.id > *primary).unwrap_or(0),
        None => (ask.turn % order.len().max(1) as u64) as usize,
    };
    order.rotate_left(start);
    order.sort_by_key(|n| ask.avoid.contains(&n.id));
    order.truncate(ask.replicas);
    order
}

/// Takes the best node that is left until there are enough: an unused failure domain first, then load, then free space.
fn spread<'a>(from: &[&'a Candidate], ask: &Ask<'_>, chosen: &mut Vec<&'a Candidate>) {
    let mut domains: BTreeMap<&str, usize> = BTreeMap::new();
    for n in chosen.iter() {
        *domains.entry(&n.domain).or_default() += 1;
    }
    let mut left: Vec<&Candidate> = from.iter().copied().filter(|n| chosen.iter().all(|c| c.id != n.id)).collect();
    while chosen.len() < ask.replicas {
        let as_primary = chosen.is_empty();
        let rank = |n: &Candidate| {
            let crowded = domains.get(n.domain.as_str()).copied().unwrap_or(0);
            let full = n.free_bytes.is_some_and(|free| free < ask.segment_bytes.saturating_mul(2));
            let load = if as_primary { (n.primaries, n.replicas) } else { (n.replicas, n.primaries) };
            (
                full,
                ask.avoid.contains(&n.id),
                n.fitness,
                crowded,
                load,
                coarse(n.write_bytes_per_s),
                { Reverse(coarse(n.free_bytes.unwrap_or(0))) },
                n.id,
            )
        };
        let Some(best) = (0..left.len()).min_by_key(|i| rank(left[*i])) else { return };
        let best = left.swap_remove(best);
        *domains.entry(&best.domain).or_default() += 1;
        chosen.push(best);
    }
}

/// A figure to the power of two: small differences are noise, and must not decide.
fn coarse(figure: u64) -> u32 {
    u64::BITS - figure.leading_zeros()
}

fn no_place(nodes: &[Candidate], needed: usize, usable: usize) -> NoPlace {
    let count = |fitness| nodes.iter().filter(|n| n.fitness == fitness).count();
    NoPlace {
        needed,
        usable,
        registered: nodes.len(),
        draining: count(Fitness::Draining),
        suspect: count(Fitness::Suspect),
        dead: count(Fitness::Dead),
        disk_failed: count(Fitness::DiskFailed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, domain: &str) -> Candidate {
        Candidate {
            id: NodeId(id),
            domain: domain.to_owned(),
            fitness: Fitness::Usable,
            free_bytes: Some(1 << 40),
            write_bytes_per_s: 0,
            primaries: 0,
            replicas: 0,
        }
    }

    fn ask(policy: Placement, prior: &[NodeId]) -> Ask<'_> {
        Ask { replicas: 3, min_usable: 3, policy, prior, turn: 0, avoid: &[], segment_bytes: 1 << 20 }
    }

    fn ids(ids: &[u32]) -> Vec<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    #[test]
    fn domains_come_before_load() {
        let mut nodes = vec![node(1, "a"), node(2, "a"), node(3, "a"), node(4, "b"), node(5, "c")];
        nodes[3].replicas = 9;
        nodes[4].replicas = 9;
        let placed = place(&nodes, &ask(Placement::Balanced, &[])).expect("five nodes");
        assert_eq!(placed, ids(&[1, 4, 5]));
    }

    #[test]
    fn load_comes_before_free_space_and_ties_go_by_id() {
        let mut nodes: Vec<_> = (1..=5).map(|i| node(i, &format!("d{i}"))).collect();
        nodes[0].primaries = 1;
        nodes[0].replicas = 1;
        nodes[1].free_bytes = Some(1 << 30);
        assert_eq!(place(&nodes, &ask(Placement::Balanced, &[])).expect("five nodes"), ids(&[3, 4, 5]));
        nodes[1].free_bytes = Some(1 << 40);
        assert_eq!(place(&nodes, &ask(Placement::Balanced, &[])).expect("five nodes"), ids(&[2, 3, 4]));
    }

    #[test]
    fn a_full_disk_is_taken_last() {
        let mut nodes: Vec<_> = (1..=4).map(|i| node(i, &format!("d{i}"))).collect();
        nodes[0].free_bytes = Some(1 << 20);
        assert_eq!(place(&nodes, &ask(Placement::Balanced, &[])).expect("four nodes"), ids(&[2, 3, 4]));
    }

    #[test]
    fn round_robin_takes_the_next_ones() {
        let nodes: Vec<_> = (1..=5).map(|i| node(i, "a")).collect();
        let next = |prior: &[NodeId]| place(&nodes, &ask(Placement::RoundRobin, prior)).expect("five nodes");
        assert_eq!(next(&ids(&[1, 2, 3])), ids(&[2, 3, 4]));
        assert_eq!(next(&ids(&[5, 1, 2])), ids(&[1, 2, 3]));
    }

    #[test]
    fn sticky_keeps_the_primary_while_it_is_usable() {
        let mut nodes: Vec<_> = (1..=5).map(|i| node(i, &format!("d{i}"))).collect();
        nodes[3].primaries = 7;
        nodes[3].replicas = 7;
        let prior = ids(&[4, 1, 2]);
        assert_eq!(place(&nodes, &ask(Placement::Sticky, &prior)).expect("five nodes")[0], NodeId(4));
        nodes[3].fitness = Fitness::Suspect;
        assert_ne!(place(&nodes, &ask(Placement::Sticky, &prior)).expect("four nodes")[0], NodeId(4));
    }

    #[test]
    fn sticky_leaves_a_node_that_just_failed_to_open_a_candidate() {
        let nodes: Vec<_> = (1..=5).map(|i| node(i, &format!("d{i}"))).collect();
        let (prior, avoid) = (ids(&[4, 1, 2]), ids(&[4]));
        let ask = Ask { avoid: &avoid, ..ask(Placement::Sticky, &prior) };
        assert_ne!(place(&nodes, &ask).expect("five nodes")[0], NodeId(4));
    }

    #[test]
    fn the_error_counts_what_is_missing() {
        let mut nodes: Vec<_> = (1..=4).map(|i| node(i, "a")).collect();
        nodes[0].fitness = Fitness::Dead;
        nodes[1].fitness = Fitness::Draining;
        let error = place(&nodes, &ask(Placement::Balanced, &[])).expect_err("two usable of three");
        assert_eq!((error.needed, error.usable, error.registered, error.dead, error.draining), (3, 2, 4, 1, 1));
        assert!(error.to_string().contains("3 usable segd nodes are needed, 2 of 4 are"));
    }

    #[test]
    fn a_successor_is_filled_up_with_absent_followers_but_never_with_a_failed_disk() {
        let mut nodes: Vec<_> = (1..=3).map(|i| node(i, "a")).collect();
        nodes[0].fitness = Fitness::Dead;
        let relaxed = Ask { min_usable: 2, ..ask(Placement::Balanced, &[]) };
        assert_eq!(place(&nodes, &relaxed).expect("two usable, one to come back"), ids(&[2, 3, 1]));
        nodes[0].fitness = Fitness::DiskFailed;
        place(&nodes, &relaxed).expect_err("its disk will not come back");
    }
}
