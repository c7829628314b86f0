//! Reads a range from its start to its end, once all is written. An error is told and reading goes on after the last record,
//! within a bound.

use crate::clock::Clock;
use crate::target::{Consumer, Observed};
use crate::verify::Errors;
use crate::verify::follow::decode;
use seam_history::Reading;
use std::time::{Duration, Instant};

const PAUSE: Duration = Duration::from_millis(200);

/// Everything from `from` to the end found at its opening, at least up to `end`, which was acked. Stops without it when
/// nothing has come for `patience`.
pub async fn run<T: Observed>(
    target: &T,
    topic: &str,
    clock: Clock,
    (from, end): (u64, u64),
    patience: Duration,
    errors: &mut Errors,
) -> Reading {
    let mut reading = Reading { from, opened_us: clock.now_us(), deliveries: Vec::new() };
    let mut last = Instant::now();
    while last.elapsed() < patience {
        let reached = reading.deliveries.last().map_or(from, |delivery| delivery.offset + 1);
        let mut consumer = match target.reader(topic, reached).await {
            Ok(consumer) => consumer,
            Err(error) => {
                errors.add(format!("the final read could not be opened at {reached}: {error}"));
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        loop {
            match tokio::time::timeout(patience, consumer.next()).await {
                Ok(Ok(Some(delivered))) => {
                    reading.deliveries.push(decode(&delivered, clock.now_us()));
                    last = Instant::now();
                }
                Ok(Ok(None)) if reading.deliveries.last().map_or(from, |delivery| delivery.offset + 1) >= end => {
                    return reading;
                }
                // A router that answers with an older end; the next one knows more, or the records are lost.
                Ok(Ok(None)) => break,
                Ok(Err(error)) => {
                    errors.add(format!("the final read: {error}"));
                    break;
                }
                Err(_) => {
                    errors.add(format!("the final read: nothing for {patience:?}"));
                    break;
                }
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    reading
}
