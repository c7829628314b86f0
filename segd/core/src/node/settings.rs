//! Bounds and patience of a node; each has a default that is safe.

/// Times in microseconds, sizes in bytes.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A report without an answer is sent again.
    pub report_retry_us: u64,
    /// metad said "not yet".
    pub report_later_us: u64,
    /// An announcement without a usable candidate is repeated.
    pub announce_retry_us: u64,
    /// P pings its candidates; one silent for three intervals is not taken.
    pub ping_interval_us: u64,
    /// `Open`, `SubscribeSeal` and `Fence` are repeated until answered.
    pub ask_retry_us: u64,
    /// `Begin` is repeated until `Begun`.
    pub begin_retry_us: u64,
    /// Followers that make no progress are sent everything again from what they hold.
    pub resend_us: u64,
    /// An asked-for roll waits so long for a candidate open on all replicas, then takes one open on A.
    pub full_patience_us: u64,
    /// No commit for so long while appends wait: complain to metad (`Stalled`). Behind a gate: `gate_patience`.
    pub stall_patience_us: u64,
    /// A decided seal is reported so much later: nothing waits for the record, and the commit of it would compete with the
    /// successor's first records for disk and processor.
    pub record_delay_us: u64,
    /// Mere measurements are reported so much later.
    pub measures_delay_us: u64,
    /// Records kept in memory per segment for followers; older ones are read back from the store.
    pub recent_bytes: usize,
    /// Sent to a follower and not yet stored there.
    pub follower_window_bytes: usize,
    /// Appends held back per segment (before `Begin`, past the ceiling). Beyond: `Overloaded`.
    pub held_bytes: usize,
    /// Accepted and not yet acked, per segment. Beyond: `Overloaded`.
    pub unacked_bytes: usize,
    /// One read or one replication message.
    pub chunk_bytes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            report_retry_us: 1_000_000,
            report_later_us: 100_000,
            announce_retry_us: 1_000_000,
            ping_interval_us: 200_000,
            ask_retry_us: 250_000,
            begin_retry_us: 50_000,
            resend_us: 500_000,
            full_patience_us: 1_000_000,
            stall_patience_us: 2_000_000,
            record_delay_us: 20_000,
            measures_delay_us: 500_000,
            recent_bytes: 16 << 20,
            follower_window_bytes: 8 << 20,
            held_bytes: 64 << 20,
            unacked_bytes: 64 << 20,
            chunk_bytes: 256 << 10,
        }
    }
}
