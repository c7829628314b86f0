//! Consumer groups of real processes: members killed and added while the topic's ranges roll; and the commands about groups.

use crate::harness::{Cluster, until};
use client_core::group::replay::Replay;
use seamlog::{Client, ReadFrom, Record, TopicConfig};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};

const TOPIC: &str = "shared";
const GROUP: &str = "billing";
const RANGES: u32 = 6;
const RECORD_BYTES: usize = 1024;
/// Records are written and acked in parts of so many.
const PART: usize = 120;
const PARTS: usize = 25;

/// A `seam consume --group` whose output goes to a file.
struct Member {
    child: Child,
    output: PathBuf,
}

impl Member {
    fn start(cluster: &Cluster, name: &str) -> Member {
        let output = cluster.scratch().join(name);
        let arguments = ["consume", TOPIC, "--group", GROUP, "--follow", "--json", "--session-timeout", "2s"];
        let file = File::create(&output).expect("a file");
        let child = cluster.command(arguments).stdout(file).stdin(Stdio::null()).spawn().expect("seam starts");
        Member { child, output }
    }

    /// What it printed, in order. A line that was cut short by its end is none.
    fn printed(&self) -> Vec<(u32, u64, String)> {
        let text = fs::read_to_string(&self.output).expect("its output");
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let record = |line: &str| {
            let record: Value = serde_json::from_str(line).expect("JSON");
            let range = u32::try_from(record["range"].as_u64().expect("a range")).expect("small");
            (range, record["offset"].as_u64().expect("an offset"), record["value"].as_str().expect("text").to_owned())
        };
        whole.lines().map(record).collect()
    }

    fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
    }

    /// Asks it to end, and waits for it.
    fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Where the test has ended it already there is nothing to end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn described(cluster: &Cluster) -> Value {
    cluster.json(&["group", "describe", GROUP])
}

fn ranges(described: &Value) -> &Vec<Value> {
    described["topics"][0]["ranges"].as_array().expect("an array")
}

