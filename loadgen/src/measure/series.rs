//! Latency over time and around rolls, thinned out for pictures. Loses nothing that matters: buckets keep their maximum.

use crate::measure::sample::Sample;
use crate::measure::stats;
use crate::measure::window::{Boundary, Window};
use crate::report::contract::{CloseUp, Series};

const BUCKET_MS: u64 = 40;
const CLOSE_UP_FROM_MS: i64 = -150;
const CLOSE_UP_TO_MS: i64 = 450;
const CLOSE_UP_BIN_MS: i64 = 5;

/// Puts the measured stretches end to end.
pub struct Axis<'a> {
    spans: &'a [Window],
}

impl<'a> Axis<'a> {
    pub fn new(spans: &'a [Window]) -> Self {
        Axis { spans }
    }

    /// Measured microseconds before `t_us`; `None` outside of all spans.
    pub fn at(&self, t_us: u64) -> Option<u64> {
        let mut before = 0;
        for span in self.spans {
            if span.contains(t_us) {
                return Some(before + t_us - span.start_us);
            }
            before += span.len_us();
        }
        None
    }

    fn total_us(&self) -> u64 {
        self.spans.iter().map(Window::len_us).sum()
    }
}

/// The series of one mode. `blocks` are the append samples of each span, `boundaries` all rolls seen.
pub fn series(spans: &[Window], blocks: &[&[Sample]], boundaries: &[Boundary]) -> Series {
    let axis = Axis::new(spans);
    let buckets = (axis.total_us().div_ceil(BUCKET_MS * 1_000)) as usize;
    let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); buckets];
    for sample in blocks.iter().flat_map(|b| b.iter()).filter(|s| s.ok) {
        if let Some(at_us) = axis.at(sample.due_us) {
            latencies[(at_us / (BUCKET_MS * 1_000)) as usize].push(sample.latency_us());
        }
    }
    latencies.iter_mut().for_each(|bucket| bucket.sort_unstable());
    let ms = |us: u64| us as f64 / 1_000.0;
    let mut ends = 0;
    Series {
        bucket_ms: BUCKET_MS,
        append_max_us: latencies.iter().map(|b| b.last().copied().unwrap_or(0)).collect(),
        append_p50_us: latencies.iter().map(|b| stats::nearest_rank(b, 0.5)).collect(),
        roll_at_ms: boundaries.iter().filter_map(|b| axis.at(b.first_due_us)).map(ms).collect(),
        block_at_ms: spans
            .iter()
            .map(|span| {
                ends += span.len_us();
                ms(ends)
            })
            .collect(),
        close_up: close_up(blocks, boundaries),
    }
}

fn close_up(blocks: &[&[Sample]], boundaries: &[Boundary]) -> CloseUp {
    let bins = ((CLOSE_UP_TO_MS - CLOSE_UP_FROM_MS) / CLOSE_UP_BIN_MS) as usize;
    let mut latencies: Vec<Vec<u64>> = vec![Vec::new(); bins];
    for boundary in boundaries {
        let zero = boundary.first_due_us as i64 + CLOSE_UP_FROM_MS * 1_000;
        let end = boundary.first_due_us as i64 + CLOSE_UP_TO_MS * 1_000;
        for block in blocks {
            let from = block.partition_point(|s| (s.due_us as i64) < zero);
            for sample in block[from..].iter().take_while(|s| (s.due_us as i64) < end).filter(|s| s.ok) {
                latencies[((sample.due_us as i64 - zero) / (CLOSE_UP_BIN_MS * 1_000)) as usize]
                    .push(sample.latency_us());
            }
        }
    }
    latencies.iter_mut().for_each(|bin| bin.sort_unstable());
    let quantile = |q: f64| latencies.iter().map(|b| stats::nearest_rank(b, q)).collect();
    CloseUp {
        from_ms: CLOSE_UP_FROM_MS,
        bin_ms: CLOSE_UP_BIN_MS,
        p50_us: quantile(0.5),
        p90_us: quantile(0.9),
        max_us: quantile(1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_end_to_end() {
        let spans =
            [Window { start_us: 1_000_000, end_us: 1_200_000 }, Window { start_us: 5_000_000, end_us: 5_100_000 }];
        let axis = Axis::new(&spans);
        assert_eq!(axis.at(1_050_000), Some(50_000));
        assert_eq!(axis.at(5_010_000), Some(210_000));
        assert_eq!(axis.at(3_000_000), None);
    }

    #[test]
    fn the_stall_shows_where_it_was() {
        let spans = [Window { start_us: 0, end_us: 1_000_000 }];
        let sample = |i: u64| {
            let due_us = i * 2_000;
            let latency = if i == 250 { 80_000 } else { 1_000 };
            Sample { due_us, done_us: due_us + latency, offset: i, ok: true }
        };
        let samples: Vec<Sample> = (0..500).map(sample).collect();
        let boundary = Boundary { window: spans[0], first_due_us: 500_000, first_latency_us: 0, undrained: false };
        let series = series(&spans, &[&samples], &[boundary]);
        assert_eq!(series.append_max_us.len(), 25);
        assert_eq!(series.append_max_us[12], 80_000);
        assert_eq!(series.append_max_us[11], 1_000);
        assert_eq!(series.roll_at_ms, [500.0]);
        let zero = (-CLOSE_UP_FROM_MS / CLOSE_UP_BIN_MS) as usize;
        assert_eq!(series.close_up.max_us[zero], 80_000);
        assert_eq!(series.close_up.max_us[zero - 1], 1_000);
    }
}
