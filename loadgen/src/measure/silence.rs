//! The longest silence between completions within a window: what an application would notice as a pause.

use crate::measure::window::Window;

/// Longest stretch of `window` with no completion, in microseconds. The window's edges bound a stretch, so nothing outside
/// of it counts, and boundary and placebo windows are treated alike. `done_us` is sorted.
pub fn longest(done_us: &[u64], window: Window) -> u64 {
    let from = done_us.partition_point(|t| *t < window.start_us);
    let mut last = window.start_us;
    let mut longest = 0;
    for done in done_us[from..].iter().copied().take_while(|t| *t < window.end_us) {
        longest = longest.max(done - last);
        last = done;
    }
    longest.max(window.end_us.saturating_sub(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(start_us: u64, end_us: u64) -> Window {
        Window { start_us, end_us }
    }

    #[test]
    fn between_completions() {
        assert_eq!(longest(&[100, 110, 150, 160, 199], window(100, 200)), 40);
    }

    #[test]
    fn clipped_at_both_edges() {
        assert_eq!(longest(&[0, 500], window(100, 200)), 100, "all of it silent");
        assert_eq!(longest(&[0, 130, 180, 900], window(100, 200)), 50);
        assert_eq!(longest(&[0, 190, 900], window(100, 200)), 90, "a silence that began before is cut at the start");
        assert_eq!(longest(&[99, 110], window(100, 200)), 90, "and one that goes on is cut at the end");
    }

    #[test]
    fn nothing_at_all() {
        assert_eq!(longest(&[], window(5, 25)), 20);
    }
}
