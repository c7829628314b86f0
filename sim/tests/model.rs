//! The roll protocol holds in every configuration of the model, as far as its bound reaches.
//!
//! `sim model --all` goes on to the last state. One test a configuration, so that a runner may spread them.

use segd_core::traps::Trap;
use sim::model::{ALL, Until, check, named};

fn holds(name: &str) {
    let config = named(name).expect("a test names a configuration");
    let report = check(config, Trap::None, Until::Generated(config.bound), 2);
    println!("{report}");
    assert!(report.failures.is_empty(), "{report}");
    assert!(report.unseen.is_empty(), "a bound too low to see anything: {report}");
    assert_eq!(report.exhausted, config.small, "says whether its bound exhausts it: {report}");
}

macro_rules! configurations {
    ($($test:ident: $name:literal,)*) => {
        const TESTED: &[&str] = &[$($name),*];
        $(
            #[test]
            fn $test() {
                holds($name);
            }
        )*
    };
}

configurations! {
    planned: "planned",
    recovery: "recovery",
    late: "late",
    two_agents: "two-agents",
    two_agents_over_a_register: "two-agents-register",
    restart: "restart",
    crash: "crash",
    lost_disk: "lost-disk",
    release: "release",
    chain: "chain",
    all_ack: "all-ack",
    unordered: "unordered",
    hard: "hard",
}

#[test]
fn every_configuration_is_tested() {
    assert!(ALL.iter().map(|config| config.name).eq(TESTED.iter().copied()));
}
