//! A cluster of real processes in a directory of its own, and the questions tests ask it. It is taken down when it is
//! dropped; what a killed test left behind, the next one takes down.

use seamlog::{Client, ClientConfig, RollRecord, SegmentInfo};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long anything may take to come about.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// How often a condition is looked at.
const GLANCE: Duration = Duration::from_millis(50);
/// Start of the names of our directories; the test's process id follows.
const PREFIX: &str = "cluster-test-";

/// How often a test does what it does: more often where `SEAM_FULL=1` asks for the long runs.
pub fn rounds(usual: usize, full: usize) -> usize {
    if std::env::var_os("SEAM_FULL").is_some_and(|full| full == "1") { full } else { usual }
}

/// One cluster at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A cluster in a directory of its own; gone when this is dropped.
pub struct Cluster {
    dir: tempfile::TempDir,
    _alone: MutexGuard<'static, ()>,
}

impl Cluster {
    /// Starts one with these arguments of `seam dev up`; returns once it is ready.
    pub fn up(arguments: &[&str]) -> Self {
        Cluster::up_with(arguments, &[])
    }

    /// The same, with these variables in the environment of its programs.
    pub fn up_with(arguments: &[&str], environment: &[(String, String)]) -> Self {
        // Beside the programs, on a real disk: a temporary file system has no syncs worth the name.
        let beside = programs();
        // A test that failed has cleaned up after itself; its mark on the lock means nothing to the next.
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        sweep(&beside);
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let dir = tempfile::Builder::new().prefix(&prefix).tempdir_in(beside).expect("a temporary directory");
        let cluster = Cluster { dir, _alone: alone };
        let mut up = cluster.command(["dev", "up"].iter().chain(arguments));
        succeed(up.envs(environment.iter().cloned()), Vec::new());
        cluster
    }

    /// The cluster's own directory.
    pub fn root(&self) -> PathBuf {
        root(self.dir.path())
    }

    /// A place for files that is gone after the test.
    pub fn scratch(&self) -> &Path {
        self.dir.path()
    }

    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        seam_at(&self.root(), arguments)
    }

    /// Runs a command that must succeed; returns what it printed.
    pub fn seam<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        self.feed(arguments, Vec::new())
    }

    /// The same, for commands that print what is no text.
    pub fn seam_bytes<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Vec<u8> {
        succeed(&mut self.command(arguments), Vec::new())
    }

    /// The same, with something to read.
    pub fn feed<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>, input: Vec<u8>) -> String {
        String::from_utf8(succeed(&mut self.command(arguments), input)).expect("text")
    }

    /// Runs a command that must fail; returns its complaint.
    pub fn refused(&self, arguments: &[&str]) -> String {
        let output = run(&mut self.command(arguments), Vec::new());
        assert!(!output.status.success(), "{arguments:?} should fail");
        String::from_utf8(output.stderr).expect("text")
    }

    pub fn json(&self, arguments: &[&str]) -> Value {
        serde_json::from_str(&self.seam(arguments.iter().chain(&["--json"]))).expect("JSON")
    }

    /// Runs `loadgen`, which must succeed: all that it claims held.
    pub fn loadgen<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) {
        let mut command = Command::new(programs().join("loadgen"));
        command.args(arguments).env("SEAM_CONFIG", self.client_file());
        succeed(&mut command, Vec::new());
    }

    pub fn process(&self, name: &str) -> Value {
        let status = self.json(&["dev", "status"]);
        let processes = status["processes"].as_array().expect("an array");
        processes.iter().find(|process| process["name"] == name).unwrap_or_else(|| panic!("no {name}")).clone()
    }

    pub fn states(&self) -> Vec<(String, String)> {
        let status = self.json(&["dev", "status"]);
        let text = |value: &Value| value.as_str().expect("text").to_owned();
        let processes = status["processes"].as_array().expect("an array");
        processes.iter().map(|process| (text(&process["name"]), text(&process["state"]))).collect()
    }

    pub fn sealed(&self, topic: &str) -> usize {
        let described = self.json(&["topic", "describe", topic]);
        let segments = described["ranges"][0]["segments"].as_array().expect("an array");
        segments.iter().filter(|segment| segment["state"] == "sealed").count()
    }

    pub fn client_file(&self) -> PathBuf {
        self.root().join("client.toml")
    }

    pub fn settings(&self) -> ClientConfig {
        ClientConfig::load(self.client_file()).expect("seam dev up wrote it")
    }

    /// A client of its own connections. Inside a runtime.
    pub fn client(&self) -> Client {
        Client::connect(self.settings()).expect("good settings")
    }

    /// Where a process serves: QUIC, or gRPC of metad.
    pub fn addr(&self, name: &str) -> String {
        self.process(name)["addr"].as_str().expect("it has one").to_owned()
    }

    pub fn metrics_of(&self, name: &str) -> Metrics {
        Metrics { addr: self.process(name)["metrics"].as_str().expect("it has them").to_owned() }
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
        down(&self.root());
    }
}

