//! The leader's clock as a plain number. It comes in as an argument; nothing here reads a clock.

/// Microseconds on a monotonic clock of this process. Its zero means nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u64);

impl Tick {
    /// The tick `ms` milliseconds later. Saturates.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Tick {
        Tick(self.0.saturating_add(ms.saturating_mul(1000)))
    }

    /// Microseconds from `earlier` to `self`; 0 when `earlier` is later.
    #[must_use]
    pub fn since_us(self, earlier: Tick) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