/// Whether so many members have an even share each, and none is handed over.
fn shared_by(cluster: &Cluster, members: usize) -> bool {
    let described = described(cluster);
    if described["members"].as_array().is_none_or(|it| it.len() != members) {
        return false;
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for range in ranges(&described).iter().filter(|range| range["moving_to"].is_null()) {
        *counts.entry(range["owner"].to_string()).or_default() += 1;
    }
    counts.len() == members && counts.values().sum::<usize>() == RANGES as usize
}

fn value(n: usize) -> String {
    format!("{n:08} {}", "x".repeat(RECORD_BYTES))
}

/// Writes a part; each record is acked when this returns. Returns where each is.
async fn write(producer: &seamlog::Producer, part: usize) -> Vec<((u32, u64), String)> {
    let mut sent = Vec::new();
    for n in part * PART..(part + 1) * PART {
        let record = Record::new(value(n)).key(format!("key {}", n % 50));
        sent.push((producer.send(record).await.expect("taken"), value(n)));
    }
    let mut acked = Vec::new();
    for (handle, value) in sent {
        let ack = handle.await.expect("acked");
        acked.push(((ack.range, ack.offset.0), value));
    }
    acked
}

/// Where each member began to read each range: what was committed when it got it.
async fn starts(client: &Client) -> BTreeMap<(String, u32), BTreeSet<u64>> {
    let log = client_core::group::topic_of(GROUP);
    let mut reader = client.consumer(log).from(ReadFrom::Earliest).follow(false).build().await.expect("its log");
    let (mut replay, mut starts) = (Replay::new(), BTreeMap::<_, BTreeSet<u64>>::new());
    let mut terms = BTreeMap::new();
    while let Some(record) = reader.next().await {
        let record = record.expect("its log is read");
        replay.take(record.offset, record.value.as_deref()).expect("entries");
        let group = replay.group().expect("from its first entry on");
        let topic = group.topics().get(TOPIC);
        for (range, share) in (0u32..).zip(topic.map(|topic| topic.shares.as_slice()).unwrap_or_default()) {
            let Some(owner) = share.owner else { continue };
            if terms.insert(range, (owner, share.term)) != Some((owner, share.term)) {
                let label = group.members()[&owner].label.clone();
                starts.entry((label, range)).or_default().insert(share.committed.unwrap_or_default().0);
            }
        }
    }
    starts
}

/// Each run of records begins where the member got the range: nothing that was committed is printed again.
fn check_runs(member: &Member, starts: &BTreeMap<(String, u32), BTreeSet<u64>>) {
    let label = format!("seam consume, pid {}", member.child.id());
    let mut last: BTreeMap<u32, u64> = BTreeMap::new();
    for (range, offset, _) in member.printed() {
        let goes_on = last.insert(range, offset).is_some_and(|last| last + 1 == offset);
        let begins = || starts.get(&(label.clone(), range)).is_some_and(|starts| starts.contains(&offset));
        assert!(goes_on || begins(), "{label} printed offset {offset} of range {range} out of turn");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_group_reads_everything_over_rolls_a_killed_member_and_an_added_one() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "3", "--router", "2"]);
    let client = cluster.client();
    let config = TopicConfig { ranges: RANGES, segment_bytes: 64 << 10, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let mut members: Vec<Member> = (0..3).map(|n| Member::start(&cluster, &format!("member-{n}"))).collect();
    until("the group", || cluster.seam(["group", "list"]).contains(GROUP));
    until("an even share among three", || shared_by(&cluster, 3));

    let producer = client.producer(TOPIC).build().await.expect("a producer");
    let mut written: BTreeMap<(u32, u64), String> = BTreeMap::new();
    for part in 0..PARTS {
        written.extend(write(&producer, part).await);
        match part {
            8 => {
                until("output of the member to be killed", || !members[1].printed().is_empty());
                members[1].kill();
            }
            16 => members.push(Member::start(&cluster, "member-3")),
            _ => {}
        }
    }
    producer.close().await;
    until("everything to be committed", || {
        let described = described(&cluster);
        ranges(&described).iter().all(|range| range["lag"] == 0)
    });
    until("an even share among two and the new one", || shared_by(&cluster, 3));
    let rolls = client.admin().roll_history(TOPIC, 0).await.expect("metad answers").len();
    assert!(rolls >= 20, "only {rolls} rolls");
    for n in [0, 2, 3] {
        members[n].stop();
    }

    let mut printed: BTreeMap<(u32, u64), String> = BTreeMap::new();
    for (range, offset, value) in members.iter().flat_map(Member::printed) {
        printed.insert((range, offset), value);
    }
    let missing: Vec<_> = written.keys().filter(|at| !printed.contains_key(at)).collect();
    assert!(missing.is_empty(), "{} records were printed by nobody: {missing:?}", missing.len());
    assert!(printed == written, "what was printed is what was written");
    let starts = starts(&client).await;
    members.iter().for_each(|member| check_runs(member, &starts));
    assert!(described(&cluster)["members"].as_array().is_some_and(Vec::is_empty), "all have left");
}

#[test]
fn an_operator_sees_and_moves_a_group() {
    let cluster = Cluster::up(&["--metad", "1", "--segd", "3", "--router", "1"]);
    cluster.seam(["topic", "create", TOPIC, "--ranges", "2", "--segment-bytes", "64KiB"]);
    let lines: String = (0..500).map(|n| format!("record {n:04}\n")).collect();
    cluster.feed(["produce", TOPIC], lines.into_bytes());
    let read = |count: &str| {
        let printed = cluster.seam(["consume", TOPIC, "--group", GROUP, "--count", count]);
        printed.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let (first, second) = (read("200"), read("1000"));
    assert_eq!((first.len(), second.len()), (200, 300), "it goes on where it was, and ends at the end");
    assert!(first.is_disjoint(&second));

    assert_eq!(cluster.json(&["group", "list"]), serde_json::json!([GROUP]));
    assert!(!cluster.seam(["topic", "list"]).contains("seam.group"), "its log is no user's topic");
    assert!(cluster.seam(["topic", "list", "--all"]).contains("seam.group.billing"));
    assert!(cluster.refused(&["topic", "delete", "seam.group.billing"]).contains("belong to Seamlog"));
    assert!(cluster.refused(&["group", "describe", "nobody"]).contains("seam group list"));
    let lag =
        |described: &Value| ranges(described).iter().map(|range| range["lag"].as_u64().expect("known")).sum::<u64>();
    assert_eq!(lag(&described(&cluster)), 0);

    // While somebody consumes, it is not moved.
    let mut member = Member::start(&cluster, "member");
    until("the member", || described(&cluster)["members"].as_array().is_some_and(|it| it.len() == 1));
    let refused = cluster.refused(&["group", "reset", GROUP, "--topic", TOPIC, "--to", "earliest"]);
    assert!(refused.contains("in use by seam consume"), "{refused}");
    member.kill();
    // Nor is it held up by the dead for longer than their session timeout.
    let moved = cluster.json(&["group", "reset", GROUP, "--topic", TOPIC, "--to", "earliest"]);
    assert_eq!(moved["committed"], serde_json::json!({ "0": 0, "1": 0 }));
    assert_eq!(lag(&described(&cluster)), 500);
    assert_eq!(read("1000").len(), 500);
    cluster.seam(["group", "delete", GROUP]);
    assert_eq!(cluster.json(&["group", "list"]), serde_json::json!([]));

    // From a moment on.
    let all = cluster.seam(["consume", TOPIC, "--json"]);
    let all: Vec<Value> = all.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let times = || all.iter().map(|record| record["timestamp_ms"].as_i64().expect("a time"));
    let moment = times().max().expect("records");
    let from = cluster.seam(["consume", TOPIC, "--from", &format!("{moment}ms")]);
    assert_eq!(from.lines().count(), times().filter(|at| *at >= moment).count());
    let from = cluster.seam(["consume", TOPIC, "--from", "2001-01-01T00:00:00Z"]);
    assert_eq!(from.lines().count(), 500);
}
