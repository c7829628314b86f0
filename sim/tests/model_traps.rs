//! Each known way to break the protocol, put back into the machines, is caught by the properties as they are.
//!
//! A trap is switched on for a whole process, so each test runs itself again as a process of its own.

use sim::model::{CASES, Case, TRAP_BOUND, Until, check};
use std::env;
use std::process::Command;

const CHILD: &str = "SIM_MODEL_TRAP";

fn caught(test: &str, name: &str) {
    if env::var_os(CHILD).is_some() {
        return spring(Case::named(name).expect("a test names a trap"));
    }
    let this = env::current_exe().expect("a test has a program");
    let child = Command::new(this).args([test, "--exact", "--nocapture"]).env(CHILD, name).output();
    let child = child.expect("the test can run itself");
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success(), "{name} was not caught:\n{said}\n{}", String::from_utf8_lossy(&child.stderr));
    assert!(said.contains("1 passed"), "the child ran another test: {said}");
    println!("{said}");
}

fn spring(case: &Case) {
    let report = check(case.config(), case.trap, Until::Failed(case.breaks.to_vec(), TRAP_BOUND), 2);
    println!("{}: {report}", case.name);
    for property in case.breaks {
        assert!(
            report.failures.iter().any(|failure| failure.property == *property),
            "{} does not break {property:?}: {report}",
            case.name
        );
    }
}

macro_rules! traps {
    ($($test:ident: $name:literal,)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                caught(stringify!($test), $name);
            }
        )*
    };
}

traps! {
    v1_any_binder: "V1",
    v2_copies_vote: "V2",
    v3_switch_behind_a_closed_gate: "V3",
    v4_a_primary_resumes: "V4",
    v5_an_agent_resumes: "V5",
    v6_the_fence_is_a_flag: "V6",
    v7_a_lost_disk_votes: "V7",
    v8_released_and_chosen: "V8",
    p2_an_early_duplicate: "P2",
    p3_a_late_completion_acks: "P3",
    p8_an_end_shown_early: "P8",
    l1_recovery_waits_for_all: "L1",
}

#[test]
fn every_trap_is_tested() {
    assert!(CASES.iter().map(|case| case.name).eq(TESTED.iter().copied()));
}
