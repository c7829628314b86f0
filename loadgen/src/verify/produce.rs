//! A producer that writes down every record it sent and what it was told of it. Open loop: it sends when a record is due, up
//! to a bound on what may be without an outcome.

use crate::clock::Clock;
use crate::record::RecordMaker;
use crate::target::{AppendError, Producer};
use crate::verify::Errors;
use crate::verify::live::Live;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use seam_history::{Append, Outcome, Session};
use seamlog::Certainty;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

/// How often it looks at what is due.
const STEP: Duration = Duration::from_millis(2);
/// Appends without an outcome, at most: beyond, it sends less instead.
const OPEN_MAX: usize = 20_000;
/// An append without an outcome so long after its deadline never has one.
const BEYOND_DEADLINE: Duration = Duration::from_secs(15);

/// How one producer behaves.
#[derive(Clone, Debug)]
pub struct Plan {
    pub client: u32,
    pub rate_per_s: f64,
    pub deadline: Duration,
    /// A record without an ack is an error. Not so for those with a short deadline: under faults doubt is what they are for.
    pub patient: bool,
}

/// What came of it.
pub struct Produced {
    pub session: Session,
    pub errors: Errors,
}

struct Book<'a> {
    plan: &'a Plan,
    live: &'a Live,
    appends: Vec<Append>,
    errors: Errors,
}

impl Book<'_> {
    fn settle(&mut self, (at, return_us, result): (usize, u64, Result<u64, AppendError>)) {
        let append = &mut self.appends[at];
        append.return_us = return_us;
        append.outcome = match &result {
            Ok(offset) => Outcome::Acked { offset: *offset },
            Err(AppendError { certainty: Certainty::Definite, .. }) => Outcome::Failed,
            Err(AppendError { certainty: Certainty::Indeterminate, .. }) => Outcome::Indeterminate,
        };
        match result {
            Ok(offset) => self.live.ack(offset, append.invoke_us),
            Err(error) => {
                if error.certainty == Certainty::Indeterminate {
                    self.live.indeterminate.fetch_add(1, Ordering::Relaxed);
                }
                if self.plan.patient {
                    self.errors.add(format!("append {at} of producer {}: {error}", self.plan.client));
                }
            }
        }
    }
}

/// Sends until `stop` says so, then waits until everything has its outcome.
pub async fn run<P: Producer>(
    clock: Clock,
    producer: P,
    plan: Plan,
    maker: Arc<RecordMaker>,
    live: Arc<Live>,
    stop: watch::Receiver<bool>,
) -> Produced {
    let mut book = Book { plan: &plan, live: &live, appends: Vec::new(), errors: Errors::default() };
    let mut open = FuturesUnordered::new();
    let mut step = tokio::time::interval(STEP);
    step.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut due, mut last_us) = (0.0, clock.now_us());
    let give_up = tokio::time::sleep(Duration::MAX);
    let mut give_up = std::pin::pin!(give_up);
    let mut stopping = false;
    while !stopping || !open.is_empty() {
        tokio::select! {
            biased;
            Some(done) = open.next() => book.settle(done),
            _ = step.tick(), if !stopping => {
                let now_us = clock.now_us();
                due += plan.rate_per_s * (now_us - last_us) as f64 / 1e6;
                last_us = now_us;
                while due >= 1.0 && open.len() < OPEN_MAX {
                    due -= 1.0;
                    let at = book.appends.len();
                    let invoke_us = clock.now_us();
                    let (value, hash) = maker.make(plan.client, at as u64, invoke_us);
                    let (sequence, outcome) = (at as u64, Outcome::Open);
                    book.appends.push(Append { sequence, invoke_us, return_us: invoke_us, hash, outcome });
                    let ack = producer.submit(value, clock.at(invoke_us));
                    open.push(async move {
                        let result = ack.await;
                        (at, clock.now_us(), result)
                    });
                }
                // What was not sent in time is not sent in a burst later.
                due = due.min(1.0);
                if *stop.borrow() {
                    stopping = true;
                    give_up.as_mut().reset(tokio::time::Instant::now() + plan.deadline + BEYOND_DEADLINE);
                }
            }
            () = &mut give_up, if stopping => {
                book.errors.add(format!("{} appends of producer {} never had an outcome", open.len(), plan.client));
                break;
            }
        }
    }
    let deadline_us = u64::try_from(plan.deadline.as_micros()).ok();
    let Book { appends, errors, .. } = book;
    Produced { session: Session { client: plan.client, deadline_us, appends }, errors }
}
