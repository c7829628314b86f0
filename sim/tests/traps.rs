//! Bugs that were put back, and what finds them: a sample of what the campaign finds soon. `sim traps` runs all of them.

use sim::traps::{FAULTS, named};
use std::collections::BTreeSet;
use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_sim")).args(args).output().expect("the simulator runs")
}

#[test]
fn the_campaign_finds_a_sample_of_the_bugs_that_are_put_back() {
    let sample = "P2,P4,L2,ack-before-sync,end-from-one,early-reclaim,id-reused,table-dropped,off-by-one-start,\
                  retried-as-new,placement-in-apply,trim-before-start,short-quorum";
    let output = sim(&["traps", "--only", sample, "--seeds", "600", "--jobs", "1", "--campaign-only", "--json"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let rows: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).expect("a list");
    let names: Vec<&str> = rows.iter().filter_map(|row| row["name"].as_str()).collect();
    assert_eq!(names, sample.split(',').collect::<Vec<_>>());
    for row in rows {
        assert_eq!(row["caught"]["by"], "campaign", "{row}");
        let seed = row["caught"]["seed"].as_u64().expect("a seed is named").to_string();
        assert!(sim(&["replay", &seed]).status.success(), "{seed} breaks nothing without the bug");
    }
}

#[test]
fn a_bug_that_nothing_finds_fails_the_whole() {
    // One seed without any work for it: a candidate's release is asked in few.
    let output = sim(&["traps", "--only", "V8", "--seeds", "1", "--campaign-only"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("not caught"), "{output:?}");
}

#[test]
fn every_bug_of_the_model_is_listed_and_each_is_another() {
    for case in sim::model::CASES {
        assert_eq!(named(case.name).map(|fault| fault.trap), Some(case.trap), "{}", case.name);
    }
    let traps: BTreeSet<u8> = FAULTS.iter().map(|fault| fault.trap as u8).collect();
    assert_eq!(traps.len(), FAULTS.len());
    assert!(FAULTS.len() >= 15 + 12);
}
