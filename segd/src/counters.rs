//! What a node counts, at `/metrics`.

use seam_transport::metrics::Registry;
use segd_core::io;
use std::sync::atomic::AtomicU64;

type Count = prometheus_client::metrics::counter::Counter<u64, AtomicU64>;
type Gauge = prometheus_client::metrics::gauge::Gauge;

macro_rules! counters {
    ($($(#[$doc:meta])* $field:ident: $kind:ident($make:ident, $help:literal),)*) => {
        /// Counters and gauges of the shell and of the node's events.
        pub struct Counters { $($(#[$doc])* pub $field: $kind,)* }

        impl Counters {
            pub fn new(registry: &Registry) -> Self {
                Counters { $($field: registry.$make(stringify!($field), $help),)* }
            }
        }
    };
}

counters! {
    appends: Count(counter, "Batches received on append streams"),
    append_streams: Gauge(gauge, "Append streams open"),
    tails: Gauge(gauge, "Tail and fetch streams open"),
    tail_bytes: Count(counter, "Bytes sent to tails"),
    tail_errors: Count(counter, "Tails ended with an error"),
    tails_trimmed: Count(counter, "Tails ended because retention deleted what they read"),
    segments_trimmed: Count(counter, "Segments deleted because retention put them below their log's start"),
    segments_gone: Count(counter, "Segments deleted by metad's word for any reason"),
    bad_frames: Count(counter, "Frames refused: bad length, checksum, version or kind"),
    bad_batches: Count(counter, "Batches refused: they do not parse or their checksum is wrong"),
    not_authorized: Count(counter, "Connections refused by role"),
    slow_streams: Count(counter, "Append streams closed because their answers were not read"),
    notes: Count(counter, "Messages of peers refused"),
    switched: Count(counter, "Switches of a write head to its successor"),
    switched_not_ready: Count(counter, "Segments that reached their hard cap with no successor ready"),
    appends_waited: Count(counter, "Appends held back because no successor was ready"),
    duplicates: Count(counter, "Retries answered from the producer table"),
    out_of_sequence: Count(counter, "Appends refused: not the next sequence"),
    producer_fenced: Count(counter, "Appends refused: a newer epoch of the producer writes"),
    writes_fenced: Count(counter, "Replica writes refused: a higher epoch was promised"),
    gate_opened: Count(counter, "Gates opened"),
    gate_elsewhere: Count(counter, "Candidates whose prior went elsewhere"),
    resends: Count(counter, "Times a follower was sent again what it may have lost"),
    overloaded: Count(counter, "Appends refused: a queue was full"),
    recovery_started: Count(counter, "Recoveries started as agent"),
    recovery_done: Count(counter, "Recoveries reported as agent"),
}

impl Counters {
    pub fn count(&self, counter: io::Counter) {
        let counter = match counter {
            io::Counter::Switched => &self.switched,
            io::Counter::SwitchedNotReady => &self.switched_not_ready,
            io::Counter::AppendsWaited => &self.appends_waited,
            io::Counter::Duplicates => &self.duplicates,
            io::Counter::OutOfSequence => &self.out_of_sequence,
            io::Counter::ProducerFenced => &self.producer_fenced,
            io::Counter::WritesFenced => &self.writes_fenced,
            io::Counter::GateOpened => &self.gate_opened,
            io::Counter::GateElsewhere => &self.gate_elsewhere,
            io::Counter::Resends => &self.resends,
            io::Counter::Overloaded => &self.overloaded,
            io::Counter::RecoveryStarted => &self.recovery_started,
            io::Counter::RecoveryDone => &self.recovery_done,
        };
        counter.inc();
    }
}
