//! A sample of the campaigns, and the seeds that once broke a rule.

use sim::campaign::{self, Summary};
use sim::world::plan::FaultMode;
use sim::world::trace::TraceMode;

fn check(summary: &Summary, mode: FaultMode) {
    assert!(summary.violations.is_empty(), "{:#?}", summary.violations);
    let never = summary.never_seen(mode);
    assert!(never.is_empty(), "the campaign never saw: {never:?} in {:#?}", summary.stats);
}

#[test]
fn without_faults_nothing_breaks() {
    check(&campaign::run(1_000_000, 400, 2, FaultMode::None, 1, |_, _| ()), FaultMode::None);
}

#[test]
fn with_all_faults_nothing_breaks() {
    check(&campaign::run(2_000_000, 1_500, 2, FaultMode::All, 1, |_, _| ()), FaultMode::All);
}

/// Lines of `none SEED` and `all SEED`; the rest of a line says what it found.
#[test]
fn seeds_that_broke_a_rule_once_do_so_no_more() {
    let mut ran = 0;
    for line in include_str!("../bugbase/seeds.txt").lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let (Some(mode), Some(seed)) = (words.next(), words.next()) else { continue };
        let mode = match mode {
            "none" => FaultMode::None,
            "all" => FaultMode::All,
            other => panic!("no faults called {other:?} in {line:?}"),
        };
        let seed: u64 = seed.parse().expect("a seed is a number");
        campaign::run_seed(seed, mode, TraceMode::Off).unwrap_or_else(|violation| panic!("{line}: {}", violation.what));
        ran += 1;
    }
    assert!(ran > 0);
}
