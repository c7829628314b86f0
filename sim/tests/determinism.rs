//! One seed is one run, in whatever process: the whole trace is the same, byte for byte.

use std::process::{Command, Output};

fn sim(args: &[&str]) -> Output {
    let output = Command::new(env!("CARGO_BIN_EXE_sim")).args(args).output().expect("the simulator runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

#[test]
fn two_processes_give_the_same_trace() {
    let mut hashes = Vec::new();
    for seed in ["3", "17", "42"] {
        let first = sim(&["replay", seed, "--trace"]).stdout;
        let second = sim(&["replay", seed, "--trace"]).stdout;
        assert!(first.len() > 100_000, "a trace of a whole run: {} bytes", first.len());
        assert!(first == second, "seed {seed} ran differently in another process");
        let hash = sim(&["replay", seed, "--trace-hash"]).stdout;
        assert_eq!(hash, sim(&["replay", seed, "--trace-hash"]).stdout);
        hashes.push(hash);
    }
    hashes.sort();
    hashes.dedup();
    assert_eq!(hashes.len(), 3, "other seeds are other runs");
}
