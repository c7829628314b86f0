//! What a member does unasked: it beats, commits, hands over, watches the others, takes snapshots, and gives up waiting.

use super::{CommitFailure, Effect, Held, Holding, Member, Phase, Position, Positions};
use crate::group::entry::{Act, Entry};
use seam_wire::Tick;

/// Beats that may be under way while none is read back; then one a session timeout.
const MAX_BEATS_UNDER_WAY: usize = 4;
/// Members further down the list wait so many quarters longer before they take a snapshot, so that one does.
const MAX_SNAPSHOT_QUARTERS: u64 = 8;

impl Member {
    pub(super) fn duties(&mut self, now: Tick, positions: &Positions, out: &mut Vec<Effect>) {
        self.give_up_waiting(now, out);
        match self.phase {
            Phase::Joined => {
                self.release(now, positions, out);
                self.pin(now, positions, out);
                self.auto_commit(now, positions, out);
                self.evict(now, out);
                self.snapshot(out);
                if now >= self.beat_due() {
                    self.append(now, Act::Beat, out);
                }
            }
            Phase::Joining if now >= self.last_sent.after_us(self.settings.session_timeout_us) => self.join(now, out),
            Phase::Leaving if now >= self.last_sent.after_us(self.settings.session_timeout_us) => {
                self.append(now, Act::Leave, out);
            }
            Phase::New | Phase::Joining | Phase::Leaving | Phase::Over => {}
        }
    }

    /// When `Input::Tick` is due next, if ever.
    pub fn next_deadline(&self) -> Option<Tick> {
        let timeout_us = self.settings.session_timeout_us;
        let commits = self.commits.iter().map(|commit| commit.deadline);
        let rest = match self.phase {
            Phase::New | Phase::Over => return None,
            Phase::Joining | Phase::Leaving => Some(self.last_sent.after_us(timeout_us)),
            Phase::Joined => {
                let auto = self.settings.auto_commit_us.map(|_| self.auto_due);
                let group = self.replay.group();
                let watch = group.and_then(|group| self.watch.next_deadline(group, Some(self.id)));
                let holdings = self.held.values().filter_map(|held| held.holding);
                let releases = holdings.map(|holding| self.release_due(&holding)).min();
                [Some(self.beat_due()), auto, watch, releases].into_iter().flatten().min()
            }
        };
        commits.chain(rest).min()
    }

    fn beat_due(&self) -> Tick {
        let timeout_us = self.settings.session_timeout_us;
        let stalled = self.sent.len() >= MAX_BEATS_UNDER_WAY;
        self.last_sent.after_us(if stalled { timeout_us } else { timeout_us / 3 })
    }

    fn release_due(&self, holding: &Holding) -> Tick {
        match holding.released_at {
            _ if holding.call == self.calls => Tick(0),
            None => holding.since.after_us(self.settings.release_patience_us),
            Some(at) => at.after_us(self.settings.session_timeout_us),
        }
    }

    /// Hands over what is held back, once the application is done with what it has of it, or patience is over.
    fn release(&mut self, now: Tick, positions: &Positions, out: &mut Vec<Effect>) {
        let automatic = self.settings.auto_commit_us.is_some();
        let (mut due, generation) = (Vec::new(), self.generation());
        for (range, Held { term, holding, .. }) in &self.held {
            // What came with this call may be older than the holding back.
            let Some(holding) = holding.filter(|holding| holding.call < self.calls) else { continue };
            let position = positions.get(range).filter(|position| position.term == *term);
            let settled = position.is_none_or(|Position { start, handed, done, .. }| {
                let safe = if automatic { *done } else { self.committed(*range).unwrap_or_default().max(*start) };
                safe >= *handed
            });
            let patience_over = now >= self.release_due(&holding);
            if patience_over || (settled && holding.released_at.is_none()) {
                due.push((*range, position.map(|it| if automatic { it.done } else { it.start })));
            }
        }
        for (range, offset) in due {
            let topic = self.settings.subscription.topic.clone();
            self.append(now, Act::Release { generation, topic, range, offset }, out);
            if let Some(Held { holding: Some(holding), .. }) = self.held.get_mut(&range) {
                holding.released_at = Some(now);
            }
        }
    }

    /// Where reading began is committed when nothing else is: whoever takes the range over begins at the same place.
    fn pin(&mut self, now: Tick, positions: &Positions, out: &mut Vec<Effect>) {
        let timeout_us = self.settings.session_timeout_us;
        let fresh = |held: &Held| held.pinned_at.is_none_or(|at| now.since(at) >= timeout_us);
        let unpinned = positions.iter().filter(|(range, position)| {
            let held = self.held.get(range).filter(|held| held.term == position.term && fresh(held));
            held.is_some() && self.committed(**range).is_none()
        });
        let starts: Vec<_> = unpinned.map(|(range, position)| (*range, position.start)).collect();
        if starts.is_empty() {
            return;
        }
        let places = starts.iter().map(|(range, start)| self.place(*range, *start)).collect();
        self.append(now, Act::Commit { generation: self.generation(), places }, out);
        for (range, _) in starts {
            self.held.get_mut(&range).expect("just seen").pinned_at = Some(now);
        }
    }

    fn auto_commit(&mut self, now: Tick, positions: &Positions, out: &mut Vec<Effect>) {
        let Some(every_us) = self.settings.auto_commit_us.filter(|_| now >= self.auto_due) else {
            return;
        };
        self.auto_due = now.after_us(every_us);
        let under_way = self
            .sent
            .iter()
            .any(|sent| Some(sent.seq) == self.auto_seq && now.since(sent.at) < self.settings.session_timeout_us);
        let places = if under_way { Vec::new() } else { self.news(positions, |position| position.done) };
        if !places.is_empty() {
            self.auto_seq = Some(self.append(now, Act::Commit { generation: self.generation(), places }, out));
        }
    }

    fn evict(&mut self, now: Tick, out: &mut Vec<Effect>) {
        let Some(group) = self.replay.group() else {
            return;
        };
        for (member, last_seen) in self.watch.suspects(now, group, Some(self.id)) {
            out.push(Effect::Append(Entry::Evict { member, last_seen }.encode()));
        }
    }

    /// So that the log's beginning may go, and whoever joins has little to read.
    fn snapshot(&mut self, out: &mut Vec<Effect>) {
        let Some(group) = self.replay.group() else {
            return;
        };
        let before_me = group.members().range(..self.id).count() as u64;
        let quarters = 4 + before_me.min(MAX_SNAPSHOT_QUARTERS);
        let (records, bytes) = group.since_snapshot();
        let (max_records, max_bytes) = (self.settings.snapshot_records, self.settings.snapshot_bytes);
        let due = records >= max_records / 4 * quarters || bytes >= max_bytes / 4 * quarters;
        let under_way = self.snapshot_at.is_some_and(|at| at.until(group.next()) < max_records / 2);
        if due && !under_way {
            self.snapshot_at = Some(group.next());
            out.push(Effect::Append(Entry::Snapshot { at: group.next(), group: group.clone() }.encode()));
        }
    }

    fn give_up_waiting(&mut self, now: Tick, out: &mut Vec<Effect>) {
        let (over, waiting) = std::mem::take(&mut self.commits).into_iter().partition(|it| now >= it.deadline);
        self.commits = waiting;
        out.extend(
            over.into_iter()
                .map(|it: super::Pending| Effect::Answer { ticket: it.ticket, result: Err(CommitFailure::Unknown) }),
        );
    }
}
