//! Taking segd nodes out of use before they stop: metad places nothing new on them, and every write head and open replica
//! moves away by rolls. What is sealed stays on them; a node goes only if every segment keeps a copy elsewhere.

use super::cluster::{Cluster, Role};
use super::layout::Layout;
use super::probe::Probe;
use super::ready::Progress;
use anyhow::{Result, bail};
use seamlog::{SegmentInfo, TopicInfo};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long the write heads may take to move away.
const PATIENCE: Duration = Duration::from_secs(90);
const POLL: Duration = Duration::from_millis(250);
/// A range is asked to roll at most this often.
const ROLL_EVERY: Duration = Duration::from_secs(3);
/// Topics or segments that a refusal names.
const LISTED: usize = 10;

/// Refuses if a segment would lose its last copy, or a topic the nodes that its replicas need.
///
/// # Errors
/// Names the topic and the remedy.
pub fn refuse_if_needed(topics: &[TopicInfo], leaving: &[u32], nodes: usize) -> Result<()> {
    let staying = nodes - leaving.len();
    let wanting: Vec<&TopicInfo> = topics.iter().filter(|topic| staying < usize::from(topic.config.replicas)).collect();
    if let Some(most) = wanting.iter().map(|topic| topic.config.replicas).max() {
        let wants = |topic: &&TopicInfo| format!("{} wants {} replicas", topic.name, topic.config.replicas);
        bail!(
            "{staying} segd nodes would be left, but {}: keep at least {most}",
            listed(&wanting.iter().map(wants).collect::<Vec<_>>())
        );
    }
    let orphans: Vec<String> = topics
        .iter()
        .flat_map(|topic| segments(topic).map(move |(_, segment)| (topic, segment)))
        .filter(|(_, segment)| holds_data(segment) && segment.replicas.iter().all(|id| leaving.contains(id)))
        .map(|(topic, segment)| format!("segment {} of topic {}", segment.id, topic.name))
        .collect();
    if !orphans.is_empty() {
        bail!("only on nodes that would go: {}: remove fewer at a time, or delete the topics", listed(&orphans));
    }
    Ok(())
}

/// All of them while they are few.
fn listed(all: &[String]) -> String {
    let shown = all.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
    if all.len() > LISTED { format!("{shown} and {} more", all.len() - LISTED) } else { shown }
}

/// How many segments keep fewer copies than they were made with once the nodes are gone.
#[must_use]
pub fn thinned(topics: &[TopicInfo], leaving: &[u32]) -> usize {
    let thins = |segment: &SegmentInfo| segment.replicas.iter().any(|replica| leaving.contains(replica));
    topics.iter().flat_map(segments).filter(|(_, segment)| holds_data(segment) && thins(segment)).count()
}

/// Drains the nodes with these ids and waits until no segment that can still be written is on them.
///
/// # Errors
/// A write head does not move in time; the nodes are then in use again.
pub async fn run(probe: &Probe, leaving: &[u32], progress: &Progress) -> Result<()> {
    for id in leaving {
        probe.admin().drain_node(*id, true).await?;
    }
    match await_moved(probe, leaving, progress).await {
        Ok(()) => Ok(()),
        Err(error) => {
            for id in leaving {
                probe.admin().drain_node(*id, false).await?;
            }
            Err(error.context("the nodes stay and are in use again"))
        }
    }
}

