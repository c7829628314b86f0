//! Who gets which range: balanced to within one, and no range moves that does not have to.

use super::entry::MemberId;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A member that wants ranges of the topic, and how many it has of other topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub member: MemberId,
    pub elsewhere: usize,
}

/// Where a range is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Who delivers it now.
    pub owner: Option<MemberId>,
    /// Who is to have it: the owner, or whoever the owner hands it to.
    pub target: Option<MemberId>,
}

/// The target of each range. Counts differ by one at most; the number of ranges whose target is a candidate and changes is
/// the least possible. `candidates` must not be empty nor name a member twice.
pub fn assign(candidates: &[Candidate], held: &[Held]) -> Vec<MemberId> {
    let mut quotas = quotas(candidates, held);
    let mut targets: Vec<Option<MemberId>> = vec![None; held.len()];
    let mut place = |range: usize, member: Option<MemberId>, targets: &mut Vec<Option<MemberId>>| {
        if let Some(left) = member.and_then(|member| quotas.get_mut(&member)).filter(|left| **left > 0)
            && targets[range].is_none()
        {
            *left -= 1;
            targets[range] = member;
        }
    };
    let all = || 0..held.len();
    // What a member delivers stays before what it only waits for, and what is about to leave a member may come back.
    for range in all().filter(|range| held[*range].owner == held[*range].target) {
        place(range, held[range].target, &mut targets);
    }
    for range in all() {
        place(range, held[range].target, &mut targets);
    }
    for range in all() {
        place(range, held[range].owner, &mut targets);
    }
    let free = |(member, left): (&MemberId, &usize)| (*left > 0).then_some((*left, Reverse(*member)));
    for target in targets.iter_mut().filter(|target| target.is_none()) {
        let (_, Reverse(member)) = quotas.iter().filter_map(free).max().expect("quotas add up to the number of ranges");
        *quotas.get_mut(&member).expect("just found") -= 1;
        *target = Some(member);
    }
    targets.into_iter().map(|target| target.expect("each range was placed")).collect()
}

/// How many ranges each gets. The larger shares go to those who have most already: any other choice moves more.
fn quotas(candidates: &[Candidate], held: &[Held]) -> BTreeMap<MemberId, usize> {
    assert!(!candidates.is_empty(), "ranges are shared among somebody");
    let has = |member: MemberId| held.iter().filter(|range| range.target == Some(member)).count();
    let mut order: Vec<(Reverse<usize>, usize, MemberId)> =
        candidates.iter().map(|it| (Reverse(has(it.member)), it.elsewhere, it.member)).collect();
    order.sort_unstable();
    let (base, larger) = (held.len() / order.len(), held.len() % order.len());
    let share = |index: usize| base + usize::from(index < larger);
    order.iter().enumerate().map(|(index, (_, _, member))| (*member, share(index))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn member(n: u64) -> MemberId {
        MemberId { session: n, life: 0 }
    }

    /// The fewest ranges that must leave the candidate they are targeted at, by trying every choice of larger shares.
    fn fewest_moves(members: u64, held: &[Held]) -> usize {
        let ranges = held.len();
        let (base, larger) = (ranges / members as usize, ranges % members as usize);
        let has = |n: u64| held.iter().filter(|range| range.target == Some(member(n))).count();
        let over = |chosen: u32| {
            let quota = |n: u64| base + usize::from(chosen & (1 << n) != 0);
            (0..members).map(|n| has(n).saturating_sub(quota(n))).sum::<usize>()
        };
        (0..1u32 << members).filter(|chosen| chosen.count_ones() as usize == larger).map(over).min().unwrap()
    }

    fn holder() -> impl Strategy<Value = Option<MemberId>> {
        // Some are held by members that are gone, some by nobody.
        prop_oneof![1 => Just(None), 4 => (0..8u64).prop_map(|n| Some(member(n)))]
    }

    proptest! {
        #[test]
        fn it_is_balanced_and_only_what_must_move_moves(
            members in 1..6u64,
            held in prop::collection::vec((holder(), holder()), 0..20),
        ) {
            let held: Vec<Held> = held.into_iter().map(|(owner, target)| Held { owner, target }).collect();
            let candidates: Vec<Candidate> =
                (0..members).map(|n| Candidate { member: member(n), elsewhere: 0 }).collect();
            let targets = assign(&candidates, &held);
            prop_assert_eq!(targets.len(), held.len());
            let counts: Vec<usize> =
                (0..members).map(|n| targets.iter().filter(|target| **target == member(n)).count()).collect();
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1, "{:?}", counts);
            prop_assert_eq!(counts.iter().sum::<usize>(), held.len());
            let known = |target: Option<MemberId>| target.filter(|target| target.session < members);
            let moved = held.iter().zip(&targets).filter(|(held, target)| known(held.target).is_some_and(|it| it != **target));
            prop_assert_eq!(moved.count(), fewest_moves(members, &held));
        }
    }

    #[test]
    fn a_range_on_its_way_goes_back_to_its_owner_when_its_heir_is_gone() {
        let held = [
            Held { owner: Some(member(0)), target: Some(member(0)) },
            Held { owner: Some(member(0)), target: Some(member(9)) },
            Held { owner: Some(member(1)), target: Some(member(1)) },
        ];
        let candidates = [0, 1].map(|n| Candidate { member: member(n), elsewhere: 0 });
        assert_eq!(assign(&candidates, &held), [member(0), member(0), member(1)]);
    }

    #[test]
    fn the_larger_shares_of_several_topics_go_to_different_members() {
        let candidates = [Candidate { member: member(0), elsewhere: 2 }, Candidate { member: member(1), elsewhere: 1 }];
        let targets = assign(&candidates, &[Held::default(); 3]);
        assert_eq!(targets.iter().filter(|target| **target == member(1)).count(), 2);
    }
}
