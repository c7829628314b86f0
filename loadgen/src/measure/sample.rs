//! One record as measured: when it was due, when it was done, where it went.

/// An append (done = acked) or a delivery (done = handed to the application). Times in microseconds of the run's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub due_us: u64,
    pub done_us: u64,
    /// Meaningless unless `ok`.
    pub offset: u64,
    pub ok: bool,
}

impl Sample {
    /// From due to done; 0 if a clock step made done come first.
    pub fn latency_us(&self) -> u64 {
        self.done_us.saturating_sub(self.due_us)
    }
}

/// Sorted completion times of the samples that succeeded.
pub fn completions(samples: &[Sample]) -> Vec<u64> {
    let mut done: Vec<u64> = samples.iter().filter(|s| s.ok).map(|s| s.done_us).collect();
    done.sort_unstable();
    done
}
