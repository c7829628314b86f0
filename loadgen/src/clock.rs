//! One clock for a whole run: microseconds since its start, so that due, ack and delivery times compare. Not wall time.

use std::time::{Duration, Instant};

/// Microseconds since the start of the run, monotone.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock that reads 0 now.
    pub fn start() -> Self {
        Clock { start: Instant::now() }
    }

    pub fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// The instant at which the clock reads `us`.
    pub fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }
}
