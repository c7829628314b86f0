//! The boundary as an invariant: the same load with and without rolls, delays fixed. An append or a delivery at a boundary
//! with a ready successor costs at most one router-segd round trip more than the worst of the twin without rolls; and one sync,
//! where an entry of the roll itself is in a disk's way.

use crate::campaign::{self, Violation};
use crate::world::plan::{FaultMode, Plan};
use crate::world::stats::Stats;
use crate::world::trace::TraceMode;
use seam_wire::topic::{Anticipation, Placement};

/// One hop of the network, fixed in a run: on one machine, in a rack, in a region, between regions. Microseconds.
pub const HOPS_US: [u64; 4] = [100, 700, 3_000, 20_000];
/// One sync of a disk, fixed. Microseconds.
pub const SYNC_US: u64 = 100;

/// The worst of what was sent after the first of them all had come: what the very first wait for (streams that are opened, a
/// tail that is placed) is no boundary's. `None`: nothing was.
fn worst(latencies: &[(u64, u64)]) -> Option<u64> {
    let warm = latencies.iter().map(|(at, _)| *at).min()?;
    latencies.iter().filter(|(at, took)| at - took > warm).map(|(_, took)| *took).max()
}

/// The worst of one run. Microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Worst {
    pub ack_us: u64,
    pub delivery_us: u64,
    pub stats: Stats,
}

#[derive(Clone, Copy, Debug)]
pub struct Twins {
    pub with_rolls: Worst,
    pub without: Worst,
}

/// Runs both twins of a seed. `records`: of a segment in the run that rolls; `hop_us`: one hop of the network.
pub fn twins(seed: u64, records: u64, placement: Placement, hop_us: u64) -> Result<Twins, Violation> {
    let run = |segment_records: u64| {
        let outcome = campaign::run_plan(plan(seed, segment_records, placement, hop_us), TraceMode::Off)?;
        Ok(Worst {
            ack_us: worst(&outcome.ack_latencies).expect("records were acked"),
            delivery_us: worst(&outcome.delivery_latencies).expect("records were delivered"),
            stats: outcome.stats,
        })
    };
    Ok(Twins { with_rolls: run(records)?, without: run(0)? })
}

fn plan(seed: u64, segment_records: u64, placement: Placement, hop_us: u64) -> Plan {
    let mut plan = Plan::draw(seed, FaultMode::None);
    plan.sizes.routers = 1;
    plan.sizes.producers = 1;
    plan.sizes.consumers = 1;
    plan.topic.ranges = 1;
    plan.topic.replicas = 3;
    plan.topic.ack_quorum = 2;
    plan.topic.placement = placement;
    plan.topic.anticipation = Anticipation::AtOpen;
    plan.topic.segment_records = segment_records;
    plan.topic.max_age_ms = 0;
    plan.topic.retention_bytes = 0;
    plan.topic.retention_ms = 0;
    plan.load.batches = 600;
    // No multiple of anything else, so that batches meet the switch in every phase; and never so many on their way that one
    // waits for room.
    plan.load.gap_us = 997 + hop_us / 4 + seed * 37 % 200;
    plan.load.max_records = 1;
    plan.load.in_flight = 64;
    plan.load.deadline_us = 30_000_000;
    plan.load.rolls_by_hand = 0;
    plan.load.tail_step_us = 0;
    plan.candidates = 4;
    plan.heal_at_us = 1_000_000;
    plan.net.base_min_us = hop_us;
    plan.net.base_max_us = hop_us;
    plan.net.jitter_us = 0;
    plan.disk.sectors = false;
    plan.disk.sync_min_us = SYNC_US;
    plan.disk.sync_max_us = SYNC_US;
    plan.metad.commit_min_us = 2_000;
    plan.metad.commit_max_us = 4_000;
    plan.metad.follower_lag_us = 500;
    plan
}
