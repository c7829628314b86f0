//! The newest updates by version, for any number of watchers. A watcher has a place in it and no queue of its own: one that
//! falls out of the ring is told so and comes again for the whole state, so a slow one costs nobody anything.

use bytes::Bytes;
use parking_lot::Mutex;
use seam_wire::meta::{MetaItem, MetaUpdate};
use std::collections::VecDeque;
use tokio::sync::watch;

/// Updates in order. Every version has one, if only an empty one, so that a gap is seen as a gap.
pub struct Hub {
    ring: Mutex<Ring>,
    /// The newest version. Watchers wait on it.
    version: watch::Sender<u64>,
    max_updates: usize,
    max_bytes: usize,
}

#[derive(Default)]
struct Ring {
    /// The version before the first update held.
    base: u64,
    updates: VecDeque<Bytes>,
    bytes: usize,
}

/// What there is after some version.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// The encoded updates that follow, a bounded number of them.
    Updates(Vec<Bytes>),
    UpToDate,
    /// No longer in the ring: only the whole state will do.
    TooOld,
    /// This member is behind: it has not applied that version yet.
    NotYet,
}

/// Updates taken from the ring at once.
const TAKE: usize = 64;

/// Plain data in memory always encodes.
pub fn encode(update: &MetaUpdate) -> Bytes {
    postcard::to_allocvec(update).map(Bytes::from).expect("plain data in memory always encodes")
}

impl Hub {
    pub fn new(max_updates: usize, max_bytes: usize) -> Self {
        Hub { ring: Mutex::default(), version: watch::Sender::new(0), max_updates, max_bytes }
    }

    /// Adds the update of `version`, the one after the newest.
    pub fn publish(&self, version: u64, items: Vec<MetaItem>) {
        let update = encode(&MetaUpdate { version, reset: false, items });
        let mut ring = self.ring.lock();
        debug_assert_eq!(ring.base + ring.updates.len() as u64 + 1, version, "every version has one update");
        ring.bytes += update.len();
        ring.updates.push_back(update);
        while ring.updates.len() > self.max_updates || ring.bytes > self.max_bytes {
            let Some(gone) = ring.updates.pop_front() else { break };
            ring.bytes -= gone.len();
            ring.base += 1;
        }
        drop(ring);
        self.version.send_replace(version);
    }

    /// The state was replaced as a whole and is now at `version`: nothing leads there from before.
    pub fn reset(&self, version: u64) {
        *self.ring.lock() = Ring { base: version, ..Ring::default() };
        self.version.send_replace(version);
    }

    /// What follows `version`.
    pub fn after(&self, version: u64) -> Next {
        let ring = self.ring.lock();
        let newest = ring.base + ring.updates.len() as u64;
        if version > newest {
            return Next::NotYet;
        }
        let Some(skip) = version.checked_sub(ring.base) else { return Next::TooOld };
        let skip = usize::try_from(skip).expect("bounded by the length of the ring");
        let updates: Vec<Bytes> = ring.updates.iter().skip(skip).take(TAKE).cloned().collect();
        if updates.is_empty() { Next::UpToDate } else { Next::Updates(updates) }
    }

    /// Changes whenever there may be more.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(next: Next) -> Vec<u64> {
        match next {
            Next::Updates(updates) => {
                updates.iter().map(|bytes| postcard::from_bytes::<MetaUpdate>(bytes).unwrap().version).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_place_in_the_ring_is_kept_or_told_to_be_lost() {
        let hub = Hub::new(3, usize::MAX);
        assert_eq!(hub.after(0), Next::UpToDate);
        for version in 1..=5 {
            hub.publish(version, Vec::new());
        }
        assert_eq!(versions(hub.after(2)), [3, 4, 5]);
        assert_eq!(versions(hub.after(4)), [5]);
        assert_eq!(hub.after(5), Next::UpToDate);
        assert_eq!(hub.after(1), Next::TooOld);
        assert_eq!(hub.after(6), Next::NotYet);
    }

    #[test]
    fn the_ring_is_bounded_in_bytes() {
        let one = encode(&MetaUpdate { version: 1, reset: false, items: Vec::new() }).len();
        let hub = Hub::new(usize::MAX, one * 2);
        for version in 1..=9 {
            hub.publish(version, Vec::new());
        }
        assert_eq!(versions(hub.after(7)), [8, 9]);
        assert_eq!(hub.after(6), Next::TooOld);
    }

    #[test]
    fn a_replaced_state_leaves_nobody_in_place() {
        let hub = Hub::new(8, usize::MAX);
        hub.publish(1, Vec::new());
        hub.reset(10);
        assert_eq!(hub.after(1), Next::TooOld);
        assert_eq!(hub.after(10), Next::UpToDate);
        hub.publish(11, Vec::new());
        assert_eq!(versions(hub.after(10)), [11]);
    }
}
