//! A tail that writes down all it was delivered. Opened again, it asks for the offset after the last: on an error, and, if it
//! is restless, of its own accord.

use crate::clock::Clock;
use crate::record;
use crate::target::{Consumer, Delivered, Target};
use crate::verify::Errors;
use crate::verify::live::Live;
use seam_history::{Delivery, FOREIGN, Reading, Tail};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

/// Between attempts to open it.
const PAUSE: Duration = Duration::from_millis(100);

/// How one tail behaves.
#[derive(Clone, Debug)]
pub struct Plan {
    pub client: u32,
    /// Its place in [`Live::tails`].
    pub index: usize,
    /// Leaves and comes back after so long.
    pub restless: Option<Duration>,
}

/// What came of it.
pub struct Followed {
    pub tail: Tail,
    pub errors: Errors,
    /// Openings that failed, as they must while no router is there; each was tried again.
    pub unopened: u64,
}

/// Where a tail may end: once it has everything below an end, or when its time is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Goal {
    pub end: u64,
    pub by: Instant,
}

/// Follows from offset 0 until `goal` is there and met.
pub async fn run<T: Target>(
    target: Arc<T>,
    topic: String,
    clock: Clock,
    plan: Plan,
    live: Arc<Live>,
    mut goal: watch::Receiver<Option<Goal>>,
) -> Followed {
    let tail = Tail { client: plan.client, readings: Vec::new() };
    let mut followed = Followed { tail, errors: Errors::default(), unopened: 0 };
    let mut next = 0;
    loop {
        let set = *goal.borrow();
        if set.is_some_and(|goal| next >= goal.end || Instant::now() >= goal.by) {
            return followed;
        }
        let opened_us = clock.now_us();
        match target.consumer(&topic, next).await {
            Ok(consumer) => {
                let mut reading = Reading { from: next, opened_us, deliveries: Vec::new() };
                let why = read(consumer, &mut reading, &mut next, clock, &plan, &live, &mut goal).await;
                followed.tail.readings.push(reading);
                if let Some(why) = why {
                    followed.errors.add(format!("tail {}: {why}", plan.client));
                    tokio::time::sleep(PAUSE).await;
                }
            }
            Err(error) => {
                tracing::info!("tail {} could not be opened at {next}: {error}", plan.client);
                followed.unopened += 1;
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Reads until the goal is met, the tail is restless, or something is wrong, which is told.
async fn read<C: Consumer>(
    mut consumer: C,
    reading: &mut Reading,
    next: &mut u64,
    clock: Clock,
    plan: &Plan,
    live: &Live,
    goal: &mut watch::Receiver<Option<Goal>>,
) -> Option<String> {
    let leave_at = plan.restless.map(|after| Instant::now() + after);
    loop {
        let set = *goal.borrow_and_update();
        if set.is_some_and(|goal| *next >= goal.end) {
            return None;
        }
        let until = set.map(|goal| goal.by).into_iter().chain(leave_at.filter(|_| set.is_none())).min();
        tokio::select! {
            biased;
            delivered = consumer.next() => match delivered {
                Ok(Some(delivered)) => {
                    let delivery = decode(&delivered, clock.now_us());
                    reading.deliveries.push(delivery);
                    *next = (delivery.offset + 1).max(*next);
                    live.deliver(plan.index, delivery.offset);
                }
                Ok(None) => return Some("it ended while it was followed".to_owned()),
                Err(error) => return Some(error.to_string()),
            },
            changed = goal.changed() => if changed.is_err() { return None },
            () = sleep_until(until) => return None,
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What a record says of itself; one whose content is not ours is nobody's.
pub fn decode(delivered: &Delivered, at_us: u64) -> Delivery {
    let offset = delivered.offset;
    match record::decode(&delivered.value) {
        Ok(record::RecordHeader { producer, seq, due_us: _, hash }) => {
            Delivery { offset, at_us, sequence: seq, client: producer, hash }
        }
        Err(_) => Delivery { offset, at_us, sequence: 0, client: FOREIGN, hash: crc32c::crc32c(&delivered.value) },
    }
}
