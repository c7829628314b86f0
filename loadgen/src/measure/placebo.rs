//! Placebo windows: as long as the boundary windows, at random in the same run, away from rolls and from each other.
//! What they show is what chance alone shows; a roll that is not felt looks the same.

use crate::measure::window::Window;
use rand::RngExt;
use rand::rngs::StdRng;

/// Places one window per length, each uniformly over all positions that are still free. `None` where none is left.
/// `spans` are the measured stretches of the run; `taken` the windows to keep away from.
pub fn place(rng: &mut StdRng, spans: &[Window], taken: &[Window], lengths_us: &[u64]) -> Vec<Option<Window>> {
    let mut free = subtract(spans, taken);
    let mut placed = Vec::with_capacity(lengths_us.len());
    for &len_us in lengths_us {
        let window = draw(rng, &free, len_us);
        if let Some(window) = window {
            free = subtract(&free, &[window]);
        }
        placed.push(window);
    }
    placed
}

/// A uniform draw over every start at which a window of `len_us` fits.
fn draw(rng: &mut StdRng, free: &[Window], len_us: u64) -> Option<Window> {
    let room = |w: &Window| w.len_us().checked_sub(len_us).map_or(0, |slack| slack + 1);
    let positions: u64 = free.iter().map(room).sum();
    if positions == 0 || len_us == 0 {
        return None;
    }
    let mut at = rng.random_range(0..positions);
    for gap in free {
        let room = room(gap);
        if at < room {
            let start_us = gap.start_us + at;
            return Some(Window { start_us, end_us: start_us + len_us });
        }
        at -= room;
    }
    None
}

/// `spans` without `taken`, in order.
fn subtract(spans: &[Window], taken: &[Window]) -> Vec<Window> {
    let mut taken = taken.to_vec();
    taken.sort_by_key(|w| w.start_us);
    let mut free = Vec::new();
    for span in spans {
        let mut from = span.start_us;
        for hole in taken.iter().filter(|w| w.end_us > span.start_us && w.start_us < span.end_us) {
            if hole.start_us > from {
                free.push(Window { start_us: from, end_us: hole.start_us });
            }
            from = from.max(hole.end_us);
        }
        if from < span.end_us {
            free.push(Window { start_us: from, end_us: span.end_us });
        }
    }
    free
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    fn window(start_us: u64, end_us: u64) -> Window {
        Window { start_us, end_us }
    }

    fn overlap(a: &Window, b: &Window) -> bool {
        a.start_us < b.end_us && b.start_us < a.end_us
    }

    #[test]
    fn subtract_leaves_the_rest() {
        let free = subtract(&[window(0, 100), window(200, 300)], &[window(50, 60), window(0, 10), window(90, 250)]);
        assert_eq!(free, [window(10, 50), window(60, 90), window(250, 300)]);
    }

    #[test]
    fn never_on_a_roll_nor_on_each_other_nor_outside() {
        let spans = [window(0, 10_000), window(20_000, 30_000)];
        let taken = [window(1_000, 1_250), window(5_000, 5_400), window(21_000, 21_250)];
        for seed in 0..200 {
            let mut rng = StdRng::seed_from_u64(seed);
            let placed: Vec<Window> = place(&mut rng, &spans, &taken, &[250; 20]).into_iter().flatten().collect();
            assert_eq!(placed.len(), 20);
            for (i, w) in placed.iter().enumerate() {
                assert_eq!(w.len_us(), 250);
                assert!(spans.iter().any(|s| s.holds(w)), "{w:?} within a block");
                assert!(!taken.iter().any(|t| overlap(t, w)), "{w:?} away from rolls");
                assert!(!placed[..i].iter().any(|t| overlap(t, w)), "{w:?} away from the others");
            }
        }
    }

    #[test]
    fn uniform_over_what_is_free() {
        let mut rng = StdRng::seed_from_u64(1);
        let spans = [window(0, 1_100), window(5_000, 8_100)];
        let first = (0..4_000).filter(|_| {
            let placed = place(&mut rng, &spans, &[], &[100]);
            placed[0].is_some_and(|w| w.start_us < 5_000)
        });
        // 1,001 of 4,002 positions.
        assert!((900..1_100).contains(&first.count()));
    }

    #[test]
    fn no_room_is_said() {
        let mut rng = StdRng::seed_from_u64(1);
        assert_eq!(place(&mut rng, &[window(0, 100)], &[window(40, 60)], &[41, 40]).iter().flatten().count(), 1);
    }
}
