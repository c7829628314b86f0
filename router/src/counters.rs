//! The router's metrics. Whoever does a thing counts it.

use parking_lot::Mutex;
use router_core::producer::ProducerCounters;
use router_core::tail::TailCounters;
use seam_transport::metrics::{Counter, Gauge, Registry};
use seam_wire::ErrorCode;
use std::collections::BTreeSet;

/// Peers whose first bad frame is remembered as logged; beyond it they are only counted.
const MAX_NAMED_PEERS: usize = 1024;

pub struct Counters {
    registry: Registry,
    pub produce_streams: Gauge,
    pub tails: Gauge,
    pub ranges: Gauge,
    pub segd_connections: Gauge,
    pub meta_version: Gauge,
    pub append_bytes: Counter,
    pub tail_bytes: Counter,
    pub tails_opened: Counter,
    pub tails_failed: Counter,
    pub not_authorized: Counter,
    pub slow_clients: Counter,
    pub stale_updates: Counter,
    pub segd_dials: Counter,
    pub segd_dial_failures: Counter,
    pub waits_for_room: Counter,
    pub stopped_without_moved: Counter,
    appends: Counter,
    acks: Counter,
    failed: Counter,
    overloaded: Counter,
    expired: Counter,
    moved: Counter,
    moved_batches: Counter,
    warm_moves: Counter,
    resends: Counter,
    upstream_breaks: Counter,
    upstreams_warmed: Counter,
    anomalies: Counter,
    tail_handovers: Counter,
    tail_warm_handovers: Counter,
    tail_stalls: Counter,
    tail_stuck: Counter,
    tail_breaks: Counter,
    tail_order_faults: Counter,
    pub tails_trimmed: Counter,
    loud_peers: Mutex<BTreeSet<String>>,
}

impl Counters {
    pub fn new(registry: &Registry) -> Counters {
        let counter = |name, help| registry.counter(name, help);
        let gauge = |name, help| registry.gauge(name, help);
        Counters {
            registry: registry.clone(),
            produce_streams: gauge("produce_streams", "Produce streams of clients"),
            tails: gauge("tails", "Tails of clients"),
            ranges: gauge("ranges", "Ranges with a producer core"),
            segd_connections: gauge("segd_connections", "Connections to segd nodes that stand"),
            meta_version: gauge("meta_version", "Version of the metadata this router knows"),
            append_bytes: counter("append_bytes", "Bytes of batches taken from clients"),
            tail_bytes: counter("tail_bytes", "Bytes of batches brought to tails"),
            tails_opened: counter("tails_opened", "Tails opened by clients"),
            tails_failed: counter("tails_failed", "Tails that ended with an error"),
            not_authorized: counter("not_authorized", "Connections of peers that are no clients"),
            slow_clients: counter("slow_clients", "Produce streams cut because their acks piled up"),
            stale_updates: counter("stale_updates", "Metadata updates older than what was known"),
            segd_dials: counter("segd_dials", "Connections to segd nodes tried"),
            segd_dial_failures: counter("segd_dial_failures", "Of those, failed"),
            waits_for_room: counter("waits_for_room", "Appends that waited for room in their range"),
            stopped_without_moved: counter(
                "stopped_without_moved",
                "Append streams stopped by segd with no reason given",
            ),
            appends: counter("appends", "Appends taken from clients"),
            acks: counter("acks", "Appends acked to clients"),
            failed: counter("append_failures", "Appends answered with an error"),
            overloaded: counter("overloaded", "Of those, refused because the range was full"),
            expired: counter("expired", "Of those, given up at their deadline"),
            moved: counter("moved", "Moves of a range's head met by an append stream"),
            moved_batches: counter("moved_batches", "Batches that met a move and went to the next segment"),
            warm_moves: counter("warm_moves", "Moves to a segment whose stream was open already"),
            resends: counter("resends", "Batches sent again after a break"),
            upstream_breaks: counter("upstream_breaks", "Append streams to segd that broke"),
            upstreams_warmed: counter("upstreams_warmed", "Append streams opened to candidates ahead of a switch"),
            anomalies: counter("anomalies", "Messages of segd that make no sense on their stream"),
            tail_handovers: counter("tail_handovers", "Boundaries passed by tails"),
            tail_warm_handovers: counter("tail_warm_handovers", "Of those, onto a stream that was open already"),
            tail_stalls: counter("tail_stalls", "Replicas left by tails because they brought nothing"),
            tail_stuck: counter("tail_stuck", "Streams left by tails because records waited and none came"),
            tail_breaks: counter("tail_breaks", "Tail streams from segd that broke"),
            tail_order_faults: counter("tail_order_faults", "Messages to tails that did not fit; never delivered"),
            tails_trimmed: counter("tails_trimmed", "Tails ended because what they wanted lies below the log's start"),
            loud_peers: Mutex::default(),
        }
    }

    /// What a producer core counted since `last`, which is brought up to date.
    pub fn producer(&self, last: &mut ProducerCounters, now: ProducerCounters) {
        let before = std::mem::replace(last, now);
        let add = |counter: &Counter, now: u64, before: u64| {
            if now != before {
                counter.inc_by(now - before);
            }
        };
        add(&self.appends, now.appends, before.appends);
        add(&self.acks, now.acks, before.acks);
        add(&self.failed, now.failed, before.failed);
        add(&self.overloaded, now.overloaded, before.overloaded);
        add(&self.expired, now.expired, before.expired);
        add(&self.moved, now.moved, before.moved);
        add(&self.moved_batches, now.moved_batches, before.moved_batches);
        add(&self.warm_moves, now.warm_moves, before.warm_moves);
        add(&self.resends, now.resends, before.resends);
        add(&self.upstream_breaks, now.upstream_breaks, before.upstream_breaks);
        add(&self.upstreams_warmed, now.warmed, before.warmed);
        add(&self.anomalies, now.anomalies, before.anomalies);
    }

    /// The same for a tail core.
    pub fn tail(&self, last: &mut TailCounters, now: TailCounters) {
        let before = std::mem::replace(last, now);
        self.tail_handovers.inc_by(now.handovers - before.handovers);
        self.tail_warm_handovers.inc_by(now.warm_handovers - before.warm_handovers);
        self.tail_stalls.inc_by(now.stalls - before.stalls);
        self.tail_stuck.inc_by(now.stuck - before.stuck);
        self.tail_breaks.inc_by(now.breaks - before.breaks);
        self.tail_order_faults.inc_by(now.order_faults - before.order_faults);
        self.tails_trimmed.inc_by(now.trimmed - before.trimmed);
    }

    /// A batch refused at the door.
    pub fn bad_batch(&self, code: ErrorCode) {
        self.registry.counter_with("bad_batches", "Batches refused at the door", &[("reason", code.name())]).inc();
    }

    /// A frame that ended its stream. `reason` is one of a few words. Logged once per peer.
    pub fn bad_frame(&self, peer: &str, reason: &'static str, detail: &dyn std::fmt::Display) {
        let help = "Frames that ended their stream";
        self.registry.counter_with("bad_frames", help, &[("reason", reason)]).inc();
        let mut loud = self.loud_peers.lock();
        if loud.len() < MAX_NAMED_PEERS && loud.insert(peer.to_owned()) {
            tracing::warn!(%peer, reason, %detail, "a bad frame; its stream is closed (further ones of this peer are only counted)");
        }
    }

    /// An error told to a client at the opening of a stream, or that ended it.
    pub fn stream_error(&self, code: ErrorCode) {
        let help = "Streams refused or ended with an error";
        self.registry.counter_with("stream_errors", help, &[("code", code.name())]).inc();
    }
}
