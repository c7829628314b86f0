//! How far the clients are, as they go: for the progress bar, and for whoever waits until the cluster works again.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(2);

/// Counters that only rise.
#[derive(Debug, Default)]
pub struct Live {
    pub acked: AtomicU64,
    pub indeterminate: AtomicU64,
    /// The offset after the highest one acked.
    pub end: AtomicU64,
    /// The latest time of sending of an acked record.
    pub newest_acked_us: AtomicU64,
    /// For each tail the offset after the highest one delivered.
    pub tails: Mutex<Vec<u64>>,
}

impl Live {
    pub fn new(tails: usize) -> Self {
        Live { tails: Mutex::new(vec![0; tails]), ..Live::default() }
    }

    pub fn ack(&self, offset: u64, invoke_us: u64) {
        self.acked.fetch_add(1, Ordering::Relaxed);
        self.end.fetch_max(offset + 1, Ordering::Relaxed);
        self.newest_acked_us.fetch_max(invoke_us, Ordering::Relaxed);
    }

    pub fn deliver(&self, tail: usize, offset: u64) {
        let mut tails = self.tails.lock();
        tails[tail] = tails[tail].max(offset + 1);
    }

    pub fn end(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Whether a record that was sent after `us` has been acked.
    pub fn acked_after(&self, us: u64) -> bool {
        self.newest_acked_us.load(Ordering::Relaxed) > us
    }

    /// Whether every tail has got everything below `end`.
    pub fn delivered(&self, end: u64) -> bool {
        self.tails.lock().iter().all(|reached| *reached >= end)
    }
}

/// Looks at a condition until it holds. False: not within `patience`.
pub async fn until(patience: Duration, condition: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    while !condition() {
        if Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(GLANCE).await;
    }
    true
}
