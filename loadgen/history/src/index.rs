//! The history, arranged for the checks: the log as the final read has it, who sent what, where each record lies.

use crate::history::{Append, Delivery, FOREIGN, History, Op, Session};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Where a record does not lie.
const NOWHERE: u64 = u64::MAX;

/// An ack, by what the sweeps need of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Acked {
    pub return_us: u64,
    pub offset: u64,
    pub op: Op,
}

pub struct Index<'a> {
    pub history: &'a History,
    /// By offset; the first of several at one offset.
    log: Cow<'a, [Delivery]>,
    /// First offset of the final read.
    pub start: u64,
    /// The offset after the last record of the final read.
    pub end: u64,
    sessions: BTreeMap<u32, &'a Session>,
    /// The offset of each append in the log, beside the sessions' own.
    placed: BTreeMap<u32, Vec<u64>>,
    /// By time of return.
    pub acks: Vec<Acked>,
}

impl<'a> Index<'a> {
    pub fn new(history: &'a History) -> Self {
        let read = &history.final_read;
        let log = by_offset(&read.deliveries);
        let sessions: BTreeMap<u32, &Session> = history.sessions.iter().map(|s| (s.client, s)).collect();
        let mut acks: Vec<Acked> = Vec::new();
        for session in &history.sessions {
            let acked = |append: &Append| {
                let op = Op { client: session.client, sequence: append.sequence };
                append.acked().map(|offset| Acked { return_us: append.return_us, offset, op })
            };
            acks.extend(session.appends.iter().filter_map(acked));
        }
        acks.sort_unstable();
        let mut index =
            Index { history, start: read.from, end: read.end(), log, sessions, placed: BTreeMap::new(), acks };
        index.place();
        index
    }

    fn place(&mut self) {
        let mut placed: BTreeMap<u32, Vec<u64>> =
            self.sessions.iter().map(|(client, session)| (*client, vec![NOWHERE; session.appends.len()])).collect();
        for delivery in self.log.iter() {
            let Some(at) = self.position(delivery.op()) else { continue };
            let place = &mut placed.get_mut(&delivery.client).expect("it has a position")[at];
            *place = (*place).min(delivery.offset);
        }
        self.placed = placed;
    }

    /// What the log holds at `offset`.
    pub fn at(&self, offset: u64) -> Option<&Delivery> {
        let guess = usize::try_from(offset.checked_sub(self.log.first()?.offset)?).ok();
        let found = guess.and_then(|guess| self.log.get(guess)).filter(|delivery| delivery.offset == offset);
        found.or_else(|| {
            let at = self.log.binary_search_by_key(&offset, |delivery| delivery.offset).ok()?;
            self.log.get(at)
        })
    }

    pub fn log(&self) -> &[Delivery] {
        &self.log
    }

    fn position(&self, op: Op) -> Option<usize> {
        let appends = &self.sessions.get(&op.client).filter(|_| op.client != FOREIGN)?.appends;
        // Sequences are dense as a rule.
        let guess = usize::try_from(op.sequence.checked_sub(appends.first()?.sequence)?).ok();
        let is_it = |at: &usize| appends.get(*at).is_some_and(|append| append.sequence == op.sequence);
        guess.filter(is_it).or_else(|| appends.binary_search_by_key(&op.sequence, |append| append.sequence).ok())
    }

    /// What was sent under this name.
    pub fn sent(&self, op: Op) -> Option<&'a Append> {
        let at = self.position(op)?;
        self.sessions.get(&op.client).map(|session| &session.appends[at])
    }

    /// The lowest offset at which the log holds it.
    pub fn place_of(&self, op: Op) -> Option<u64> {
        let at = self.position(op)?;
        self.placed.get(&op.client).map(|placed| placed[at]).filter(|offset| *offset != NOWHERE)
    }

    /// Every append with its place: as acked, else as the log has it. In the order of sending.
    pub fn placed_appends(&self) -> Vec<(u64, Op, u64)> {
        let mut all = Vec::new();
        for session in &self.history.sessions {
            for append in &session.appends {
                let op = Op { client: session.client, sequence: append.sequence };
                if let Some(offset) = append.acked().or_else(|| self.place_of(op)) {
                    all.push((append.invoke_us, op, offset));
                }
            }
        }
        all.sort_unstable();
        all
    }
}

/// Copies only what did not come in order.
fn by_offset(read: &[Delivery]) -> Cow<'_, [Delivery]> {
    if read.is_sorted_by(|a, b| a.offset < b.offset) {
        return Cow::Borrowed(read);
    }
    let mut log = read.to_vec();
    log.sort_by_key(|delivery| delivery.offset);
    log.dedup_by_key(|delivery| delivery.offset);
    Cow::Owned(log)
}
