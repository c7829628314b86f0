//! Clients that ask: for the ends of the range, and metad for the chain. While something is broken nobody may answer; that
//! is counted and is no violation.

use crate::clock::Clock;
use crate::target::{Observed, TargetError};
use seam_history::{Chain, Query, Segment};
use seamlog::TopicInfo;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

const QUERY_PERIOD: Duration = Duration::from_millis(100);
const CHAIN_PERIOD: Duration = Duration::from_millis(300);
/// With so many different tellings of the chain the period has doubled.
const CHAINS_TO_DOUBLE: usize = 200;

/// Answers, and how often there was none.
pub struct Asked<A> {
    pub answers: Vec<A>,
    pub unanswered: u64,
}

/// Asks for the ends until `stop`.
pub async fn ends<T: Observed>(
    target: Arc<T>,
    topic: String,
    clock: Clock,
    client: u32,
    stop: watch::Receiver<bool>,
) -> Asked<Query> {
    let mut asked = Asked { answers: Vec::new(), unanswered: 0 };
    while !*stop.borrow() {
        match end_once(&*target, &topic, clock, client).await {
            Ok(query) => asked.answers.push(query),
            Err(_) => asked.unanswered += 1,
        }
        pause(QUERY_PERIOD, stop.clone()).await;
    }
    asked
}

/// Asks once. Errors: nobody answers.
pub async fn end_once<T: Observed>(target: &T, topic: &str, clock: Clock, client: u32) -> Result<Query, TargetError> {
    let invoke_us = clock.now_us();
    let (earliest, latest) = target.ends(topic).await?;
    Ok(Query { client, invoke_us, return_us: clock.now_us(), earliest, latest })
}

/// Asks for the chain until `stop`; keeps what differs from the telling before.
pub async fn chains<T: Observed>(
    target: Arc<T>,
    topic: String,
    clock: Clock,
    stop: watch::Receiver<bool>,
) -> Asked<Chain> {
    let mut asked: Asked<Chain> = Asked { answers: Vec::new(), unanswered: 0 };
    while !*stop.borrow() {
        match chain_once(&*target, &topic, clock).await {
            Ok(chain) if asked.answers.last().is_some_and(|last| last.segments == chain.segments) => {}
            Ok(chain) => asked.answers.push(chain),
            Err(_) => asked.unanswered += 1,
        }
        let slower = 1 + u32::try_from(asked.answers.len() / CHAINS_TO_DOUBLE).unwrap_or(u32::MAX - 1);
        pause(CHAIN_PERIOD.saturating_mul(slower), stop.clone()).await;
    }
    asked
}

/// Asks once. Errors: nobody answers.
pub async fn chain_once<T: Observed>(target: &T, topic: &str, clock: Clock) -> Result<Chain, TargetError> {
    let invoke_us = clock.now_us();
    let described = target.describe(topic).await?;
    Ok(Chain { invoke_us, return_us: clock.now_us(), segments: segments(&described) })
}

/// The chain of a topic's first range, without candidates.
pub fn segments(topic: &TopicInfo) -> Vec<Segment> {
    let all = topic.ranges.iter().take(1).flat_map(|range| &range.segments);
    let chain = all.filter(|segment| matches!(segment.state.as_str(), "open" | "sealed"));
    let told = chain.map(|segment| Segment {
        id: segment.id,
        start: segment.start.unwrap_or(0),
        end: segment.end,
        next: segment.next,
    });
    told.collect()
}

async fn pause(period: Duration, mut stop: watch::Receiver<bool>) {
    // Either way the caller looks at `stop` next.
    let _ = tokio::time::timeout(period, stop.wait_for(|stop| *stop)).await;
}
