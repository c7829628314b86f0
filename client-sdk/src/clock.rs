//! The clock of a client: the ticks of the machines, from the process's monotonic clock.

use seam_wire::Tick;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Microseconds since it was made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base: Instant,
}

impl Clock {
    pub fn new() -> Self {
        Clock { base: Instant::now() }
    }

    pub fn now(&self) -> Tick {
        Tick(micros(self.base.elapsed()))
    }

    /// When it is `tick`.
    pub fn instant(&self, tick: Tick) -> Instant {
        self.base + Duration::from_micros(tick.0)
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch, by the system's clock.
pub(crate) fn timestamp_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