async fn await_moved(probe: &Probe, leaving: &[u32], progress: &Progress) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let mut rolled: BTreeMap<(String, u32), Instant> = BTreeMap::new();
    loop {
        let topics = probe.admin().list_topics().await?;
        let busy: Vec<(&TopicInfo, u32, &SegmentInfo)> = topics
            .iter()
            .flat_map(|topic| segments(topic).map(move |(range, segment)| (topic, range, segment)))
            .filter(|(_, _, segment)| is_unsealed(segment) && segment.replicas.iter().any(|id| leaving.contains(id)))
            .collect();
        if busy.is_empty() {
            progress.done();
            return Ok(());
        }
        progress.say(&format!("draining: {} segments to move away", busy.len()));
        if Instant::now() >= deadline {
            progress.done();
            let (topic, range, segment) = busy[0];
            bail!("segment {} of topic {} (range {range}) did not move away in {PATIENCE:?}", segment.id, topic.name);
        }
        for (topic, range, segment) in busy {
            let key = (topic.name.clone(), range);
            let due = rolled.get(&key).is_none_or(|at| at.elapsed() >= ROLL_EVERY);
            if segment.state == "open" && due {
                probe.admin().roll_topic(&topic.name, Some(range)).await?;
                rolled.insert(key, Instant::now());
            }
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Nodes that were drained in an earlier life of theirs are used again.
///
/// # Errors
/// metad does not answer.
pub async fn end(layout: &Layout, cluster: &Cluster, names: &[String]) -> Result<()> {
    let probe = Probe::new(layout, cluster)?;
    let added = cluster.of(Role::Segd).filter(|node| names.contains(&node.name()));
    let known = probe.admin().list_nodes().await?;
    for node in added.filter(|node| known.iter().any(|info| info.id == node.id)) {
        probe.admin().drain_node(node.id, false).await?;
    }
    Ok(())
}

fn segments(topic: &TopicInfo) -> impl Iterator<Item = (u32, &SegmentInfo)> {
    topic.ranges.iter().flat_map(|range| range.segments.iter().map(move |segment| (range.index, segment)))
}

fn is_unsealed(segment: &SegmentInfo) -> bool {
    matches!(segment.state.as_str(), "planned" | "ready" | "open")
}

fn holds_data(segment: &SegmentInfo) -> bool {
    matches!(segment.state.as_str(), "open" | "sealed") && segment.start != segment.end
}

#[cfg(test)]
mod tests {
    use super::*;
    use seamlog::{RangeInfo, TopicConfig};

    fn topic(segments: Vec<SegmentInfo>) -> TopicInfo {
        let ranges = vec![RangeInfo { id: 1, index: 0, start: 0, sealed_bytes: 0, stuck: None, segments }];
        TopicInfo { id: 1, name: "events".into(), config: TopicConfig::default(), ranges }
    }

    fn segment(id: u64, state: &str, replicas: [u32; 3]) -> SegmentInfo {
        SegmentInfo {
            id,
            state: state.into(),
            start: Some(0),
            end: (state == "sealed").then_some(9),
            next: None,
            prior: None,
            replicas: replicas.into(),
            ack_quorum: 2,
            attempt: 1,
            recovery: None,
            bytes: 0,
            sealed_at_ms: 0,
        }
    }

    #[test]
    fn the_last_copy_of_a_segment_does_not_go() {
        let topics = [topic(vec![segment(1, "sealed", [5, 6, 7]), segment(2, "open", [1, 2, 7])])];
        refuse_if_needed(&topics, &[7, 6], 7).expect("segd-5 keeps a copy");
        let error = refuse_if_needed(&topics, &[7, 6, 5], 7).expect_err("refused").to_string();
        assert!(error.contains("segment 1 of topic events"), "{error}");
        assert_eq!((thinned(&topics, &[7]), thinned(&topics, &[6]), thinned(&topics, &[4])), (2, 1, 0));
        let reclaimed = [topic(vec![segment(1, "reclaimed", [5, 6, 7])])];
        refuse_if_needed(&reclaimed, &[7, 6, 5], 7).expect("nothing is on it");
    }

    #[test]
    fn a_topic_keeps_as_many_nodes_as_it_wants_replicas() {
        let error = refuse_if_needed(&[topic(Vec::new())], &[5, 4, 3], 5).expect_err("refused").to_string();
        assert!(error.contains("2 segd nodes") && error.contains("events wants 3 replicas"), "{error}");
        // Every topic that needs them is named, and what would do for all.
        let mut wide = topic(Vec::new());
        (wide.name, wide.config.replicas) = ("wide".into(), 5);
        let error = refuse_if_needed(&[topic(Vec::new()), wide], &[5, 4, 3], 5).expect_err("refused").to_string();
        for named in ["events wants 3", "wide wants 5", "keep at least 5"] {
            assert!(error.contains(named), "{error}");
        }
    }
}
