//! `seam roll explain`, without any collector: every phase of planned rolls and of a recovery on one timeline, whose critical
//! path adds up.

use crate::harness::{Cluster, eventually, head, rolls};
use crate::load::{Load, RECORD_BYTES};
use seamlog::{Client, TopicConfig};
use serde_json::Value;

const TOPIC: &str = "explained";
const RATE_PER_S: u64 = 400;
/// Some seconds of the load.
const SEGMENT_BYTES: u64 = 3 * RATE_PER_S * RECORD_BYTES;
const PLANNED: [&str; 12] = [
    "announce",
    "placement",
    "commit",
    "open",
    "ready",
    "deliver",
    "slack",
    "switch",
    "seal",
    "begin",
    "gate",
    "record",
];
const RECOVERED: [&str; 9] = ["detect", "wait", "appoint", "deliver", "fence", "copy", "report", "decide", "gate"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolls_and_recoveries_are_explained() {
    let cluster = Cluster::up(&[]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: SEGMENT_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    assert!(cluster.seam(["roll", "explain", TOPIC]).contains("no roll is recorded yet"));
    assert!(cluster.refused(&["roll", "explain", TOPIC, "--range", "1"]).contains("no range 1"));
    assert!(cluster.refused(&["roll", "explain", "absent"]).contains("absent"));

    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    // Two rolls by size: the first has no measured latency to go by, the second has.
    told(&cluster, &client, "two rolls by size", |all| all.len() >= 2 && all.iter().all(is_whole)).await;
    let explained = explain(&cluster, "0");
    let bases: Vec<&str> = explained.iter().map(|roll| text(&roll["announced"]["basis"])).collect();
    assert_eq!(bases[0], "unmeasured", "{explained:#?}");
    assert!(["floor", "lead"].contains(&bases[1]), "{explained:#?}");
    for roll in &explained[..2] {
        assert_eq!((text(&roll["announced"]["cause"]), text(&roll["switched_by"])), ("bytes", "bytes"), "{roll:#}");
        check(roll, &PLANNED);
        assert!(phase(roll, "first_commit").is_some() && phase(roll, "first_delivery").is_some(), "{roll:#}");
        let (announced, hard) = (&roll["announced"]["fill"], &roll["announced"]["hard"]);
        assert!(announced.as_u64() < hard.as_u64() && hard.as_u64() == Some(SEGMENT_BYTES), "{roll:#}");
    }

    // By hand: the command that rolls works beside the one that explains, and the primary says who asked.
    cluster.seam(["roll", TOPIC]);
    let by_hand = |roll: &Value| text(&roll["switched_by"]) == "operator" && is_whole(roll);
    told(&cluster, &client, "a roll by hand", |all| all.iter().any(by_hand)).await;

    let human = cluster.seam(["roll", "explain", TOPIC, "--range", "0", "--last", "0"]);
    for part in PLANNED.iter().chain(&["first_commit", "critical path", "no roll was measured yet", "appends waited"]) {
        assert!(human.contains(part), "{part} is missing in\n{human}");
    }
    println!("{human}");

    // The primary dies.
    let primary = head(&client, TOPIC).await.replicas[0];
    cluster.seam(["dev", "kill", &format!("segd-{primary}")]);
    let recovered = |roll: &Value| roll["by_recovery"] == true && phase(roll, "first_commit").is_some();
    told(&cluster, &client, "a recovery", |all| all.iter().any(recovered)).await;
    let all = explain(&cluster, "0");
    let roll = all.iter().find(|roll| recovered(roll)).expect("it was just there");
    check(roll, &RECOVERED);
    assert_eq!(text(&roll["recovery"]["cause"]), "session-broken", "{roll:#}");
    assert!(took(roll, "detect") > 0 && took(roll, "appoint") > 0 && took(roll, "fence") > 0, "{roll:#}");
    let human = cluster.seam(["roll", "explain", TOPIC, "--last", "0"]);
    assert!(human.contains("recovered: its primary's node lost its session"), "{human}");
    println!("{human}");
    load.finish().await;
}

/// Waits until the rolls, as they are explained, are as wished.
async fn told(cluster: &Cluster, client: &Client, what: &str, mut wished: impl FnMut(&[Value]) -> bool) {
    eventually(what, async || {
        // Asked through the SDK first: a command is a process.
        !rolls(client, TOPIC).await.is_empty() && wished(&explain(cluster, "0"))
    })
    .await;
}

fn explain(cluster: &Cluster, last: &str) -> Vec<Value> {
    let told = cluster.json(&["roll", "explain", TOPIC, "--last", last]);
    told.as_array().expect("an array").clone()
}

/// All that is reported after the switch has come.
fn is_whole(roll: &Value) -> bool {
    let named = |name| phase(roll, name).is_some();
    named("first_commit") && named("first_delivery") && took(roll, "record") > 0
}

/// Every phase is there, inside the timeline, and the critical ones follow each other without a gap up to the total.
fn check(roll: &Value, phases: &[&str]) {
    for name in phases {
        let phase = phase(roll, name).unwrap_or_else(|| panic!("no phase {name} in {roll:#}"));
        assert_eq!(number(&phase["end_us"]), number(&phase["start_us"]) + number(&phase["took_us"]), "{roll:#}");
        assert!(!text(&phase["where"]).is_empty(), "{roll:#}");
    }
    let all = roll["phases"].as_array().expect("an array");
    let total = number(&roll["critical_path_us"]);
    let mut at = 0;
    for phase in all.iter().filter(|phase| phase["critical"] == true) {
        assert_eq!(number(&phase["start_us"]), at, "a gap on the critical path: {roll:#}");
        at = number(&phase["end_us"]);
    }
    assert!(total > 0 && at == total, "{at} of {total}: {roll:#}");
}

fn phase<'a>(roll: &'a Value, name: &str) -> Option<&'a Value> {
    roll["phases"].as_array().expect("an array").iter().find(|phase| phase["phase"] == name)
}

fn took(roll: &Value, name: &str) -> u64 {
    phase(roll, name).map_or(0, |phase| number(&phase["took_us"]))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}
