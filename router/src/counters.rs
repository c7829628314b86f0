//! What a router counts, at `/metrics`.

use seam_transport::metrics::Registry;
use std::sync::atomic::AtomicU64;

type Count = prometheus_client::metrics::counter::Counter<u64, AtomicU64>;
type Gauge = prometheus_client::metrics::gauge::Gauge;

macro_rules! counters {
    ($($field:ident: $kind:ident($make:ident, $help:literal),)*) => {
        /// Counters and gauges of the router.
        pub struct Counters { $(pub $field: $kind,)* }

        impl Counters {
            pub fn new(registry: &Registry) -> Self {
                Counters { $($field: registry.$make(stringify!($field), $help),)* }
            }
        }
    };
}

counters! {
    appends: Count(counter, "Batches taken from clients"),
    acks: Count(counter, "Batches acked to clients"),
    failed: Count(counter, "Batches answered with an error"),
    overloaded: Count(counter, "Batches refused: the range's window was full"),
    expired: Count(counter, "Batches given up at their deadline"),
    moved: Count(counter, "Boundaries met by appends"),
    moved_batches: Count(counter, "Batches that met a boundary and went to the successor"),
    warm_moves: Count(counter, "Boundaries met with the successor's stream open"),
    resends: Count(counter, "Batches sent again after a stream broke"),
    upstream_breaks: Count(counter, "Append streams to segd that broke"),
    anomalies: Count(counter, "Messages of segd that made no sense on their stream"),
    bad_batches: Count(counter, "Batches refused: they do not parse, or lie about their counts"),
    batches_too_large: Count(counter, "Batches refused: over the size limit"),
    bad_frames: Count(counter, "Client frames refused: bad length, checksum, version or kind"),
    unknown_topics: Count(counter, "Requests for a topic or range that does not exist"),
    out_of_range: Count(counter, "Tails refused: offset out of range"),
    not_authorized: Count(counter, "Connections refused by role"),
    produce_streams: Gauge(gauge, "Produce streams open"),
    tails: Gauge(gauge, "Tails open"),
    tail_handovers: Count(counter, "Boundaries passed by tails"),
    tail_warm_handovers: Count(counter, "Boundaries passed onto a stream that was open already"),
    tail_stalls: Count(counter, "Replicas left by a tail because they brought nothing"),
    tail_breaks: Count(counter, "Tail streams that broke"),
    tail_order_faults: Count(counter, "Payloads that did not fit what a tail wanted; never delivered"),
}
