//! What a run saw. A campaign that saw too little of it proves nothing.

use super::sometimes::Reached;
use segd_core::io::Counter;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    pub events: u64,
    pub simulated_us: u64,
    pub acks: u64,
    pub failed_appends: u64,
    pub indeterminate: u64,
    pub deliveries: u64,
    pub rolls: u64,
    /// Of those, decided by a recovery.
    pub unplanned_rolls: u64,
    pub recoveries_started: u64,
    pub candidates: u64,
    pub reclaimed: u64,
    pub switches: u64,
    pub switches_not_ready: u64,
    pub appends_waited: u64,
    pub duplicates: u64,
    pub writes_fenced: u64,
    pub resends: u64,
    pub gates_opened: u64,
    pub empty_segments: u64,
    pub crashes: u64,
    pub pauses: u64,
    pub leaders_lost: u64,
    pub disks_lost: u64,
    pub boundaries_crossed: u64,
    pub snapshots_restored: u64,
    /// Moves of a log's start.
    pub trims: u64,
    pub trimmed_replicas: u64,
    pub reached: Reached,
}

impl Stats {
    pub fn count(&mut self, counter: Counter) {
        match counter {
            Counter::Switched => self.switches += 1,
            Counter::SwitchedNotReady => self.switches_not_ready += 1,
            Counter::AppendsWaited => self.appends_waited += 1,
            Counter::Duplicates => self.duplicates += 1,
            Counter::WritesFenced => self.writes_fenced += 1,
            Counter::GateOpened => self.gates_opened += 1,
            Counter::Resends => self.resends += 1,
            Counter::RecoveryStarted => self.recoveries_started += 1,
            Counter::OutOfSequence
            | Counter::ProducerFenced
            | Counter::GateElsewhere
            | Counter::Overloaded
            | Counter::RecoveryDone => {}
        }
    }

    pub fn add(&mut self, other: &Stats) {
        macro_rules! sum {
            ($($field:ident),*) => { $(self.$field += other.$field;)* };
        }
        sum!(
            events,
            simulated_us,
            acks,
            failed_appends,
            indeterminate,
            deliveries,
            rolls,
            unplanned_rolls,
            recoveries_started,
            candidates,
            reclaimed,
            switches,
            switches_not_ready,
            appends_waited,
            duplicates,
            writes_fenced,
            resends,
            gates_opened,
            empty_segments,
            crashes,
            pauses,
            leaders_lost,
            disks_lost,
            boundaries_crossed,
            snapshots_restored,
            trims,
            trimmed_replicas
        );
        self.reached.add(&other.reached);
    }
}
