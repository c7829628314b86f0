//! A target in one process: a log with rolls, latencies and stalls as a cluster has them, and faults on demand. It fakes the
//! network, the disks and metadata; it has no replicas.

use bytes::Bytes;
use loadgen::target::{
    AppendError, Committed, Consumer, Delivered, Observed, Producer, Roll, Target, TargetError, TopicSpec,
};
use parking_lot::Mutex;
use seamlog::{Certainty, NodeInfo, RangeInfo, SegmentInfo, Status, TopicConfig, TopicInfo};
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// What goes wrong, once, at this offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Lose(u64),
    Duplicate(u64),
    Swap(u64),
    Corrupt(u64),
    Refuse(u64),
}

#[derive(Default)]
struct Topic {
    segment_bytes: u64,
    reactive: bool,
    next_offset: u64,
    fill: u64,
    segment: u64,
    /// The log stands still until then.
    held_until: Option<Instant>,
    last_ack: Option<Instant>,
    /// In delivery order, each with the time it may be delivered.
    log: Vec<(Instant, Delivered)>,
    rolls: Vec<Roll>,
}

struct Shared {
    topics: Mutex<BTreeMap<String, Topic>>,
    appended: Notify,
    rtt_file: Option<PathBuf>,
    fault: Option<Fault>,
}

impl Shared {
    fn rtt(&self) -> Duration {
        let text = self.rtt_file.as_ref().and_then(|p| std::fs::read_to_string(p).ok()).unwrap_or_default();
        Duration::from_millis(text.trim().parse().unwrap_or(0))
    }
}

#[derive(Clone)]
pub struct Synthetic {
    shared: Arc<Shared>,
}

const LATENCY: Duration = Duration::from_micros(400);

impl Synthetic {
    pub fn new(rtt_file: Option<PathBuf>, fault: Option<Fault>) -> Self {
        let shared = Shared { topics: Mutex::default(), appended: Notify::new(), rtt_file, fault };
        Synthetic { shared: Arc::new(shared) }
    }
}

impl Target for Synthetic {
    type Producer = SyntheticProducer;
    type Consumer = SyntheticConsumer;

    async fn create_topic(&self, topic: &str, spec: &TopicSpec) -> Result<(), TargetError> {
        let reactive = spec.anticipation == "off";
        let fresh = Topic { segment_bytes: spec.segment_bytes, reactive, ..Topic::default() };
        match self.shared.topics.lock().insert(topic.to_owned(), fresh) {
            None => Ok(()),
            Some(_) => Err(TargetError(format!("topic {topic} exists"))),
        }
    }

    async fn topic_exists(&self, topic: &str) -> Result<bool, TargetError> {
        Ok(self.shared.topics.lock().contains_key(topic))
    }

    async fn producer(&self, topic: &str) -> Result<SyntheticProducer, TargetError> {
        Ok(SyntheticProducer { shared: Arc::clone(&self.shared), topic: topic.to_owned() })
    }

    async fn consumer(&self, topic: &str, from: u64) -> Result<SyntheticConsumer, TargetError> {
        let (shared, topic) = (Arc::clone(&self.shared), topic.to_owned());
        Ok(SyntheticConsumer { shared, topic, position: from as usize, follows: true })
    }

    async fn end_offset(&self, topic: &str) -> Result<u64, TargetError> {
        Ok(self.shared.topics.lock()[topic].next_offset)
    }

    async fn roll_history(&self, topic: &str) -> Result<Vec<Roll>, TargetError> {
        Ok(self.shared.topics.lock()[topic].rolls.clone())
    }

    async fn metadata_round_trip(&self, _topic: &str) -> Result<Duration, TargetError> {
        Ok(self.shared.rtt() + Duration::from_micros(700))
    }

    async fn data_round_trip(&self, _topic: &str) -> Result<Duration, TargetError> {
        Ok(Duration::from_micros(500))
    }
}

impl Observed for Synthetic {
    async fn hurried(&self, topic: &str, _deadline: Duration) -> Result<SyntheticProducer, TargetError> {
        self.producer(topic).await
    }

    async fn reader(&self, topic: &str, from: u64) -> Result<SyntheticConsumer, TargetError> {
        let consumer = self.consumer(topic, from).await?;
        Ok(SyntheticConsumer { follows: false, ..consumer })
    }

    async fn ends(&self, topic: &str) -> Result<(u64, u64), TargetError> {
        // What was acked: an ack is due after its latency.
        let topics = self.shared.topics.lock();
        let now = Instant::now();
        let acked = topics[topic].log.iter().filter(|(at, _)| *at <= now).map(|(_, record)| record.offset + 1);
        Ok((0, acked.max().unwrap_or(0)))
    }

    async fn describe(&self, topic: &str) -> Result<TopicInfo, TargetError> {
        let topics = self.shared.topics.lock();
        let mut segments = Vec::new();
        let mut start = 0;
        for roll in &topics[topic].rolls {
            segments.push(segment(roll.segment, start, Some((roll.boundary, roll.next))));
            start = roll.boundary;
        }
        segments.push(segment(topics[topic].segment, start, None));
        let ranges = vec![RangeInfo { id: 1, index: 0, start: 0, sealed_bytes: 0, stuck: None, segments }];
        Ok(TopicInfo { id: 1, name: topic.to_owned(), config: TopicConfig::default(), ranges })
    }

    async fn topics(&self) -> Result<Vec<TopicInfo>, TargetError> {
        Ok(Vec::new())
    }

    async fn nodes(&self) -> Result<Vec<NodeInfo>, TargetError> {
        Ok(Vec::new())
    }

