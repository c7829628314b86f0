//! A Seamlog cluster as a target, over the SDK and nothing below it: what is measured is what an application gets.

use crate::target::{
    AppendError, Committed, Consumer, Delivered, Observed, Producer, Recovering, Roll, Target, TargetError, TopicSpec,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::Map;
use parking_lot::Mutex;
use seamlog::{
    Ack, AckMode, AlterTopic, Anticipation, Certainty, ErrorCode, NodeInfo, Placement, ReadFrom, RollRecord, SendError,
    SendHandle, Status, TopicInfo,
};
use std::fmt::Display;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a member of a group waits for a record of a topic that is loaded.
const GROUP_PATIENCE: Duration = Duration::from_secs(30);

/// How producers are set up.
#[derive(Clone, Copy, Debug)]
pub struct ProducerSettings {
    pub linger: Duration,
    pub max_in_flight: usize,
    pub deadline: Duration,
}

/// A cluster, reached through a client.
#[derive(Clone, Debug)]
pub struct Seam {
    client: seamlog::Client,
    producer: ProducerSettings,
    /// Topics created through this and its clones.
    made: Arc<Mutex<Vec<String>>>,
}

impl Seam {
    pub fn new(client: seamlog::Client, producer: ProducerSettings) -> Self {
        Seam { client, producer, made: Arc::default() }
    }

    /// The topics created so far and not deleted, in order.
    pub fn made(&self) -> Vec<String> {
        self.made.lock().clone()
    }

    /// Deletes the topics created so far. All are tried; the first failure is told.
    pub async fn delete_made(&self) -> Result<(), TargetError> {
        let topics = std::mem::take(&mut *self.made.lock());
        let mut outcome = Ok(());
        for topic in topics {
            match self.client.admin().delete_topic(&topic).await {
                Ok(()) => {}
                Err(error) if error.code() == Some(ErrorCode::UnknownTopic) => {}
                Err(error) => {
                    outcome = outcome.and(Err(told(error)));
                    self.made.lock().push(topic);
                }
            }
        }
        outcome
    }
}

fn told(error: impl Display) -> TargetError {
    TargetError(error.to_string())
}

fn topic_config(spec: &TopicSpec) -> Result<seamlog::TopicConfig, TargetError> {
    let ack = match spec.ack.as_str() {
        "durable" => AckMode::Durable,
        "replicated" => AckMode::Replicated,
        other => return Err(TargetError(format!("ack {other:?} is not durable or replicated"))),
    };
    let anticipation = match spec.anticipation.as_str() {
        "soft" => Anticipation::Soft,
        "at-open" => Anticipation::AtOpen,
        "off" => Anticipation::Off,
        other => return Err(TargetError(format!("anticipation {other:?} is not soft, at-open or off"))),
    };
    let placement = match spec.placement.as_str() {
        "balanced" => Placement::Balanced,
        "round-robin" => Placement::RoundRobin,
        "sticky" => Placement::Sticky,
        other => return Err(TargetError(format!("placement {other:?} is not balanced, round-robin or sticky"))),
    };
    Ok(seamlog::TopicConfig {
        ranges: 1,
        replicas: spec.replicas,
        ack_quorum: spec.ack_quorum,
        ack,
        placement,
        anticipation,
        segment_bytes: spec.segment_bytes,
        ..seamlog::TopicConfig::default()
    })
}

fn roll(record: RollRecord) -> Roll {
    Roll {
        segment: record.segment,
        next: record.next,
        boundary: record.end,
        by_recovery: record.by_recovery,
        not_ready: record.not_ready,
        appends_waited: record.appends_waited,
        overrun_bytes: record.overrun_bytes,
        announce_us: record.announce_us,
        commit_us: record.commit_us,
        open_us: record.open_us,
        ready_us: record.ready_us,
        slack_us: record.slack_us,
        switch_us: record.switch_us,
        seal_us: record.seal_us,
        begin_us: record.begin_us,
        gate_us: record.gate_us,
        record_us: record.record_us,
        announce_to_ready_us: record.announce_to_ready_us,
        recovery: record.recovery.map(|recovery| Recovering {
            detection_us: recovery.detect_us,
            appointment_us: recovery.wait_us + recovery.appoint_us,
            fence_us: recovery.fence_us,
            copy_us: recovery.safe_us.saturating_sub(recovery.fence_us),
            decision_us: recovery.work_us.saturating_sub(recovery.safe_us),
            first_commit_us: record.first_commit_us,
        }),
    }
}

impl Target for Seam {
    type Producer = SeamProducer;
    type Consumer = SeamConsumer;

    async fn create_topic(&self, topic: &str, spec: &TopicSpec) -> Result<(), TargetError> {
        let config = topic_config(spec)?;
        let created = self.client.admin().create_topic(topic, config).await;
        // One that may have been created is ours to take away too.
        if created.as_ref().err().is_none_or(|error| error.certainty() == Certainty::Indeterminate) {
            self.made.lock().push(topic.to_owned());
        }
        created.map(|_| ()).map_err(told)
    }

    async fn topic_exists(&self, topic: &str) -> Result<bool, TargetError> {
        match self.client.admin().describe_topic(topic).await {
            Ok(_) => Ok(true),
            Err(error) if error.code() == Some(ErrorCode::UnknownTopic) => Ok(false),
            Err(error) => Err(told(error)),
        }
    }

    async fn producer(&self, topic: &str) -> Result<SeamProducer, TargetError> {
        let ProducerSettings { linger, max_in_flight, deadline } = self.producer;
        let builder = self.client.producer(topic).linger(linger).max_in_flight(max_in_flight).deadline(deadline);
        builder.build().await.map(|producer| SeamProducer { producer }).map_err(told)
    }

    async fn consumer(&self, topic: &str, from: u64) -> Result<SeamConsumer, TargetError> {
        let builder = self.client.consumer(topic).range(0).from(ReadFrom::Offset(seamlog::Offset(from)));
        builder.build().await.map(|consumer| SeamConsumer { consumer }).map_err(told)
    }

    async fn end_offset(&self, topic: &str) -> Result<u64, TargetError> {
        self.client.offsets(topic, 0).await.map(|offsets| offsets.latest.0).map_err(told)
    }

    async fn roll_history(&self, topic: &str) -> Result<Vec<Roll>, TargetError> {
        let rolls = self.client.admin().roll_history(topic, 0).await.map_err(told)?;
        Ok(rolls.into_iter().map(roll).collect())
    }

    async fn metadata_round_trip(&self, topic: &str) -> Result<Duration, TargetError> {
        // Changes nothing: no topic of the load generator rolls by age. It commits all the same.
        let change = AlterTopic { max_age_ms: Some(0), ..AlterTopic::default() };
        let start = Instant::now();
        self.client.admin().alter_topic(topic, change).await.map_err(told)?;
        Ok(start.elapsed())
    }

    async fn data_round_trip(&self, topic: &str) -> Result<Duration, TargetError> {
        let start = Instant::now();
        self.client.offsets(topic, 0).await.map_err(told)?;
        Ok(start.elapsed())
    }
}

impl Observed for Seam {
    async fn hurried(&self, topic: &str, deadline: Duration) -> Result<SeamProducer, TargetError> {
        let settings = ProducerSettings { deadline, ..self.producer };
        Seam { producer: settings, ..self.clone() }.producer(topic).await
    }

    async fn reader(&self, topic: &str, from: u64) -> Result<SeamConsumer, TargetError> {
        let builder = self.client.consumer(topic).range(0).from(ReadFrom::Offset(seamlog::Offset(from)));
        builder.follow(false).build().await.map(|consumer| SeamConsumer { consumer }).map_err(told)
    }

    async fn ends(&self, topic: &str) -> Result<(u64, u64), TargetError> {
        self.client.offsets(topic, 0).await.map(|ends| (ends.earliest.0, ends.latest.0)).map_err(told)
    }

    async fn describe(&self, topic: &str) -> Result<TopicInfo, TargetError> {
        self.client.admin().describe_topic(topic).await.map_err(told)
    }

    async fn topics(&self) -> Result<Vec<TopicInfo>, TargetError> {
        self.client.admin().list_topics().await.map_err(told)
    }

    async fn nodes(&self) -> Result<Vec<NodeInfo>, TargetError> {
        self.client.admin().list_nodes().await.map_err(told)
    }

    async fn commit_in_group(&self, group: &str, topic: &str, records: usize) -> Result<(), TargetError> {
        let mut member = self.client.consumer(topic).group(group).build().await.map_err(told)?;
        for _ in 0..records {
            let record = tokio::time::timeout(GROUP_PATIENCE, member.next()).await;
            record.map_err(told)?.ok_or_else(|| told("the group's consumer ended"))?.map_err(told)?;
        }
        member.close().await.map_err(told)
    }

    async fn committed(&self) -> Result<Committed, TargetError> {
        let (groups, mut committed) = (self.client.groups(), Committed::new());
        for group in groups.list().await.map_err(told)? {
            let described = groups.describe(&group).await.map_err(told)?;
            for topic in described.topics {
                let places = topic.ranges.into_iter().filter_map(|range| Some((range.range, range.committed?)));
                committed.extend(places.map(|(range, at)| ((group.clone(), topic.topic.clone(), range), at)));
            }
        }
        Ok(committed)
    }

    async fn delete_group(&self, group: &str) -> Result<(), TargetError> {
        self.client.groups().delete(group, true).await.map_err(told)
    }

    async fn status(&self) -> Result<Status, TargetError> {
        self.client.admin().status().await.map_err(told)
    }
}

/// A producer of the SDK.
#[derive(Debug)]
pub struct SeamProducer {
    producer: seamlog::Producer,
}

fn outcome(result: Result<Ack, SendError>) -> Result<u64, AppendError> {
    result
        .map(|ack| ack.offset.0)
        .map_err(|error| AppendError { certainty: error.certainty, detail: error.to_string() })
}

impl Producer for SeamProducer {
    type Ack = Map<SendHandle, fn(Result<Ack, SendError>) -> Result<u64, AppendError>>;

    fn submit(&self, value: Bytes, _due: Instant) -> Self::Ack {
        self.producer.submit(seamlog::Record::new(value)).map(outcome)
    }
}

/// A consumer of the SDK.
#[derive(Debug)]
pub struct SeamConsumer {
    consumer: seamlog::Consumer,
}

impl Consumer for SeamConsumer {
    async fn next(&mut self) -> Result<Option<Delivered>, TargetError> {
        match self.consumer.next().await {
            None => Ok(None),
            Some(Ok(record)) => {
                Ok(Some(Delivered { offset: record.offset.0, value: record.value.unwrap_or_default() }))
            }
            Some(Err(error)) => Err(told(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> TopicSpec {
        TopicSpec {
            replicas: 3,
            ack_quorum: 2,
            ack: "durable".to_owned(),
            anticipation: "off".to_owned(),
            placement: "sticky".to_owned(),
            segment_bytes: 460_800,
        }
    }

    #[test]
    fn a_spec_becomes_a_topic() {
        let config = topic_config(&spec()).expect("a good spec");
        assert_eq!(config.anticipation, Anticipation::Off);
        assert_eq!(config.placement, Placement::Sticky);
        assert_eq!((config.ranges, config.segment_bytes, config.max_age_ms), (1, 460_800, 0));
        assert!(config.validate().is_ok());
    }

    #[test]
    fn unknown_words_are_refused_with_what_would_do() {
        let bad = TopicSpec { anticipation: "sometimes".to_owned(), ..spec() };
        assert!(topic_config(&bad).expect_err("no such mode").to_string().contains("soft, at-open or off"));
    }
}
