//! This process's monotonic clock, as the cores take it.

use seam_wire::Tick;
use std::time::Duration;
use tokio::time::Instant;

/// Microseconds since the process made it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    pub fn new() -> Clock {
        Clock { origin: Instant::now() }
    }

    pub fn now(&self) -> Tick {
        Tick(u64::try_from(self.origin.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    pub fn instant(&self, at: Tick) -> Instant {
        self.origin + Duration::from_micros(at.0)
    }
}

/// Sleeps until `at`; for ever without one.
pub async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}
