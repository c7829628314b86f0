//! Random work, cut off at random operations by power cuts, kills and disk errors: what was durable comes back, in order,
//! and nothing else does.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::engine::{Engine, Replayed, open, small_config};
use crate::config::JournalConfig;
use crate::sim::{Fault, SimDisk};
use crate::{Entry, Lsn, OpenError};

#[derive(Clone, Debug)]
enum Step {
    /// Writes entries of these sizes.
    Write(Vec<u16>),
    Sync,
    /// Releases all but so many of the newest entries.
    Release(u8),
    /// Lets the supply of files do one piece of work.
    Supply,
    /// Plans a fault so many operations ahead.
    Plan(u8, Fault),
    Stop(Stop),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Clean,
    Kill,
    PowerCut,
}

fn any_fault() -> impl Strategy<Value = Fault> {
    prop_oneof![4 => Just(Fault::Crash), 2 => Just(Fault::Eio), 1 => Just(Fault::NoSpace)]
}

fn any_step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![3 => 0u16..300, 1 => 0u16..12_288, 1 => Just(4020u16)];
    let stop = prop_oneof![Just(Stop::Clean), Just(Stop::Kill), Just(Stop::PowerCut)];
    prop_oneof![
        8 => prop::collection::vec(size, 1..5).prop_map(Step::Write),
        4 => Just(Step::Sync),
        3 => (0u8..12).prop_map(Step::Release),
        4 => Just(Step::Supply),
        2 => (0u8..30, any_fault()).prop_map(|(ahead, fault)| Step::Plan(ahead, fault)),
        1 => stop.prop_map(Step::Stop),
    ]
}

/// What the owner of the journal knows.
struct Owner {
    disk: SimDisk,
    config: JournalConfig,
    entries: BTreeMap<Lsn, Vec<u8>>,
    next: Lsn,
    /// Everything below was written by a call that returned.
    written_below: Lsn,
    synced_below: Lsn,
    released_below: Lsn,
    /// Makes every entry different from every other, also from one that was cut.
    stamp: u64,
}

impl Owner {
    fn new(seed: u64) -> Self {
        let [next, written_below, synced_below, released_below] = [Lsn::FIRST; 4];
        let (disk, config, entries) = (SimDisk::new(seed), small_config(), BTreeMap::new());
        Owner { disk, config, entries, next, written_below, synced_below, released_below, stamp: 0 }
    }

    fn write(&mut self, engine: &mut Engine, sizes: &[u16]) -> std::io::Result<()> {
        let mut batch: Vec<Entry> = Vec::new();
        for size in sizes {
            self.stamp += 1;
            let bytes: Vec<u8> = self.stamp.to_le_bytes().iter().copied().cycle().take(*size as usize).collect();
            self.entries.insert(self.next, bytes.clone());
            self.next = self.next.next();
            batch.push(bytes.into());
        }
        engine.writer.write(&batch)?;
        self.written_below = self.next;
        Ok(())
    }

    /// Does one step; false if the journal has to be opened again.
    fn run(&mut self, engine: &mut Engine, step: &Step) -> bool {
        match step {
            Step::Write(sizes) => self.write(engine, sizes).is_ok(),
            Step::Sync => {
                let is_ok = engine.writer.sync().is_ok();
                self.synced_below = if is_ok { self.written_below } else { self.synced_below };
                is_ok
            }
            Step::Release(newest) => {
                self.released_below = self.released_below.max(Lsn(self.next.0.saturating_sub(u64::from(*newest))));
                engine.ledger.release(self.released_below, &engine.pool);
                true
            }
            Step::Supply => engine.pool.work_once().is_ok(),
            Step::Plan(ahead, fault) => {
                self.disk.fault_after(u64::from(*ahead), *fault);
                true
            }
            Step::Stop(_) => false,
        }
    }

    fn stop(&mut self, mut engine: Engine, stop: Stop) {
        if stop == Stop::Clean && engine.writer.close().is_ok() {
            self.synced_below = self.written_below;
        }
        drop(engine);
        match stop {
            Stop::Clean | Stop::Kill => self.disk.kill(),
            Stop::PowerCut => {
                self.disk.power_cut();
                self.written_below = self.synced_below;
            }
        }
    }

    /// Opens, now and then cut off by a planned crash, until it succeeds; checks what came back.
    fn reopen(&mut self, crash_after: Option<u8>) -> Result<Engine, TestCaseError> {
        if let Some(after) = crash_after {
            self.disk.fault_after(u64::from(after), Fault::Crash);
            match open(&self.disk, &self.config) {
                Ok((engine, ..)) => drop(engine),
                Err(OpenError::Io { .. }) => {}
                Err(other) => return Err(TestCaseError::fail(format!("{other}"))),
            }
            self.disk.power_cut();
            self.written_below = self.synced_below;
        }
        let (engine, report, replayed) =
            open(&self.disk, &self.config).map_err(|error| TestCaseError::fail(format!("{error}")))?;
        self.check(&replayed, report.next_lsn)?;
        prop_assert_eq!(report.entries, replayed.len() as u64);
        Ok(engine)
    }

    fn check(&mut self, replayed: &Replayed, next: Lsn) -> Result<(), TestCaseError> {
        for (lsn, bytes) in replayed {
            prop_assert_eq!(
                Some(&bytes[..]),
                self.entries.get(lsn).map(|kept| &kept[..]),
                "entry {} was invented",
                lsn
            );
        }
        for pair in replayed.windows(2) {
            prop_assert_eq!(pair[0].0.next(), pair[1].0);
        }
        let first = replayed.first().map_or(next, |(lsn, _)| *lsn);
        let end = replayed.last().map_or(next, |(lsn, _)| lsn.next());
        prop_assert_eq!(end, next);
        prop_assert!(first <= self.released_below, "starts at {} but {} is the release", first, self.released_below);
        prop_assert!(next >= self.synced_below, "synced to {} but ends at {}", self.synced_below, next);
        prop_assert!(next >= self.written_below, "written to {} but ends at {}", self.written_below, next);
        // What came back is durable from here on, and what did not is gone: its numbers are given out again.
        self.entries.split_off(&next);
        (self.next, self.written_below, self.synced_below) = (next, next, next);
        self.released_below = self.released_below.min(next);
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn what_was_durable_comes_back_and_nothing_else(
        seed in any::<u64>(),
        steps in prop::collection::vec((any_step(), prop::option::weighted(0.3, 0u8..12), any::<bool>()), 1..80),
    ) {
        let mut owner = Owner::new(seed);
        let mut engine = owner.reopen(None)?;
        for (step, crash_after, is_power_cut) in &steps {
            if owner.run(&mut engine, step) {
                continue;
            }
            let stop = match step {
                Step::Stop(stop) => *stop,
                Step::Write(_) | Step::Sync | Step::Release(_) | Step::Supply | Step::Plan(..) => {
                    if *is_power_cut { Stop::PowerCut } else { Stop::Kill }
                }
            };
            owner.stop(engine, stop);
            engine = owner.reopen(*crash_after)?;
        }
        owner.stop(engine, Stop::PowerCut);
        owner.reopen(None)?;
    }
}

fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000)
}
