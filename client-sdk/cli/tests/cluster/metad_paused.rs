//! metad is away, as a whole: a topic with a ready successor still rolls once and writes on; when metad is back, nobody is
//! taken for dead, the chain is recorded right, nothing is orphaned.

use crate::harness::{Cluster, Metrics, assert_continuous, chain, eventually, rolls};
use crate::load::{Load, RECORD_BYTES};
use seamlog::{Anticipation, Client, TopicConfig};
use std::time::{Duration, Instant};

const TOPIC: &str = "orphan";
const RATE_PER_S: u64 = 256;
/// Four seconds at this rate. The ceiling is 10 s at the rate above it.
const SEGMENT_RECORDS: u64 = 4 * RATE_PER_S;
/// A node unheard of for so long is suspected; we watch for longer, so that a wrong suspicion shows.
const SUSPECTED_AFTER: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metad_paused() {
    let cluster = Cluster::up(&[]);
    let client = cluster.client();
    let segds: Vec<Metrics> = (1..=5).map(|id| cluster.metrics_of(&format!("segd-{id}"))).collect();
    let switched = || segds.iter().map(|segd| segd.sum("segd_switched", "")).sum::<f64>();
    let config = TopicConfig {
        segment_bytes: SEGMENT_RECORDS * RECORD_BYTES,
        anticipation: Anticipation::AtOpen,
        ..TopicConfig::default()
    };
    client.admin().create_topic(TOPIC, config).await.expect("created");
    let load = Load::start(&client, TOPIC, RATE_PER_S).await;
    load.progress(RATE_PER_S / 4).await;
    // A fresh head leaves time enough to freeze metad before the next roll.
    client.admin().roll_topic(TOPIC, None).await.expect("asked");
    eventually("a successor that stands ready", async || {
        load.check();
        let (chain, candidates) = chain(&client, TOPIC).await;
        let head = chain.last().expect("a head");
        chain.len() == 2 && candidates.iter().any(|it| it.state == "ready" && it.prior == Some(head.id))
    })
    .await;
    cluster.seam(["dev", "pause", "metad"]);
    let before = switched();
    assert_eq!(before, 1.0, "only the roll by hand so far");
    let written = load.acked();

    eventually("the roll without metad", async || {
        load.check();
        switched() > before
    })
    .await;
    // On past the hard cap, below the ceiling: nobody can prepare a successor of the successor.
    load.progress(SEGMENT_RECORDS * 5 / 4).await;
    assert_eq!(switched(), before + 1.0, "once: there was one successor");
    let alone = load.acked() - written;

    cluster.seam(["dev", "resume", "metad"]);
    let back = Instant::now();
    eventually("rolls with metad again", async || {
        load.check();
        all_live(&client).await;
        chain(&client, TOPIC).await.0.len() >= 5 && back.elapsed() > 2 * SUSPECTED_AFTER
    })
    .await;
    let total = load.finish().await;
    assert!(total > alone, "{total} records, {alone} of them without metad");

    eventually("every candidate accounted for", async || {
        let status = client.admin().status().await.expect("metad answers");
        let (_, candidates) = chain(&client, TOPIC).await;
        let standing = candidates.iter().filter(|it| it.state == "ready" || it.state == "planned").count() as u64;
        let known = status.candidates_used + status.candidates_reclaimed + status.candidates_open;
        status.candidates_made == known && candidates.len() as u64 == standing && status.candidates_open == standing
    })
    .await;
    let recorded = chain(&client, TOPIC).await.0;
    assert_continuous(&recorded);
    let rolls = rolls(&client, TOPIC).await;
    assert!(rolls.iter().all(|roll| !roll.by_recovery && roll.appends_waited == 0), "{rolls:?}");
    for (roll, segment) in rolls.iter().zip(&recorded) {
        assert_eq!((roll.segment, Some(roll.start), Some(roll.end)), (segment.id, segment.start, segment.end));
    }
    assert_eq!(rolls.len() + 1, recorded.len());
}

async fn all_live(client: &Client) {
    // It may be electing.
    if let Ok(nodes) = client.admin().list_nodes().await {
        assert!(nodes.len() == 5 && nodes.iter().all(|node| node.state == "live"), "{nodes:?}");
    }
}
