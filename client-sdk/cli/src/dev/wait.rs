//! Waiting on a condition with a bound: looks often at first, then less.

use std::thread;
use std::time::{Duration, Instant};

const FIRST: Duration = Duration::from_millis(2);
const LONGEST: Duration = Duration::from_millis(50);

/// Looks at `condition` until it holds. False after `patience`.
pub fn until(patience: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    let mut pause = FIRST;
    loop {
        if condition() {
            return true;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(LONGEST);
    }
}
