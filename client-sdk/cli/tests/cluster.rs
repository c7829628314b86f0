//! The whole path with real processes, as a user has it from a shell: a local cluster, records through it and back over
//! many segments, processes killed, frozen, restarted, added and removed. Wants the service programs beside `seam`:
//! `cargo build --release --bins`.

use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take to come about.
const PATIENCE: Duration = Duration::from_secs(60);

/// One cluster at a time: each takes the whole machine.
static ALONE: Mutex<()> = Mutex::new(());

/// A cluster in a directory of its own; gone when this is dropped.
struct Cluster {
    dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    fn up(arguments: &[&str]) -> Self {
        // Beside the programs, on a real disk: a temporary file system has no syncs worth the name.
        let beside = Path::new(env!("CARGO_BIN_EXE_seam")).parent().expect("a program lies in a directory");
        // A test that failed has cleaned up after itself; its mark on the lock means nothing to the next.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = Cluster { dir: tempfile::tempdir_in(beside).expect("a temporary directory"), _alone: alone };
        cluster.seam(["dev", "up"].iter().chain(arguments));
        cluster
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_seam"));
        command.args(arguments);
        command.env("SEAM_DEV_DIR", self.root()).env("SEAM_CONFIG", self.root().join("client.toml"));
        command
    }

    /// Runs a command that must succeed; returns what it printed.
    fn seam<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.feed(arguments, Vec::new())
    }

    fn feed<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>, input: Vec<u8>) -> String {
        let mut command = self.command(arguments);
        let output = run(&mut command, input);
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a command that must fail; returns its complaint.
    fn refused(&self, arguments: &[&str]) -> String {
        let output = run(&mut self.command(arguments), Vec::new());
        assert!(!output.status.success(), "{arguments:?} should fail");
        String::from_utf8(output.stderr).expect("text")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.seam(arguments.iter().chain(&["--json"]))).expect("JSON")
    }

    fn process(&self, name: &str) -> Value {
        let status = self.json(&["dev", "status"]);
        let processes = status["processes"].as_array().expect("an array");
        processes.iter().find(|process| process["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    }

    fn states(&self) -> Vec<(String, String)> {
        let status = self.json(&["dev", "status"]);
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let processes = status["processes"].as_array().expect("an array");
        processes.iter().map(|process| (text(&process["name"]), text(&process["state"]))).collect()
    }

    fn sealed(&self, topic: &str) -> usize {
        let described = self.json(&["topic", "describe", topic]);
        let segments = described["ranges"][0]["segments"].as_array().expect("an array");
        segments.iter().filter(|segment| segment["state"] == "sealed").count()
    }

    fn read_all(&self, topic: &str) -> Vec<String> {
        self.seam(["consume", topic, "--from", "earliest"]).lines().map(str::to_owned).collect()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for log in fs::read_dir(self.root().join("logs")).into_iter().flatten().flatten() {
                let text = fs::read_to_string(log.path()).unwrap_or_default();
                let lines: Vec<&str> = text.lines().collect();
                let end = lines[lines.len().saturating_sub(15)..].join("\n");
                eprintln!("-- {}\n{end}", log.path().display());
            }
        }
        if self.root().join("cluster.toml").exists() {
            run(&mut self.command(["dev", "down", "--wipe"]), Vec::new());
        }
    }
}

fn run(command: &mut Command, input: Vec<u8>) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("seam starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("seam ends");
    // A command that needs no input may end before it has all of it.
    let _unread = writer.join().expect("the writer ends");
    output
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn lines(from: u32, to: u32) -> Vec<String> {
    (from..to).map(|n| format!("record {n:07} {}", "x".repeat(180))).collect()
}

fn as_input(lines: &[String]) -> Vec<u8> {
    lines.iter().flat_map(|line| [line.as_bytes(), b"\n"].concat()).collect()
}

#[test]
fn records_come_back_in_order_over_rolls_crashes_and_restarts() {
    let cluster = Cluster::up(&["--segd", "4", "--router", "2", "--metad-rtt", "5ms"]);
    assert!(cluster.states().iter().all(|(_, state)| state == "running"), "{:?}", cluster.states());
    assert!(cluster.refused(&["dev", "up"]).contains("seam dev down"), "a running cluster is not started twice");

    cluster.seam(["topic", "create", "events", "--segment-bytes", "64KiB"]);
    let mut expected = lines(0, 3_000);
    let written: Value = serde_json::from_str(
        &cluster.feed(["produce", "events", "--key", "k", "--header", "a=b", "--json"], as_input(&expected)),
    )
    .expect("JSON");
    assert_eq!((&written["records"], &written["failed"]), (&3_000.into(), &0.into()));
    assert_eq!(written["ranges"][0]["last_offset"], 2_999);
    until("rolls", || cluster.sealed("events") >= 5);
    assert_eq!(cluster.read_all("events"), expected);

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

    // A segd node dies and comes back, a router restarts, a metad member freezes: nothing is lost.
    cluster.seam(["dev", "kill", "segd-1"]);
    assert_eq!(cluster.process("segd-1")["state"], "crashed");
    assert!(cluster.process("segd-1")["pid"].is_null());
    cluster.seam(["dev", "pause", "metad-2"]);
    assert_eq!(cluster.process("metad-2")["state"], "paused");
    let more = lines(3_000, 4_000);
    cluster.feed(["produce", "events"], as_input(&more));
    expected.extend(more);
    cluster.seam(["dev", "resume", "metad-2"]);
    cluster.seam(["dev", "restart", "segd-1"]);
    cluster.seam(["dev", "restart", "router"]);
    assert!(cluster.states().iter().all(|(_, state)| state == "running"), "{:?}", cluster.states());
    assert_eq!(cluster.read_all("events"), expected);

    // Stopped and started again, the data is still there.
    cluster.seam(["dev", "down"]);
    assert!(cluster.states().iter().all(|(_, state)| state == "stopped"), "{:?}", cluster.states());
    assert!(cluster.refused(&["dev", "up", "--segd", "9"]).contains("--segd 4"), "the size is part of the cluster");
    cluster.seam(["dev", "up"]);
    assert_eq!(cluster.read_all("events"), expected);

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
    assert_eq!(cluster.read_all("events"), expected);
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
}
