//! A roll is not felt: twin runs with and without rolls, same seed and load, delays fixed.

use seam_wire::topic::Placement;
use sim::boundary::{HOP_US, twins};

#[test]
fn a_boundary_costs_at_most_one_round_trip_between_router_and_segd() {
    let mut rolls = 0;
    for seed in 0..24 {
        let placement = [Placement::Balanced, Placement::RoundRobin, Placement::Sticky][seed as usize % 3];
        for records in [40, 61, 97] {
            let twins = twins(seed, records, placement).expect("no rule is broken");
            let (with, without) = (twins.with_rolls, twins.without);
            assert_eq!(without.stats.rolls, 0, "the twin does not roll");
            assert_eq!(with.stats.switches_not_ready, 0, "every successor stood by: seed {seed}, {records} records");
            assert!(
                with.ack_us <= without.ack_us + 2 * HOP_US,
                "seed {seed}, {records} records: an ack took {} us, {} us without rolls",
                with.ack_us,
                without.ack_us
            );
            assert!(
                with.delivery_us <= without.delivery_us + 2 * HOP_US,
                "seed {seed}, {records} records: a delivery took {} us, {} us without rolls",
                with.delivery_us,
                without.delivery_us
            );
            rolls += with.stats.rolls;
        }
    }
    assert!(rolls >= 400, "only {rolls} rolls");
}
