//! The whole path as a user has it from a shell: records through a cluster and back over many segments, processes killed,
//! frozen, restarted, added and removed.

use crate::harness::{Cluster, until};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

fn lines(from: u32, to: u32) -> Vec<String> {
    (from..to).map(|n| format!("record {n:07} {}", "x".repeat(180))).collect()
}

fn as_input(lines: &[String]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

fn read_all(cluster: &Cluster, topic: &str) -> Vec<String> {
    cluster.seam(["consume", topic, "--from", "earliest"]).lines().map(str::to_owned).collect()
}

/// A node that no open or ready segment has for its primary, but that holds one of them.
fn follower(cluster: &Cluster, topic: &str) -> String {
    let described = cluster.json(&["topic", "describe", topic]);
    let segments = described["ranges"][0]["segments"].as_array().expect("an array");
    let writable = segments.iter().filter(|segment| segment["state"] == "open" || segment["state"] == "ready");
    let replicas: Vec<Vec<u64>> =
        writable.map(|segment| serde_json::from_value(segment["replicas"].clone()).expect("node ids")).collect();
    let is_primary = |id: &u64| replicas.iter().any(|replicas| replicas[0] == *id);
    let followers = replicas.iter().flatten().find(|id| !is_primary(id));
    format!("segd-{}", followers.expect("three replicas on four nodes, at most two primaries"))
}

#[test]
fn records_come_back_in_order_over_rolls_crashes_and_restarts() {
    let cluster = Cluster::up(&["--segd", "4", "--router", "2", "--metad-rtt", "5ms"]);
    assert!(cluster.states().iter().all(|(_, state)| state == "running"), "{:?}", cluster.states());
    assert!(cluster.refused(&["dev", "up"]).contains("seam dev down"), "a running cluster is not started twice");
    let larger = cluster.refused(&["dev", "up", "--segd", "6"]);
    assert!(larger.contains("a cluster runs") && larger.contains("seam dev scale"), "{larger}");

    cluster.seam(["topic", "create", "events", "--segment-bytes", "64KiB"]);
    let mut expected = lines(0, 3_000);
    // Each part is more than a segment: it rolls the segment that takes it.
    for (rolls, part) in (1..).zip(expected.chunks(500)) {
        let arguments = ["produce", "events", "--key", "k", "--header", "a=b", "--json"];
        let written: Value = serde_json::from_str(&cluster.feed(arguments, as_input(part))).expect("JSON");
        assert_eq!((&written["records"], &written["failed"]), (&500.into(), &0.into()));
        until("a roll", || cluster.sealed("events") >= rolls);
    }
    assert_eq!(read_all(&cluster, "events"), expected);

    let one = cluster.seam(["consume", "events", "--from", "1234", "--count", "1", "--json"]);
    let one: Value = serde_json::from_str(&one).expect("JSON");
    assert_eq!(
        (&one["offset"], &one["key"], &one["value"]),
        (&1234.into(), &"k".into(), &expected[1234].as_str().into())
    );
    assert_eq!(one["headers"], serde_json::json!([{ "name": "a", "value": "b" }]));

    // A roll by hand.
    let before = cluster.sealed("events");
    cluster.seam(["roll", "events"]);
    until("the roll by hand", || cluster.sealed("events") > before);

    // A follower dies and comes back, a router restarts, a metad member freezes: nothing is lost.
    let follower = follower(&cluster, "events");
    cluster.seam(["dev", "kill", &follower]);
    assert_eq!(cluster.process(&follower)["state"], "crashed");
    assert!(cluster.process(&follower)["pid"].is_null());
    cluster.seam(["dev", "pause", "metad-2"]);
    assert_eq!(cluster.process("metad-2")["state"], "paused");
    let more = lines(3_000, 4_000);
    cluster.feed(["produce", "events"], as_input(&more));
    expected.extend(more);
    cluster.seam(["dev", "resume", "metad-2"]);
    cluster.seam(["dev", "restart", &follower]);
    cluster.seam(["dev", "restart", "router"]);
    assert!(cluster.states().iter().all(|(_, state)| state == "running"), "{:?}", cluster.states());
    assert_eq!(read_all(&cluster, "events"), expected);

    // Stopped and started again, what is sealed is still there.
    let before = cluster.sealed("events");
    cluster.seam(["roll", "events"]);
    until("the roll by hand", || cluster.sealed("events") > before);
    cluster.seam(["dev", "down"]);
    assert!(cluster.states().iter().all(|(_, state)| state == "stopped"), "{:?}", cluster.states());
    assert!(cluster.refused(&["dev", "up", "--segd", "9"]).contains("--segd 4"), "the size is part of the cluster");
    cluster.seam(["dev", "up"]);
    let count = expected.len().to_string();
    let again = cluster.seam(["consume", "events", "--from", "earliest", "--follow", "--count", &count]);
    assert_eq!(again.lines().collect::<Vec<_>>(), expected);

    let pids: Vec<u64> = cluster.json(&["dev", "status"])["processes"]
        .as_array()
        .expect("an array")
        .iter()
        .map(|process| process["pid"].as_u64().expect("a pid"))
        .collect();
    cluster.seam(["dev", "down", "--wipe"]);
    assert!(!cluster.root().exists(), "wiped");
    for pid in pids {
        let command_line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        assert!(!command_line.contains("--config"), "{pid} is left: {command_line}");
    }
}

#[test]
fn a_cluster_grows_and_shrinks_under_load() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "3", "--router", "1"]);
    cluster.seam(["topic", "create", "events", "--segment-bytes", "64KiB"]);
    let mut expected = lines(0, 2_000);
    cluster.feed(["produce", "events"], as_input(&expected));

    cluster.seam(["dev", "scale", "segd=5", "router=2"]);
    let nodes = cluster.json(&["nodes"]);
    assert_eq!(nodes.as_array().expect("an array").iter().filter(|node| node["state"] == "live").count(), 5);
    let more = lines(2_000, 6_000);
    cluster.feed(["produce", "events"], as_input(&more));
    expected.extend(more);
    let uses_new_nodes = || {
        let described = cluster.json(&["topic", "describe", "events"]);
        let segments = described["ranges"][0]["segments"].as_array().expect("an array");
        segments
            .iter()
            .flat_map(|segment| segment["replicas"].as_array().expect("an array").clone())
            .any(|id| id.as_u64() > Some(3))
    };
    until("new nodes to be used", uses_new_nodes);

    assert!(cluster.refused(&["dev", "scale", "segd=2"]).contains("3 replicas"), "a topic keeps its replicas");
    cluster.seam(["dev", "scale", "segd=4", "router=1"]);
    let names: Vec<String> = cluster.states().into_iter().map(|(name, _)| name).collect();
    assert!(!names.contains(&"segd-5".to_owned()) && !names.contains(&"router-2".to_owned()), "{names:?}");
    assert_eq!(read_all(&cluster, "events"), expected);

    // The node that left may hold copies until its topic goes; then only --all shows it.
    let is_dead = |node: &Value| node["name"] == "segd-5" && node["state"] == "dead";
    until("metad to miss segd-5", || cluster.json(&["nodes"]).as_array().expect("an array").iter().any(is_dead));
    cluster.seam(["topic", "delete", "events"]);
    until("segd-5 to be left out", || !cluster.seam(["nodes"]).contains("segd-5"));
    assert!(cluster.seam(["nodes", "--all"]).contains("segd-5"));
}

