//! What a member shows of itself: `/metrics` and `/status`.

use crate::engine::{Counts, Engine};
use metad_log::raft::RaftLog;
use prometheus_client::metrics::counter::Counter;
use seam_transport::metrics::Registry;
use seam_wire::meta::NodeState;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A counter that follows a number counted elsewhere.
struct Follows {
    counter: Counter,
    shown: AtomicU64,
    source: fn(&Counts) -> &AtomicU64,
}

impl Follows {
    fn refresh(&self, counts: &Counts) {
        let now = (self.source)(counts).load(Ordering::Relaxed);
        let before = self.shown.swap(now, Ordering::Relaxed);
        self.counter.inc_by(now.saturating_sub(before));
    }
}

fn gauge_value(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Registers everything; the values are read when they are asked for.
pub fn register(registry: &Registry, engine: &Arc<Engine>, raft: &Arc<RaftLog>) {
    let counter = |name: &str, help: &str, source: fn(&Counts) -> &AtomicU64| Follows {
        counter: registry.counter(name, help),
        shown: AtomicU64::new(0),
        source,
    };
    let counters = [
        counter("proposals", "Commands this member proposed", |counts| &counts.proposals),
        counter("proposals_lost", "Proposals refused or without a known outcome", |counts| &counts.proposals_lost),
        counter("applied", "Commands applied", |counts| &counts.applied),
        counter("bad_requests", "Requests refused for what they say or who sent them", |counts| &counts.bad_requests),
        counter("watchers_dropped", "Watchers that were too slow", |counts| &counts.watchers_dropped),
        counter("sessions_broken", "Sessions of nodes that broke while this member led", |counts| {
            &counts.sessions_broken
        }),
        counter("watch_snapshots", "Whole states sent to watchers", |counts| &counts.snapshots_sent),
    ];
    let term = registry.gauge("raft_term", "Term of the metadata log");
    let is_leader = registry.gauge("leader", "1 while this member leads and decides");
    let apply_lag = registry.gauge("apply_lag_entries", "Entries stored and not applied yet");
    let log_bytes = registry.gauge("log_bytes", "Bytes of log entries kept");
    let snapshot_bytes = registry.gauge("snapshot_bytes", "Bytes of the newest snapshot");
    let version = registry.gauge("version", "Commands in the state");
    let watchers = registry.gauge("watchers", "Watch streams open here");
    let sessions = registry.gauge("sessions", "Sessions of nodes that stand here");
    let rolls = registry.gauge("rolls", "Rolls recorded in the state: chosen successors");
    let candidate = |state| registry.gauge_with("candidates", "Candidates by what became of them", &[("state", state)]);
    let candidates = [candidate("made"), candidate("used"), candidate("reclaimed"), candidate("open")];
    let node = |state| registry.gauge_with("nodes", "Registered nodes by state", &[("state", state)]);
    let nodes = [node("live"), node("draining"), node("dead")];
    // Made beforehand: a closure that held the registry it is registered in would keep both for ever.
    let round_trip = |peer: &str| {
        let help = "Round trip to another member as last measured";
        registry.gauge_with("member_round_trip_us", help, &[("member", peer)])
    };
    let round_trips: Vec<_> = raft.round_trips_us().iter().map(|(peer, _)| round_trip(peer)).collect();

    let (engine, raft) = (engine.clone(), raft.clone());
    registry.on_scrape(move || {
        counters.iter().for_each(|counter| counter.refresh(&engine.counts));
        let status = engine.log().status();
        term.set(gauge_value(status.term));
        apply_lag.set(gauge_value(status.last_index.saturating_sub(status.applied_index)));
        log_bytes.set(gauge_value(status.log_bytes));
        snapshot_bytes.set(gauge_value(status.snapshot_bytes));
        watchers.set(gauge_value(engine.counts.watchers.load(Ordering::Relaxed)));
        sessions.set(gauge_value(engine.counts.sessions.load(Ordering::Relaxed)));
        let view = engine.view();
        let meta = view.meta();
        is_leader.set(i64::from(view.driver().leads()));
        version.set(gauge_value(meta.version()));
        let counts = meta.counters();
        rolls.set(gauge_value(counts.used));
        let values = [counts.made, counts.used, counts.reclaimed, counts.open];
        for (gauge, value) in candidates.iter().zip(values) {
            gauge.set(gauge_value(value));
        }
        let mut by_state = [0u64; 3];
        for node in meta.nodes() {
            let at = match node.state {
                NodeState::Live => 0,
                NodeState::Draining => 1,
                NodeState::Dead => 2,
            };
            by_state[at] += 1;
        }
        for (gauge, value) in nodes.iter().zip(by_state) {
            gauge.set(gauge_value(value));
        }
        drop(view);
        for (gauge, (_, micros)) in round_trips.iter().zip(raft.round_trips_us()) {
            gauge.set(gauge_value(micros));
        }
    });
}

/// The document at `/status`.
pub fn status_json(engine: &Engine, name: &str) -> String {
    let log = engine.log().status();
    let leadership = engine.log().leadership().borrow().clone();
    let view = engine.view();
    let counters = view.meta().counters();
    serde_json::json!({
        "name": name,
        "leader": leadership.leader,
        "leads": view.driver().leads(),
        "term": log.term,
        "last_index": log.last_index,
        "applied_index": log.applied_index,
        "snapshot_index": log.snapshot_index,
        "log_bytes": log.log_bytes,
        "snapshot_bytes": log.snapshot_bytes,
        "failed": log.failed,
        "version": view.meta().version(),
        "state_hash": format!("{:016x}", view.meta().hash()),
        "candidates": {
            "made": counters.made,
            "used": counters.used,
            "reclaimed": counters.reclaimed,
            "open": counters.open,
        },
        "watchers": engine.counts.watchers.load(Ordering::Relaxed),
    })
    .to_string()
}
