//! Many seeds: each a world of its own, on as many threads as asked. A broken rule is caught and named by its seed.

use crate::world::plan::{FaultMode, Plan};
use crate::world::sometimes::{Reached, Sometimes};
use crate::world::stats::Stats;
use crate::world::trace::TraceMode;
use crate::world::{Outcome, World};
use serde::{Deserialize, Serialize};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

/// A seed that broke a rule, and the rule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Violation {
    pub seed: u64,
    pub what: String,
}

thread_local! {
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static LAST_PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps panics of the worlds quiet: the campaign tells of them. Those of others, the model's too, go where they went.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if RUNNING.get() {
                LAST_PANIC.set(info.to_string());
            } else {
                before(info);
            }
        }));
    });
}

/// Runs one seed to its end, or to the first broken rule.
pub fn run_seed(seed: u64, mode: FaultMode, trace: TraceMode) -> Result<Outcome, Violation> {
    run_plan(Plan::draw(seed, mode), trace)
}

pub fn run_plan(plan: Plan, trace: TraceMode) -> Result<Outcome, Violation> {
    keep_panics();
    let seed = plan.seed;
    RUNNING.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| World::new(plan, trace).run()));
    RUNNING.set(false);
    result.map_err(|_| {
        let what = LAST_PANIC.with(|last| last.borrow().clone());
        Violation { seed, what }
    })
}

/// What a campaign saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Summary {
    pub seeds: u64,
    pub stats: Stats,
    /// Seeds that reached each state.
    pub in_seeds: Reached,
    pub violations: Vec<Violation>,
}

/// Runs `seeds` seeds from `from` on, on `jobs` threads. `progress` hears of every finished seed; after `stop_after`
/// violations no more seeds are begun.
pub fn run(
    from: u64,
    seeds: u64,
    jobs: usize,
    mode: FaultMode,
    stop_after: usize,
    progress: impl Fn(u64, &Summary) + Sync,
) -> Summary {
    let next = AtomicU64::new(from);
    let summary = Mutex::new(Summary::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let enough = |summary: &Summary| summary.violations.len() >= stop_after.max(1);
                    if seed >= from + seeds || enough(&summary.lock().expect("no thread dies with it")) {
                        return;
                    }
                    let outcome = run_seed(seed, mode, TraceMode::Off);
                    let mut summary = summary.lock().expect("no thread dies with it");
                    summary.seeds += 1;
                    match outcome {
                        Ok(outcome) => {
                            summary.stats.add(&outcome.stats);
                            summary.in_seeds.add(&outcome.stats.reached.once());
                        }
                        Err(violation) => summary.violations.push(violation),
                    }
                    progress(seed, &summary);
                }
            });
        }
    });
    let mut summary = summary.into_inner().expect("no thread dies with it");
    summary.violations.sort_by_key(|violation| violation.seed);
    summary
}

impl Summary {
    pub fn add(&mut self, other: Summary) {
        self.seeds += other.seeds;
        self.stats.add(&other.stats);
        self.in_seeds.add(&other.in_seeds);
        self.violations.extend(other.violations);
    }

    /// What a campaign must have met to mean anything; what it did not is named.
    pub fn never_seen(&self, mode: FaultMode) -> Vec<&'static str> {
        let stats = &self.stats;
        let mut wanted = vec![
            ("acks", stats.acks),
            ("deliveries", stats.deliveries),
            ("planned rolls", stats.rolls - stats.unplanned_rolls),
            ("boundaries behind a gate", stats.gates_opened),
            ("trims", stats.trims),
            ("trimmed replicas deleted", stats.trimmed_replicas),
        ];
        if mode == FaultMode::All {
            wanted.extend([
                ("candidates given back", stats.reclaimed),
                ("crashes", stats.crashes),
                ("pauses", stats.pauses),
                ("lost metad leaders", stats.leaders_lost),
                ("lost disks", stats.disks_lost),
                ("recoveries", stats.recoveries_started),
                ("unplanned rolls", stats.unplanned_rolls),
                ("duplicates answered", stats.duplicates),
                ("writes refused by a fence", stats.writes_fenced),
                ("switches with no successor ready", stats.switches_not_ready),
            ]);
        }
        let never = wanted.into_iter().filter(|(_, count)| *count == 0).map(|(name, _)| name);
        never.chain(stats.reached.never(mode).map(Sometimes::words)).collect()
    }
}
