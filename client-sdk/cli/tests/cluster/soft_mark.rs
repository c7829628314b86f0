//! The soft mark adapts: when the rate rises tenfold and metad moves from 20 to 200 ms away, rolls soon begin early enough
//! again.

use crate::harness::{Cluster, eventually, rolls};
use crate::load::{Load, RECORD_BYTES};
use seamlog::{RollRecord, TopicConfig};

const TOPIC: &str = "adapting";
const SLOW_PER_S: u64 = 100;
const FAST_PER_S: u64 = 10 * SLOW_PER_S;
/// What fills in 2.2 s at the high rate: a roll takes about a second with metad 200 ms away, and none can begin before the
/// segment does.
const SEGMENT_BYTES: u64 = 22 * FAST_PER_S * RECORD_BYTES / 10;
/// Rolls after the change before the mark must have found its place.
const TO_ADAPT: usize = 2;
/// Rolls that are judged after them.
const JUDGED: usize = 6;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn soft_mark_adapts() {
    let cluster = Cluster::up(&["--metad-rtt", "20ms"]);
    let client = cluster.client();
    let config = TopicConfig { segment_bytes: SEGMENT_BYTES, ..TopicConfig::default() };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, SLOW_PER_S).await;
    eventually("rolls at the low rate", async || {
        load.check();
        !rolls(&client, TOPIC).await.is_empty()
    })
    .await;

    // In mid-segment: its soft mark was set for the slow load.
    load.progress(SEGMENT_BYTES / RECORD_BYTES / 4).await;
    cluster.seam(["dev", "rtt", "200ms"]);
    load.set_rate(FAST_PER_S);
    let before = rolls(&client, TOPIC).await.len();
    eventually("rolls after the change", async || {
        load.check();
        rolls(&client, TOPIC).await.len() >= before + TO_ADAPT + JUDGED
    })
    .await;
    let all = rolls(&client, TOPIC).await;
    cluster.seam(["dev", "rtt", "0"]);
    load.finish().await;

    let brief: Vec<String> = all.iter().map(brief).collect();
    let told = brief.join("\n");
    println!("{before} rolls before the change\n{told}");
    assert!(all.iter().all(|roll| roll.appends_waited == 0 && !roll.by_recovery), "{told}");
    assert!(all[before + TO_ADAPT..].iter().all(|roll| !roll.not_ready), "{told}");
    // It adapted because it had to: the mark went down as rate and latency went up.
    let (slow, fast) = (&all[before - 1], all.last().expect("many"));
    assert!(fast.rate_bytes_per_s > 4 * slow.rate_bytes_per_s, "{told}");
    assert!(fast.announce_to_ready_us > 2 * slow.announce_to_ready_us, "{told}");
    assert!(fast.soft_mark_bytes < slow.soft_mark_bytes, "{told}");
}

fn brief(roll: &RollRecord) -> String {
    let RollRecord { segment, not_ready, appends_waited, overrun_bytes, soft_mark_bytes, bytes, .. } = roll;
    let (rate, took, slack) = (roll.rate_bytes_per_s, roll.announce_to_ready_us, roll.slack_us);
    format!(
        "segment {segment}: not_ready {not_ready}, waited {appends_waited}, overrun {overrun_bytes}, mark {soft_mark_bytes} \
         of {bytes} at {rate} bytes/s, ready in {took} us, slack {slack} us"
    )
}
