//! The boundary as an invariant: the same load with and without rolls, delays fixed. An append or a delivery at a boundary
//! with a ready successor costs at most one router-segd round trip more than the worst of the twin without rolls.

use crate::campaign::{self, Violation};
use crate::world::plan::{FaultMode, Plan};
use crate::world::stats::Stats;
use crate::world::trace::TraceMode;
use seam_wire::topic::{Anticipation, Placement};

/// One hop of the network, fixed. Microseconds.
pub const HOP_US: u64 = 700;
/// One sync of a disk, fixed. Microseconds.
pub const SYNC_US: u64 = 400;

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

/// Runs both twins of a seed. `records`: of a segment in the run that rolls.
pub fn twins(seed: u64, records: u64, placement: Placement) -> Result<Twins, Violation> {
    let run = |segment_records: u64| {
        let outcome = campaign::run_plan(plan(seed, segment_records, placement), TraceMode::Off)?;
        let worst = |latencies: &[(u64, u64)]| latencies.iter().map(|(_, took)| *took).max().unwrap_or(0);
        Ok(Worst {
            ack_us: worst(&outcome.ack_latencies),
            delivery_us: worst(&outcome.delivery_latencies),
            stats: outcome.stats,
        })
    };
    Ok(Twins { with_rolls: run(records)?, without: run(0)? })
}

fn plan(seed: u64, segment_records: u64, placement: Placement) -> Plan {
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
    // No multiple of anything else, so that batches meet the switch in every phase.
    plan.load.gap_us = 997;
    plan.load.max_records = 1;
    plan.load.in_flight = 16;
    plan.load.deadline_us = 30_000_000;
    plan.load.rolls_by_hand = 0;
    plan.load.tail_step_us = 0;
    plan.candidates = 4;
    plan.heal_at_us = 1_000_000;
    plan.net.base_min_us = HOP_US;
    plan.net.base_max_us = HOP_US;
    plan.net.jitter_us = 0;
    plan.disk.sectors = false;
    plan.disk.sync_min_us = SYNC_US;
    plan.disk.sync_max_us = SYNC_US;
    plan.metad.commit_min_us = 2_000;
    plan.metad.commit_max_us = 4_000;
    plan.metad.follower_lag_us = 500;
    plan
}
