//! Wakes drivers when a batch has lingered. A thread of its own, since the runtime's timers round up to whole
//! milliseconds, twice: a linger of one would last up to two.

use parking_lot::{Condvar, Mutex};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::sync::Notify;

struct Entry {
    at: Instant,
    wake: Arc<Notify>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

#[derive(Default)]
struct State {
    due: BinaryHeap<Reverse<Entry>>,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The thread begins with the first use and ends when this is dropped.
#[derive(Default)]
pub(crate) struct Pacer {
    shared: Arc<Shared>,
    started: OnceLock<()>,
}

impl Pacer {
    /// Wakes `wake` at `at`, not before. At most one entry per open batch is expected.
    pub fn wake_at(&self, at: Instant, wake: &Arc<Notify>) {
        self.started.get_or_init(|| {
            let shared = Arc::clone(&self.shared);
            let spawned = std::thread::Builder::new().name("seam-linger".to_owned()).spawn(move || shared.run());
            spawned.expect("a process that cannot start a thread cannot run a client");
        });
        let mut state = self.shared.state.lock();
        let is_first = state.due.peek().is_none_or(|Reverse(first)| at < first.at);
        state.due.push(Reverse(Entry { at, wake: Arc::clone(wake) }));
        drop(state);
        if is_first {
            self.shared.changed.notify_one();
        }
    }
}

impl Drop for Pacer {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.stop {
            let now = Instant::now();
            while state.due.peek().is_some_and(|Reverse(first)| first.at <= now) {
                if let Some(Reverse(entry)) = state.due.pop() {
                    entry.wake.notify_one();
                }
            }
            match state.due.peek().map(|Reverse(first)| first.at) {
                Some(at) => drop(self.changed.wait_until(&mut state, at)),
                None => self.changed.wait(&mut state),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn wakes_in_order_and_never_early() {
        let pacer = Pacer::default();
        let (late, early) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let start = Instant::now();
        pacer.wake_at(start + Duration::from_millis(60), &late);
        pacer.wake_at(start + Duration::from_millis(20), &early);
        early.notified().await;
        assert!(start.elapsed() >= Duration::from_millis(20));
        late.notified().await;
        assert!(start.elapsed() >= Duration::from_millis(60));
    }
}
