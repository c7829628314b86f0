//! `seam consume --group`: a member of a group that commits what it has printed, never more.

use super::consume::Consume;
use super::record_view::print;
use crate::interrupt::interrupted;
use crate::output::Out;
use anyhow::Result;
use futures::FutureExt;
use seamlog::{Client, CommitError, GroupConsumer, Offset, ReadFrom};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What is printed is committed after so many records, or so long.
const COMMIT_RECORDS: u64 = 1_000;
const COMMIT_EVERY: Duration = Duration::from_millis(500);
/// How often it looks whether it has come to the end.
const GLANCE: Duration = Duration::from_millis(50);

/// Printed and not committed.
struct Uncommitted {
    records: u64,
    since: Instant,
}

/// # Errors
/// No such topic, the cluster cannot be reached, or the group goes on without this member and does not take it back.
pub async fn run(client: &Client, group: &str, asked: &Consume, out: &mut Out) -> Result<()> {
    let from = asked.from.map_or(ReadFrom::Earliest, |place| place.0);
    let mut builder = client.consumer(&asked.topic).group(group).from(from).auto_commit(None);
    if let Some(timeout) = asked.session_timeout {
        builder = builder.session_timeout(timeout);
    }
    let label = format!("seam consume, pid {}", std::process::id());
    let mut consumer = builder.label(label).build().await?;
    let ends = if asked.follow { None } else { Some(ends(client, &asked.topic).await?) };
    let mut interrupted = Box::pin(interrupted()?);
    let mut left = asked.count.unwrap_or(u64::MAX);
    let mut uncommitted = Uncommitted { records: 0, since: Instant::now() };
    while left > 0 {
        let next = match consumer.next().now_or_never() {
            Some(next) => next,
            None => {
                // Nothing at hand: what was printed is out and committed before more is waited for.
                commit(&mut consumer, &mut uncommitted, out).await?;
                if ends.as_ref().is_some_and(|ends| at_end(&consumer, ends)) {
                    break;
                }
                tokio::select! {
                    biased;
                    _ = &mut interrupted => break,
                    next = consumer.next() => next,
                    () = tokio::time::sleep(GLANCE), if ends.is_some() => continue,
                }
            }
        };
        let Some(record) = next else { break };
        match record {
            Ok(record) => print(&record, out)?,
            Err(error) if error.is_passing() => {
                eprintln!("seam: {error}");
                continue;
            }
            Err(error) => return Err(error.into()),
        }
        left -= 1;
        uncommitted.records += 1;
        if uncommitted.records >= COMMIT_RECORDS || uncommitted.since.elapsed() >= COMMIT_EVERY {
            commit(&mut consumer, &mut uncommitted, out).await?;
            if interrupted.as_mut().now_or_never().is_some() {
                break;
            }
        }
    }
    commit(&mut consumer, &mut uncommitted, out).await?;
    consumer.close().await?;
    out.flush()
}

/// A commit that came too late is no failure: others print those records again.
async fn commit(consumer: &mut GroupConsumer, uncommitted: &mut Uncommitted, out: &mut Out) -> Result<()> {
    out.flush()?;
    if uncommitted.records > 0 {
        match consumer.commit().await {
            Ok(()) => {}
            Err(error @ CommitError::Fenced { .. }) => eprintln!("seam: {error}"),
            Err(error @ CommitError::Unknown { .. }) => eprintln!("seam: {error}"),
            Err(error @ CommitError::Over(_)) => return Err(error.into()),
        }
    }
    *uncommitted = Uncommitted { records: 0, since: Instant::now() };
    Ok(())
}

/// The end of each range now.
async fn ends(client: &Client, topic: &str) -> Result<BTreeMap<u32, Offset>> {
    let ranges = client.admin().describe_topic(topic).await?.config.ranges;
    let mut ends = BTreeMap::new();
    for range in 0..ranges {
        ends.insert(range, client.offsets(topic, range).await?.latest);
    }
    Ok(ends)
}

/// Whether the member has all that it is to have, and has read it.
fn at_end(consumer: &GroupConsumer, ends: &BTreeMap<u32, Offset>) -> bool {
    let assignment = consumer.assignment();
    let read = |(range, next): (&u32, &Option<Offset>)| next.is_some_and(|next| next >= ends[range]);
    assignment.joined && assignment.waiting == 0 && assignment.ranges.iter().all(read)
}
