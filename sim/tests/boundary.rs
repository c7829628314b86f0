//! A roll costs at most one round trip, once: twin runs with and without rolls, same seed and load, delays fixed, from 0.1 to 20 ms a hop.

use seam_wire::topic::Placement;
use sim::boundary::{HOPS_US, SYNC_US, twins};

#[test]
fn a_boundary_costs_at_most_one_round_trip_between_router_and_segd() {
    let (mut rolls, mut felt) = (0, 0);
    for seed in 0..24 {
        let placement = [Placement::Balanced, Placement::RoundRobin, Placement::Sticky][seed as usize % 3];
        let hop_us = HOPS_US[seed as usize / 3 % HOPS_US.len()];
        for records in [40, 61, 97] {
            let twins = twins(seed, records, placement, hop_us).expect("no rule is broken");
            let (with, without) = (twins.with_rolls, twins.without);
            assert_eq!(without.stats.rolls, 0, "the twin does not roll");
            assert_eq!(with.stats.switches_not_ready, 0, "every successor stood by: seed {seed}, {records} records");
            assert!(
                with.ack_us <= without.ack_us + 2 * hop_us + SYNC_US,
                "seed {seed}, {records} records, hops of {hop_us} us: an ack took {} us, {} us without rolls",
                with.ack_us,
                without.ack_us
            );
            assert!(
                with.delivery_us <= without.delivery_us + 2 * hop_us + SYNC_US,
                "seed {seed}, {records} records, hops of {hop_us} us: a delivery took {} us, {} us without rolls",
                with.delivery_us,
                without.delivery_us
            );
            rolls += with.stats.rolls;
            felt += u32::from(with.ack_us > without.ack_us);
        }
    }
    assert!(rolls >= 400, "only {rolls} rolls");
    assert!(felt > 0, "no batch ever met a switch: what was compared is not the boundary");
}