/// Where a process shows its counters.
#[derive(Clone)]
pub struct Metrics {
    addr: String,
}

impl Metrics {
    /// The sum of a metric over its labels, or over those lines that hold `label`. 0 where it has not been counted yet.
    pub fn sum(&self, name: &str, label: &str) -> f64 {
        let value = |line: &str| {
            let (metric, value) = line.rsplit_once(' ')?;
            let base = metric.split('{').next()?;
            let plain = base.strip_suffix("_total").unwrap_or(base);
            (plain == name && metric.contains(label)).then(|| value.parse::<f64>().ok()).flatten()
        };
        self.text().lines().filter_map(value).sum()
    }

    fn text(&self) -> String {
        let addr = self.addr.parse().expect("an address");
        let mut stream = TcpStream::connect_timeout(&addr, PATIENCE).expect("/metrics is served");
        stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let (head, body) = answer.split_once("\r\n\r\n").expect("HTTP");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        body.to_owned()
    }
}

/// The chain of a topic of one range, in order, its head last; and its candidates.
pub async fn chain(client: &Client, topic: &str) -> (Vec<SegmentInfo>, Vec<SegmentInfo>) {
    let described = client.admin().describe_topic(topic).await.expect("metad answers");
    let segments = described.ranges.into_iter().next().expect("one range").segments;
    let (chain, rest): (Vec<_>, Vec<_>) =
        segments.into_iter().partition(|segment| segment.state == "sealed" || segment.state == "open");
    (chain, rest.into_iter().filter(|segment| segment.state != "reclaimed").collect())
}

/// The segment that is written.
pub async fn head(client: &Client, topic: &str) -> SegmentInfo {
    chain(client, topic).await.0.pop().expect("a range has a head")
}

/// Every sealed segment ends where the next one starts, and names it; the last is open.
pub fn assert_continuous(chain: &[SegmentInfo]) {
    let (head, sealed) = chain.split_last().expect("a range has a head");
    assert_eq!((head.state.as_str(), head.end), ("open", None), "{head:?}");
    assert_eq!(chain[0].start, Some(0), "{:?}", chain[0]);
    for (segment, next) in sealed.iter().zip(&chain[1..]) {
        assert_eq!(segment.state, "sealed", "{segment:?}");
        assert_eq!((segment.next, segment.end), (Some(next.id), next.start), "{segment:?} then {next:?}");
    }
}

/// The rolls of a topic of one range, oldest first.
pub async fn rolls(client: &Client, topic: &str) -> Vec<RollRecord> {
    client.admin().roll_history(topic, 0).await.expect("metad answers")
}

/// Waits for a condition that no message announces.
pub fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "{what} did not come about");
        std::thread::sleep(GLANCE);
    }
}

/// The same, where the looking itself waits.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "{what} did not come about");
        tokio::time::sleep(GLANCE).await;
    }
}

/// An answer within the bound.
pub async fn soon<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(|_| panic!("{what} did not come about"))
}

/// The directory of the programs, above that of this test; all of them must be there.
fn programs() -> PathBuf {
    let this = std::env::current_exe().expect("a test has a path");
    let beside = this.ancestors().nth(2).expect("a test lies in the directory `deps`, and that in the programs'");
    for program in ["seam", "metad", "segd", "router", "loadgen"] {
        let path = beside.join(program);
        assert!(path.is_file(), "{} is missing: run `cargo build --release --workspace --bins`", path.display());
    }
    beside.to_owned()
}

fn root(dir: &Path) -> PathBuf {
    dir.join("cluster")
}

fn seam_at<S: AsRef<OsStr>>(root: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(programs().join("seam"));
    command.args(arguments).env("SEAM_DEV_DIR", root).env("SEAM_CONFIG", root.join("client.toml"));
    command
}

/// Takes down a cluster. Never panics: it may run in a panic.
fn down(root: &Path) {
    if root.join("cluster.toml").exists() {
        let done = seam_at(root, ["dev", "down", "--wipe"]).output();
        if !done.as_ref().is_ok_and(|output| output.status.success()) {
            eprintln!("the cluster in {} was not taken down: {done:?}", root.display());
        }
    }
}

/// Takes down what tests left that were killed and could not clean up.
fn sweep(beside: &Path) {
    for entry in fs::read_dir(beside).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(PREFIX)) else { continue };
        let owner = rest.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(owner).exists() {
            down(&root(&entry.path()));
            // What cannot be removed is in nobody's way.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn succeed(command: &mut Command, input: Vec<u8>) -> Vec<u8> {
    let output = run(command, input);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

fn run(command: &mut Command, input: Vec<u8>) -> Output {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("the program ends");
    // A command that needs no input may end before it has all of it.
    let _unread = writer.join().expect("the writer ends");
    output
}
