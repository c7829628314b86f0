//! What `seam dev up` does when things go wrong: it says which process failed, shows the end of its log, and leaves
//! nothing running. The services are scripts here, which fail in ways real ones do not on demand.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// One test at a time: a program that is being written in one thread cannot be run if another forks meanwhile.
static ALONE: Mutex<()> = Mutex::new(());

/// `seam` with services of our making beside it.
struct Bench {
    dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Bench {
    fn new(metad: &str) -> Self {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::copy(env!("CARGO_BIN_EXE_seam"), dir.path().join("seam")).expect("copied");
        for (name, script) in [("metad", metad), ("segd", "exec sleep 600"), ("router", "exec sleep 600")] {
            let path = dir.path().join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("made executable");
        }
        Bench { dir, _alone: alone }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.dir.path().join("seam"));
        command.args(arguments).env("SEAM_DEV_DIR", self.root()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("seam runs")
    }

    fn root(&self) -> PathBuf {
        self.dir.path().join("cluster")
    }

    /// Command lines of processes that belong to this cluster, whoever started them.
    fn left_running(&self) -> Vec<String> {
        let ours = self.root().to_str().expect("text").to_owned();
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let command_lines = processes.filter_map(|process| fs::read_to_string(process.path().join("environ")).ok());
        command_lines.filter(|environment| environment.contains(&ours)).collect()
    }
}

fn complaint(output: &Output) -> String {
    assert!(!output.status.success(), "it should fail");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_service_that_ends_is_named_with_its_last_words_and_nothing_is_left() {
    let bench = Bench::new("echo 'listen: address is bad' >&2; exit 3");
    let said = complaint(&bench.run(&["dev", "up"]));
    // All members end alike; which of them is looked at first after its end is a matter of scheduling.
    let named = (1..=3).any(|member| said.contains(&format!("metad-{member} ended")));
    assert!(named && said.contains("listen: address is bad"), "{said}");
    assert_eq!(bench.left_running(), Vec::<String>::new());
}

#[test]
fn a_cluster_that_is_not_ready_in_time_is_taken_down() {
    let bench = Bench::new("echo 'waiting for friends' >&2; exec sleep 600");
    let said = complaint(&bench.run(&["dev", "up", "--timeout", "1s"]));
    assert!(said.contains("not ready after 1s") && said.contains("metad elects a leader"), "{said}");
    assert!(said.contains("waiting for friends"), "{said}");
    assert_eq!(bench.left_running(), Vec::<String>::new());
    let status = bench.run(&["dev", "status", "--json"]);
    let status = String::from_utf8(status.stdout).expect("text");
    assert!(status.contains("stopped") && !status.contains("running"), "{status}");
    assert!(
        !Path::new(&bench.root().join("client.toml")).exists(),
        "clients must not find a cluster that is not there"
    );
}

#[test]
fn an_interrupt_takes_down_what_was_started() {
    let bench = Bench::new("exec sleep 600");
    let mut up = bench.command(&["dev", "up", "--timeout", "10m"]).spawn().expect("seam starts");
    until("the last process", || bench.root().join("run/router-2.pid").exists());
    let sent = Command::new("kill").args(["-INT", &up.id().to_string()]).status().expect("kill(1) runs");
    assert!(sent.success());
    until("the end", || up.try_wait().expect("waitable").is_some());
    let output = up.wait_with_output().expect("its output");
    assert_eq!(output.status.code(), Some(130), "as shells tell Ctrl-C");
    let said = complaint(&output);
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(bench.left_running(), Vec::<String>::new());
}

#[test]
fn a_missing_service_is_named_with_the_way_to_build_it() {
    let bench = Bench::new("exit 0");
    fs::remove_file(bench.dir.path().join("segd")).expect("removed");
    let said = complaint(&bench.run(&["dev", "up"]));
    assert!(said.contains("segd is not beside") && said.contains("cargo build --release"), "{said}");
    assert!(!bench.root().exists(), "nothing was made");
}

/// Refused for what was typed: nothing is made, and the advice is ours, not that of the parser of flags.
#[test]
fn what_is_refused_leaves_nothing_behind_and_is_told_in_our_words() {
    let bench = Bench::new("exit 0");
    for (arguments, advice) in [
        (["--metad", "2"], "--metad must be odd"),
        (["--segd", "0"], "--segd must be 1 to"),
        (["--metad-rtt", "2h"], "is more than"),
        (["--metad-rtt", "-5ms"], "write 20ms, 30s, 10m"),
    ] {
        let said = complaint(&bench.run(&[["dev", "up"], arguments].concat()));
        assert!(said.contains(advice), "{arguments:?}: {said}");
        assert!(!bench.root().exists(), "{arguments:?} left something behind");
    }
    let said = complaint(&bench.run(&["dev", "rtt", "-5ms"]));
    assert!(said.contains("write 20ms, 30s, 10m"), "{said}");
    let said = complaint(&bench.run(&["consume", "events", "--from", "-5"]));
    assert!(said.contains("earliest, latest, an offset"), "{said}");
}