#[test]
fn a_reader_that_has_enough_ends_the_command_quietly() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "3", "--router", "1"]);
    cluster.seam(["topic", "create", "events"]);
    cluster.feed(["produce", "events"], as_input(&lines(0, 5_000)));
    let mut consume = cluster.command(["consume", "events", "--from", "earliest"]);
    let mut child = consume.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("seam starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("seam ends");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    a_line_that_is_too_long_is_named(&cluster);
    an_interrupted_producer_finishes_and_says_so(&cluster);
}

fn a_line_that_is_too_long_is_named(cluster: &Cluster) {
    cluster.seam(["topic", "create", "long"]);
    let input = cluster.scratch().join("long");
    let produce = |line_bytes: usize, more: &[&str]| {
        fs::write(&input, format!("first\n{}\nthird\n", "x".repeat(line_bytes))).expect("written");
        let read = fs::File::open(&input).expect("there");
        let mut command = cluster.command(["produce", "long"].iter().chain(more));
        command.stdin(read).output().expect("seam runs")
    };
    // Longer than any record may be, and than the batch of this producer.
    for (line_bytes, more) in [(2 << 20, &[][..]), (3 << 10, &["--max-batch-bytes", "2KiB"])] {
        let output = produce(line_bytes, more);
        let said = String::from_utf8(output.stderr).expect("text");
        assert!(!output.status.success() && said.contains("line 2"), "{said}");
        assert!(said.contains("at most 1MiB") && said.contains("--max-batch-bytes"), "{said}");
    }
    let output = produce(3 << 10, &[]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(read_all(cluster, "long").len(), 1 + 1 + 3);
}

/// What it took is written, and its status is that of a command ended by Ctrl-C.
fn an_interrupted_producer_finishes_and_says_so(cluster: &Cluster) {
    cluster.seam(["topic", "create", "typed"]);
    let mut produce = cluster.command(["produce", "typed"]);
    let piped = produce.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("seam starts");
    child.stdin.as_mut().expect("a pipe").write_all(b"one\n").expect("taken");
    // It watches for Ctrl-C before it reads.
    until("the line to be written", || read_all(cluster, "typed") == ["one"]);
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill(1) runs");
    assert!(sent.success());
    let output = {
        // The pipe stays open meanwhile, as a terminal would.
        let stdin = child.stdin.take();
        let output = child.wait_with_output().expect("seam ends");
        drop(stdin);
        output
    };
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 records to range 0"), "{output:?}");
}
