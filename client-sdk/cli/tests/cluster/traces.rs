//! One trace a roll, from the soft mark to the first ack and the first record out of the successor, as a collector gets it from
//! segd, metad, routers and clients. One a recovery, and one a sampled append.

use crate::harness::{Cluster, PATIENCE, eventually, head};
use crate::otlp::{Collector, Seen};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const TOPIC: &str = "traced";
/// Filled in about two seconds.
const SEGMENT_BYTES: &str = "256KiB";
const LINE_BYTES: usize = 1024;
const PAUSE: Duration = Duration::from_millis(8);

/// So often is looked for a roll by hand before another is asked for.
const LOOKS_A_ROLL: usize = 50;

/// What every planned roll tells, and who.
const PLANNED: [(&str, &str); 18] = [
    ("roll.announce", "segd"),
    ("roll.slack", "segd"),
    ("roll.switch", "segd"),
    ("roll.seal", "segd"),
    ("roll.begin", "segd"),
    ("replica.open", "segd"),
    ("replica.seal", "segd"),
    ("successor.open", "segd"),
    ("successor.gate", "segd"),
    ("successor.first_commit", "segd"),
    ("successor.first_delivery", "segd"),
    ("metad.commit", "metad"),
    ("metad.ready", "metad"),
    ("metad.record", "metad"),
    ("router.open_successor", "router"),
    ("router.moved", "router"),
    ("router.first_ack", "router"),
    ("router.first_delivery", "router"),
];
/// Those that hang below another step than the roll itself.
const BELOW: [(&str, &str); 2] =
    [("producer.first_ack", "router.first_ack"), ("consumer.first_delivery", "router.first_delivery")];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_trace_covers_a_roll_in_all_four_programs() {
    let collector = Collector::start().await;
    let cluster = Cluster::up_with(&[], &environment(&collector, "100"));
    let client = cluster.client();
    cluster.seam(["topic", "create", TOPIC, "--segment-bytes", SEGMENT_BYTES]);
    let reader = Reader::start(&cluster, &collector);
    let writer = Writer::start(&cluster, &collector);

    // Rolls by size: the primary draws the trace at the soft mark.
    let by_size = |roll: &Value| roll["switched_by"] == "bytes" && is_complete(&collector, roll);
    eventually("a whole trace of a roll by size", async || {
        writer.check();
        explained(&cluster).iter().any(by_size)
    })
    .await;
    let rolls = explained(&cluster);
    let roll = rolls.iter().find(|roll| by_size(roll)).expect("it was just there");
    let spans = collector.trace(text(&roll["trace_id"]));
    let root = check(&spans);
    assert_eq!((root.name.as_str(), root.service.as_str()), ("roll", "segd"), "{spans:#?}");
    assert!(spans.iter().any(|span| span.name == "metad.placement"), "it was asked for by the primary: {spans:#?}");
    assert!(spans.iter().any(|span| span.name == "metad.report"), "its context came in the call: {spans:#?}");
    let instances =
        |service: &str| spans.iter().filter(|span| span.service == service).any(|span| span.instance.contains('-'));
    assert!(instances("segd") && instances("metad") && instances("router"), "{spans:#?}");
    let (announce, seal) = (find(&spans, "roll.announce"), find(&spans, "roll.seal"));
    assert!(root.start_ns <= announce.end_ns && announce.end_ns <= seal.start_ns, "{spans:#?}");

    // By hand: metad draws it, unless the primary was about to roll by itself; then another is asked for.
    let by_hand = |roll: &Value| {
        let whole = roll["switched_by"] == "operator" && is_complete(&collector, roll);
        whole
            && collector
                .trace(text(&roll["trace_id"]))
                .iter()
                .any(|span| span.name == "roll" && span.service == "metad")
    };
    let mut looked = 0;
    eventually("a whole trace of a roll by hand", async || {
        if looked % LOOKS_A_ROLL == 0 {
            cluster.seam(["roll", TOPIC]);
        }
        looked += 1;
        explained(&cluster).iter().any(by_hand)
    })
    .await;
    let rolls = explained(&cluster);
    let roll = rolls.iter().find(|roll| by_hand(roll)).expect("it was just there");
    let root = check(&collector.trace(text(&roll["trace_id"])));
    assert_eq!((root.name.as_str(), root.service.as_str()), ("roll", "metad"));

    // The primary dies: the recovery has a trace of its own.
    let primary = head(&client, TOPIC).await.replicas[0];
    cluster.seam(["dev", "kill", &format!("segd-{primary}")]);
    let steps = [
        ("metad.detect", "metad"),
        ("metad.appoint", "metad"),
        ("replica.promise", "segd"),
        ("agent.fence", "segd"),
        ("agent.copy", "segd"),
        ("successor.gate", "segd"),
        ("metad.record", "metad"),
    ];
    let recovered = |roll: &Value| roll["by_recovery"] == true && has(&collector, roll, "recovery", &steps);
    eventually("a whole trace of a recovery", async || explained(&cluster).iter().any(recovered)).await;
    let rolls = explained(&cluster);
    let roll = rolls.iter().find(|roll| recovered(roll)).expect("it was just there");
    let root = check(&collector.trace(text(&roll["trace_id"])));
    assert_eq!((root.name.as_str(), root.service.as_str()), ("recovery", "metad"));

    // A command that ends sends what it has left, though its next export would have been long after.
    let written = writer.stop();
    reader.stop(written);
    let mut sampled = cluster.command(["produce", TOPIC, "--trace-share", "1"]);
    sampled.envs(environment(&collector, "3600000"));
    let before = collector.traces_with("producer.append");
    finish(sampled.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts"), b"one line\n");
    let appended = collector.traces_with("producer.append");
    let id = appended.difference(&before).next().expect("flushed at its end").clone();
    let names = ["producer.append", "router.append", "segd.append", "segd.copy"];
    eventually("the sampled append in all programs", async || {
        let spans = collector.trace(&id);
        names.iter().all(|name| spans.iter().any(|span| span.name == *name))
    })
    .await;
    let spans = collector.trace(&id);
    for (child, parent) in names.iter().skip(1).zip(&names) {
        assert_eq!(find(&spans, child).parent, find(&spans, parent).id, "{child} below {parent}: {spans:#?}");
    }
}

fn environment(collector: &Collector, export_every_ms: &str) -> Vec<(String, String)> {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    vec![
        pair("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint),
        pair("OTEL_BSP_SCHEDULE_DELAY", export_every_ms),
        pair("SEAM_LOG", "warn"),
    ]
}

fn explained(cluster: &Cluster) -> Vec<Value> {
    cluster.json(&["roll", "explain", TOPIC, "--last", "0"]).as_array().expect("an array").clone()
}

/// Whether all steps of a planned roll have arrived.
fn is_complete(collector: &Collector, roll: &Value) -> bool {
    let below = BELOW.map(|(name, _)| (name, "seam"));
    has(collector, roll, "roll", &PLANNED) && has(collector, roll, "roll", &below)
}

fn has(collector: &Collector, roll: &Value, root: &str, steps: &[(&str, &str)]) -> bool {
    let spans = collector.trace(text(&roll["trace_id"]));
    let there = |name: &str, service: Option<&str>| {
        spans.iter().any(|span| span.name == name && service.is_none_or(|service| span.service == service))
    };
    there(root, None) && steps.iter().all(|(name, service)| there(name, Some(service)))
}

/// Every span hangs where it should; returns the root.
fn check(spans: &[Seen]) -> Seen {
    let roots: Vec<&Seen> = spans.iter().filter(|span| span.parent.is_empty()).collect();
    assert_eq!(roots.len(), 1, "one root: {spans:#?}");
    for span in spans.iter().filter(|span| !span.parent.is_empty()) {
        let parent = BELOW.iter().find(|(name, _)| *name == span.name).map(|(_, parent)| *parent);
        let parents: Vec<&Seen> = spans.iter().filter(|other| other.id == span.parent).collect();
        assert_eq!(parents.len(), 1, "{span:?} hangs below one span: {spans:#?}");
        assert_eq!(parents[0].name, parent.unwrap_or(&roots[0].name), "{span:?}");
        assert!(span.start_ns <= span.end_ns, "{span:?}");
    }
    roots[0].clone()
}

fn find<'a>(spans: &'a [Seen], name: &str) -> &'a Seen {
    spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("no {name}: {spans:#?}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn finish(mut child: Child, input: &[u8]) {
    child.stdin.take().expect("a pipe").write_all(input).expect("it reads");
    let ended = child.wait().expect("it ends");
    assert!(ended.success(), "{ended}");
}

/// A program that does not outlive the test, however that ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `seam produce`, fed line by line.
struct Writer {
    stop: Arc<AtomicBool>,
    failed: Arc<AtomicBool>,
    feeding: JoinHandle<u64>,
    child: Running,
}

impl Writer {
    fn start(cluster: &Cluster, collector: &Collector) -> Writer {
        let mut command = cluster.command(["produce", TOPIC]);
        command.envs(environment(collector, "100")).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut child = command.spawn().expect("it starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        let (stop, failed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (stopped, broke) = (Arc::clone(&stop), Arc::clone(&failed));
        let feeding = std::thread::spawn(move || {
            let mut written = 0;
            while !stopped.load(Ordering::Relaxed) {
                let mut line = format!("{written:0width$}", width = LINE_BYTES).into_bytes();
                line.push(b'\n');
                if stdin.write_all(&line).is_err() {
                    broke.store(true, Ordering::Relaxed);
                    break;
                }
                written += 1;
                std::thread::sleep(PAUSE);
            }
            written
        });
        Writer { stop, failed, feeding, child: Running(child) }
    }

    fn check(&self) {
        assert!(!self.failed.load(Ordering::Relaxed), "the producer gave up");
    }

    /// Ends it; how many lines it wrote.
    fn stop(mut self) -> u64 {
        self.check();
        self.stop.store(true, Ordering::Relaxed);
        let written = self.feeding.join().expect("the feeder ends");
        let ended = self.child.0.wait().expect("it ends");
        assert!(ended.success(), "{ended}");
        written
    }
}

/// `seam consume --follow`.
struct Reader {
    child: Running,
    read: Arc<AtomicU64>,
    counting: JoinHandle<()>,
}

impl Reader {
    fn start(cluster: &Cluster, collector: &Collector) -> Reader {
        let mut command = cluster.command(["consume", TOPIC, "--from", "earliest", "--follow"]);
        command.envs(environment(collector, "100")).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let out = BufReader::new(child.stdout.take().expect("a pipe"));
        let read = Arc::new(AtomicU64::new(0));
        let lines = Arc::clone(&read);
        let counting = std::thread::spawn(move || {
            for _ in out.split(b'\n').map_while(Result::ok) {
                lines.fetch_add(1, Ordering::Relaxed);
            }
        });
        Reader { child: Running(child), read, counting }
    }

    /// Waits for all of them, then ends it.
    fn stop(self, written: u64) {
        let deadline = Instant::now() + PATIENCE;
        while self.read.load(Ordering::Relaxed) < written {
            assert!(Instant::now() < deadline, "{} of {written} lines read", self.read.load(Ordering::Relaxed));
            std::thread::sleep(PAUSE);
        }
        drop(self.child);
        self.counting.join().expect("the counter ends");
    }
}
