//! Numbers from the seed, and from nothing else. One lane a concern, so that a change in one leaves the others' draws alone.

use super::event::Proc;

/// The lane of what a process does and what befalls it; the same whatever others there are.
pub fn lane(who: Proc) -> u64 {
    (1 << 20) + code(who)
}

/// The lane of what happens on the way from one process to another.
pub fn lane_between(from: Proc, to: Proc) -> u64 {
    (1 << 30) + (code(from) << 10) + code(to)
}

fn code(who: Proc) -> u64 {
    let (kind, n) = match who {
        Proc::Metad(n) => (0, n),
        Proc::Segd(n) => (1, n),
        Proc::Router(n) => (2, n),
        Proc::Client(n) => (3, n),
    };
    kind * 256 + u64::from(n)
}

/// SplitMix64: small, and good enough for drawing faults.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64, lane: u64) -> Self {
        // Mixed, or one lane would be its neighbour a step later.
        let mut salt = Rng(lane);
        let mut rng = Rng(seed ^ salt.next());
        rng.next();
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// 0 up to, not including, `n`; 0 for `n == 0`.
    pub fn below(&mut self, n: u64) -> u64 {
        let wide = u128::from(self.next()) * u128::from(n);
        u64::try_from(wide >> 64).expect("below n, which fits")
    }

    /// `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// True in `ppm` of a million.
    pub fn chance(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// True in `percent` of a hundred.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.below(100) < u64::from(percent)
    }

    pub fn index(&mut self, len: usize) -> usize {
        usize::try_from(self.below(len as u64)).expect("below a length")
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_have_no_number_in_common() {
        let draws = (0..200).flat_map(|lane| {
            let mut rng = Rng::new(0, lane);
            (0..50).map(move |_| rng.next())
        });
        let draws: std::collections::BTreeSet<u64> = draws.collect();
        assert_eq!(draws.len(), 200 * 50);
    }
}
