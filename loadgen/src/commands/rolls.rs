//! Gathers the rolls of a topic while it is loaded: the cluster remembers a bounded number, and learns some phases late.

use crate::target::{Roll, Target, TargetError};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the last phases of a roll may take to be recorded after the load has stopped.
const PATIENCE: Duration = Duration::from_secs(5);

/// The rolls of one topic, by the offset at which they took place.
#[derive(Debug, Default)]
pub struct Rolls {
    seen: BTreeMap<u64, Roll>,
}

impl Rolls {
    /// Asks the cluster; later answers about the same roll replace earlier ones.
    pub async fn update<T: Target>(&mut self, target: &T, topic: &str) -> Result<(), TargetError> {
        for roll in target.roll_history(topic).await? {
            self.seen.insert(roll.boundary, roll);
        }
        Ok(())
    }

    /// Asks until every roll is recorded to its end, or patience runs out. Call it once the load has stopped.
    pub async fn settle<T: Target>(&mut self, target: &T, topic: &str) -> Result<(), TargetError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let before = self.seen.len();
            self.update(target, topic).await?;
            let done = self.seen.len() == before && self.seen.values().all(complete);
            if done || Instant::now() >= deadline {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Rolls with `after < boundary <= through`, oldest first.
    pub fn between(&self, after: u64, through: u64) -> Vec<Roll> {
        self.seen.range(after..=through).map(|(_, roll)| *roll).filter(|r| r.boundary > after).collect()
    }
}

/// All phases that a planned roll has are known.
pub fn complete(roll: &Roll) -> bool {
    roll.by_recovery || (roll.record_us > 0 && roll.gate_us > 0)
}
