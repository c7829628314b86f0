//! What the fold says is ours, against what we do: ranges begun, held back, gone on with, ended.

use super::{Effect, Held, Holding, Member, Phase};
use crate::group::state::Share;
use seam_wire::Tick;
use std::collections::BTreeMap;

impl Member {
    pub(super) fn settle(&mut self, now: Tick, out: &mut Vec<Effect>) {
        let Some(group) = self.replay.group() else {
            return;
        };
        if self.phase == Phase::Joined && !group.members().contains_key(&self.id) {
            return self.rejoin(now, out);
        }
        if self.phase != Phase::Joined {
            return;
        }
        let topic = group.topics().get(&self.settings.subscription.topic);
        let shares = topic.map(|topic| topic.shares.as_slice()).unwrap_or_default();
        let ours: BTreeMap<u32, Share> =
            (0u32..).zip(shares).filter(|(_, share)| share.owner == Some(self.id)).map(|(n, it)| (n, *it)).collect();
        self.held.retain(|range, held| {
            let kept = ours.get(range).is_some_and(|share| share.term == held.term);
            if !kept {
                out.push(Effect::End { range: *range });
            }
            kept
        });
        for (range, share) in ours {
            let term = share.term;
            let held = self.held.entry(range).or_insert_with(|| {
                out.push(Effect::Begin { range, term, from: share.committed });
                Held { term, holding: None, pinned_at: None }
            });
            match (share.heir, held.holding) {
                (Some(_), None) => {
                    held.holding = Some(Holding { since: now, call: self.calls, released_at: None });
                    out.push(Effect::Hold { range });
                }
                (None, Some(_)) => {
                    held.holding = None;
                    out.push(Effect::Resume { range });
                }
                (Some(_), Some(_)) | (None, None) => {}
            }
        }
    }

    /// What we wrote in this life counts no more. The next life begins with nothing.
    fn rejoin(&mut self, now: Tick, out: &mut Vec<Effect>) {
        out.push(Effect::Evicted);
        out.extend(std::mem::take(&mut self.held).into_keys().map(|range| Effect::End { range }));
        self.id.life += 1;
        self.proof = None;
        self.auto_seq = None;
        self.join(now, out);
    }
}
