//! `loadgen verify` with every fault it knows, short; in full length with SEAM_FULL set. What is asserted is the report: ten
//! checks without a violation, every fault survived, enough of everything for that to mean something.

use crate::harness::Cluster;
use serde_json::Value;
use std::fs;

/// Runs `loadgen verify` with these faults; all it claims must hold. Returns what it reports of the verification.
fn verify(cluster: &Cluster, faults: &str, more: &[&str]) -> Value {
    let report = cluster.scratch().join("verify.json");
    let path = report.to_str().expect("text");
    let mut arguments = vec!["verify", "--json", path, "--fault", faults, "--rate", "300", "--duration-s", "4"];
    arguments.extend(more);
    cluster.loadgen(arguments);
    let topics = cluster.json(&["topic", "list"]).to_string();
    assert!(!topics.contains("loadgen-"), "a run takes its topics away: {topics}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&report).expect("written")).expect("JSON");
    let verify = report["verify"].clone();
    assert_eq!((&verify["lost"], &verify["duplicated"], &verify["gaps"]), (&0.into(), &0.into(), &0.into()));
    assert!(verify["checks"].as_array().is_some_and(|checks| checks.len() == 10), "{verify}");
    let played: Vec<&str> = rows(&verify).iter().map(|row| row["fault"].as_str().expect("a word")).collect();
    assert!(faults.split(',').all(|fault| played.contains(&fault)), "{played:?}");
    verify
}

fn rows(verify: &Value) -> &Vec<Value> {
    verify["faults"].as_array().expect("an array")
}

/// `short` here, `long` where time is plenty.
fn length<'a>(short: &'a str, long: &'a str) -> &'a str {
    if std::env::var_os("SEAM_FULL").is_some() { long } else { short }
}

#[test]
fn killed_replicas_of_the_head_lose_nothing() {
    let cluster = Cluster::up(&[]);
    let verify = verify(&cluster, "kill-primary,kill-follower", &["--rounds", length("1", "30")]);
    let kills = &verify["recovery"]["next_ack"];
    assert!(kills["count"].as_u64() >= Some(1) && kills["p50_us"].as_u64() > Some(0), "{kills}");
    assert!(verify["rolls_by_recovery"].as_u64() >= Some(1), "{verify}");
}

#[test]
fn killed_successors_and_agents_lose_nothing() {
    let cluster = Cluster::up(&[]);
    let faults = "kill-ready-successor,kill-begun-successor,kill-agent";
    verify(&cluster, faults, &["--rounds", length("1", "10")]);
}

#[test]
fn a_killed_metad_leader_and_killed_routers_cost_no_append() {
    let cluster = Cluster::up(&[]);
    let verify = verify(&cluster, "kill-metad-leader,kill-router", &["--rounds", length("1", "10")]);
    assert_eq!(verify["metad_crash"]["appends_waited_for_roll"], 0, "{}", verify["metad_crash"]);
    assert!(
        rows(&verify).iter().any(|row| row["victims"].as_array().is_some_and(|all| all.len() == 2)),
        "both routers"
    );
}

#[test]
fn everything_killed_at_once_comes_back_with_every_acked_record() {
    let cluster = Cluster::up(&[]);
    verify(&cluster, "kill-all", &["--rounds", length("1", "10")]);
}

#[test]
fn a_frozen_primary_comes_back_as_a_zombie_and_harms_nobody() {
    let cluster = Cluster::up(&[]);
    verify(&cluster, "pause-primary", &["--pause-s", length("6", "30")]);
}