    async fn commit_in_group(&self, _: &str, _: &str, _: usize) -> Result<(), TargetError> {
        Ok(())
    }

    async fn committed(&self) -> Result<Committed, TargetError> {
        Ok(Committed::new())
    }

    async fn delete_group(&self, _: &str) -> Result<(), TargetError> {
        Ok(())
    }

    async fn status(&self) -> Result<Status, TargetError> {
        Ok(Status { leader: "metad-1".to_owned(), ..Status::default() })
    }
}

fn segment(id: u64, start: u64, decided: Option<(u64, u64)>) -> SegmentInfo {
    SegmentInfo {
        id,
        state: if decided.is_some() { "sealed" } else { "open" }.to_owned(),
        start: Some(start),
        end: decided.map(|(end, _)| end),
        next: decided.map(|(_, next)| next),
        prior: None,
        replicas: vec![1, 2, 3],
        ack_quorum: 2,
        attempt: 1,
        bytes: 0,
        sealed_at_ms: 0,
        recovery: None,
    }
}

pub struct SyntheticProducer {
    shared: Arc<Shared>,
    topic: String,
}

impl Producer for SyntheticProducer {
    type Ack = Pin<Box<dyn Future<Output = Result<u64, AppendError>> + Send>>;

    fn submit(&self, value: Bytes, _due: Instant) -> Self::Ack {
        let rtt = self.shared.rtt();
        let mut topics = self.shared.topics.lock();
        let topic = topics.get_mut(&self.topic).expect("created before it is opened");
        let offset = topic.next_offset;
        if self.shared.fault == Some(Fault::Refuse(offset)) && topic.fill != u64::MAX {
            // Refused once: the marker is the fill, which the next append resets.
            topic.fill = u64::MAX;
            let refused = AppendError { certainty: Certainty::Definite, detail: "refused".to_owned() };
            return Box::pin(async { Err(refused) });
        }
        if topic.fill == u64::MAX {
            topic.fill = 0;
        }
        let now = Instant::now();
        if topic.fill + value.len() as u64 > topic.segment_bytes {
            roll(topic, now, rtt);
        }
        topic.fill += value.len() as u64;
        topic.next_offset += 1;
        let start = topic.held_until.map_or(now, |held| held.max(now));
        let ack_at = topic.last_ack.map_or(start + LATENCY, |last| last.max(start + LATENCY));
        topic.last_ack = Some(ack_at);
        deliver(topic, self.shared.fault, ack_at, Delivered { offset, value });
        drop(topics);
        let shared = Arc::clone(&self.shared);
        Box::pin(async move {
            tokio::time::sleep_until(ack_at.into()).await;
            shared.appended.notify_waiters();
            Ok(offset)
        })
    }
}

fn roll(topic: &mut Topic, now: Instant, rtt: Duration) {
    let stall = if topic.reactive { Duration::from_millis(4) + 4 * rtt } else { Duration::ZERO };
    let us = |d: Duration| d.as_micros() as u64;
    topic.rolls.push(Roll {
        segment: topic.segment,
        next: topic.segment + 1,
        boundary: topic.next_offset,
        announce_us: us(stall / 4),
        commit_us: us(stall / 4),
        open_us: us(stall / 4),
        ready_us: us(stall / 4),
        switch_us: us(stall),
        announce_to_ready_us: us(stall),
        not_ready: topic.reactive,
        seal_us: 300,
        begin_us: 200,
        gate_us: 250,
        record_us: us(rtt) + 500,
        ..Roll::default()
    });
    topic.segment += 1;
    topic.fill = 0;
    topic.held_until = Some(now + stall);
}

fn deliver(topic: &mut Topic, fault: Option<Fault>, at: Instant, record: Delivered) {
    let offset = record.offset;
    match fault {
        Some(Fault::Lose(f)) if f == offset => return,
        Some(Fault::Duplicate(f)) if f == offset => topic.log.push((at, record.clone())),
        Some(Fault::Corrupt(f)) if f == offset => {
            let mut value = record.value.to_vec();
            let last = value.len() - 1;
            value[last] ^= 1;
            topic.log.push((at, Delivered { offset, value: value.into() }));
            return;
        }
        Some(Fault::Swap(f)) if f + 1 == offset => {
            let before = topic.log.pop().expect("the record before was delivered");
            topic.log.push((at, record));
            topic.log.push((at, before.1));
            return;
        }
        Some(_) | None => {}
    }
    topic.log.push((at, record));
}

pub struct SyntheticConsumer {
    shared: Arc<Shared>,
    topic: String,
    position: usize,
    follows: bool,
}

impl Consumer for SyntheticConsumer {
    async fn next(&mut self) -> Result<Option<Delivered>, TargetError> {
        loop {
            let appended = self.shared.appended.notified();
            let found = self.shared.topics.lock()[&self.topic].log.get(self.position).cloned();
            // A record that the swap may still take back is not shown yet: it waits for its successor.
            let settled = match self.shared.fault {
                Some(Fault::Swap(f)) => found.as_ref().is_none_or(|(_, d)| d.offset != f || self.later(f)),
                Some(_) | None => true,
            };
            match found {
                Some((at, record)) if settled => {
                    tokio::time::sleep_until(at.into()).await;
                    self.position += 1;
                    return Ok(Some(record));
                }
                None if !self.follows => return Ok(None),
                Some(_) | None => {
                    let _ = tokio::time::timeout(Duration::from_millis(1), appended).await;
                }
            }
        }
    }
}

impl SyntheticConsumer {
    fn later(&self, offset: u64) -> bool {
        self.shared.topics.lock()[&self.topic].next_offset > offset + 1
    }
}
