//! How many bytes a producer may hold.

use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

#[derive(Debug)]
pub(super) struct Room {
    max_bytes: usize,
    used_bytes: AtomicUsize,
    freed: Notify,
}

impl Room {
    pub fn new(max_bytes: usize) -> Self {
        Room { max_bytes, used_bytes: AtomicUsize::new(0), freed: Notify::new() }
    }

    /// Takes `bytes` if there is room; an empty buffer has room for anything.
    pub fn try_take(&self, bytes: usize) -> bool {
        let fits = |used: usize| (used == 0 || used.saturating_add(bytes) <= self.max_bytes).then_some(used + bytes);
        self.used_bytes.fetch_update(Ordering::AcqRel, Ordering::Acquire, fits).is_ok()
    }

    /// Waits for room, until `deadline`.
    pub async fn take(&self, bytes: usize, deadline: Instant) -> bool {
        loop {
            let freed = self.freed.notified();
            let mut freed = std::pin::pin!(freed);
            // From here on nothing that is freed goes unseen.
            freed.as_mut().enable();
            if self.try_take(bytes) {
                return true;
            }
            if timeout_at(deadline, freed).await.is_err() {
                return self.try_take(bytes);
            }
        }
    }

    pub fn give_back(&self, bytes: usize) {
        self.used_bytes.fetch_sub(bytes, Ordering::AcqRel);
        self.freed.notify_waiters();
    }

    pub fn used(&self) -> usize {
        self.used_bytes.load(Ordering::Acquire)
    }

    pub fn max_bytes(&self) -> usize {
        self.max_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    #[tokio::test]
    async fn a_full_buffer_waits_and_an_empty_one_takes_anything() {
        let room = Arc::new(Room::new(10));
        assert!(room.try_take(25));
        assert!(!room.try_take(1));
        assert!(!room.take(1, Instant::now()).await);
        let waiting = tokio::spawn({
            let room = Arc::clone(&room);
            async move { room.take(8, Instant::now() + Duration::from_secs(60)).await }
        });
        tokio::task::yield_now().await;
        room.give_back(25);
        assert!(waiting.await.unwrap());
        assert_eq!(room.used(), 8);
    }
}
