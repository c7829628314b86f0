//! A file through the cluster and back over many rolls, read again from the start by another program, and sealed segments
//! read while their primary's node is frozen or dead.

use crate::harness::{Cluster, assert_continuous, chain, eventually, head};
use rand::{Rng, SeedableRng};
use seamlog::SegmentInfo;
use serde_json::Value;
use std::fs;

const TOPIC: &str = "file";
const FILE_BYTES: usize = 50 << 20;
/// As `loadgen replay` cuts it.
const RECORD_BYTES: usize = 4 << 10;
const MIN_ROLLS: u64 = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replay_is_identical() {
    let cluster = Cluster::up(&[]);
    let file = lines();
    let (input, report) = (cluster.scratch().join("input"), cluster.scratch().join("report.json"));
    fs::write(&input, &file).expect("written");
    let (input, report) = (input.to_str().expect("text"), report.to_str().expect("text"));
    let record_bytes = RECORD_BYTES.to_string();
    let rolls = MIN_ROLLS.to_string();
    cluster.loadgen([
        "replay",
        input,
        "--json",
        report,
        "--topic",
        TOPIC,
        "--record-bytes",
        &record_bytes,
        "--min-rolls",
        &rolls,
    ]);
    let report: Value = serde_json::from_str(&fs::read_to_string(report).expect("written")).expect("JSON");
    let replay = &report["replay"];
    assert_eq!(replay["identical"], true, "{replay}");
    assert_eq!(replay["output_bytes"], FILE_BYTES, "{replay}");
    assert_eq!(replay["errors_seen_by_application"], 0, "{replay}");
    assert!(replay["rolls"].as_u64() >= Some(MIN_ROLLS), "{replay}");

    let records: Vec<&[u8]> = file.chunks(RECORD_BYTES).collect();
    let whole = cluster.seam_bytes(["consume", TOPIC, "--from", "earliest"]);
    assert!(whole == as_printed(&records), "seam consume printed something else");

    // Any replica serves a sealed segment: its primary's node hangs, then another's is dead.
    let client = cluster.client();
    eventually("the chain's end", async || chain(&client, TOPIC).await.0.len() > MIN_ROLLS as usize).await;
    let segments = chain(&client, TOPIC).await.0;
    assert_continuous(&segments);
    let busy = head(&client, TOPIC).await.replicas[0];
    let mut elsewhere = segments.iter().filter(|segment| segment.state == "sealed" && segment.replicas[0] != busy);
    let (hangs, back) = (["dev", "pause"], ["dev", "resume"]);
    let first = elsewhere.next().expect("segments move about");
    read_without_primary(&cluster, first, &records, hangs, back);
    let second = elsewhere.find(|segment| segment.replicas[0] != first.replicas[0]).expect("segments move about");
    read_without_primary(&cluster, second, &records, ["dev", "kill"], ["dev", "restart"]);
}

fn read_without_primary(
    cluster: &Cluster,
    segment: &SegmentInfo,
    records: &[&[u8]],
    stop: [&str; 2],
    start: [&str; 2],
) {
    let node = format!("segd-{}", segment.replicas[0]);
    cluster.seam(stop.iter().chain(&[node.as_str()]));
    let (from, end) = (segment.start.expect("sealed"), segment.end.expect("sealed"));
    let (first, count) = (from.to_string(), (end - from).to_string());
    let read = cluster.seam_bytes(["consume", TOPIC, "--from", &first, "--count", &count]);
    assert!(read == as_printed(&records[from as usize..end as usize]), "{segment:?} read without {node}");
    cluster.seam(start.iter().chain(&[node.as_str()]));
}

/// `seam consume` ends each record with a line feed.
fn as_printed(records: &[&[u8]]) -> Vec<u8> {
    records.iter().flat_map(|record| [record, &b"\n"[..]]).flatten().copied().collect()
}

/// Lines of random bytes: no compression makes them smaller. The same in every run.
fn lines() -> Vec<u8> {
    let mut random = rand::rngs::SmallRng::seed_from_u64(50);
    let mut file = vec![0; FILE_BYTES];
    random.fill_bytes(&mut file);
    file.iter_mut().skip(119).step_by(120).for_each(|byte| *byte = b'\n');
    file
}
