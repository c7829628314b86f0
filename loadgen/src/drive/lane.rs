//! A lane: one topic with its producers and consumers, open for the whole run, loaded a block at a time.

use crate::clock::Clock;
use crate::drive::acks::{self, Acks, ERRORS_KEPT};
use crate::drive::closed;
use crate::drive::generator::{self, Sender, Work};
use crate::drive::priority::Priority;
use crate::drive::tails::Tail;
use crate::measure::analyse::Block;
use crate::measure::lateness::Lateness;
use crate::measure::sample::Sample;
use crate::measure::schedule::{Arrivals, Schedule};
use crate::measure::verify::{self, Seen, Verdict};
use crate::measure::window::Window;
use crate::record::RecordMaker;
use crate::target::{Producer, Target, TargetError};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// An append, or a delivery of something already acked, that takes longer than this is given up and counted as an error.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between the start of a block and its first record, so that the generator's thread is up and has its priority.
const LEAD_US: u64 = 50_000;

/// The load of one block.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    pub rate_per_s: u64,
    pub arrivals: Arrivals,
    pub duration_us: u64,
    /// The first part of the block that is not measured.
    pub settle_us: u64,
}

/// What one consumer saw of the lane so far.
#[derive(Default)]
struct Read {
    seen: Vec<Seen>,
    corrupt_offsets: Vec<u64>,
}

/// One topic under load.
pub struct Lane<P: Producer> {
    clock: Clock,
    senders: Vec<Sender<P>>,
    tails: Vec<Tail>,
    maker: Arc<RecordMaker>,
    acked: Vec<Seen>,
    read: Vec<Read>,
    pub errors: Vec<String>,
    pub error_count: u64,
    pub lateness: Lateness,
    pub priority: Priority,
}

/// How a lane is opened.
#[derive(Clone, Copy, Debug)]
pub struct LaneSettings {
    pub producers: u32,
    pub consumers: u32,
    pub record_bytes: usize,
}

impl<P: Producer> Lane<P> {
    /// Opens producers and consumers on a fresh topic.
    pub async fn open<T>(target: &T, topic: &str, clock: Clock, settings: LaneSettings) -> Result<Self, TargetError>
    where
        T: Target<Producer = P>,
    {
        let mut senders = Vec::new();
        for _ in 0..settings.producers.max(1) {
            senders.push(Sender { producer: Arc::new(target.producer(topic).await?), next_seq: 0 });
        }
        let mut tails = Vec::new();
        for _ in 0..settings.consumers.max(1) {
            tails.push(Tail::start(clock, target.consumer(topic, 0).await?, 0));
        }
        let read = tails.iter().map(|_| Read::default()).collect();
        Ok(Lane {
            clock,
            senders,
            tails,
            maker: Arc::new(RecordMaker::new(settings.record_bytes)),
            acked: Vec::new(),
            read,
            errors: Vec::new(),
            error_count: 0,
            lateness: Lateness::default(),
            priority: Priority::default(),
        })
    }

    /// Loads the lane for one block, then waits until every append is answered and everything acked is delivered.
    pub async fn block(&mut self, load: Load) -> Block {
        let start_us = self.clock.now_us() + LEAD_US;
        let end_us = start_us + load.duration_us;
        let (tx, rx) = mpsc::unbounded_channel();
        let work = Work {
            clock: self.clock,
            schedule: Schedule::new(load.arrivals, load.rate_per_s, start_us, end_us),
            maker: Arc::clone(&self.maker),
            senders: std::mem::take(&mut self.senders),
            pending: tx,
        };
        let runtime = tokio::runtime::Handle::current();
        let thread = std::thread::Builder::new().name("generator".to_owned()).spawn(move || {
            // Producers may start tasks of their own.
            let _entered = runtime.enter();
            generator::run(work)
        });
        let acks = acks::collect(self.clock, rx, PATIENCE.max(Duration::from_micros(load.duration_us))).await;
        match thread.map(std::thread::JoinHandle::join) {
            Ok(Ok(done)) => {
                self.senders = done.senders;
                self.lateness.add(&done.lateness);
                self.priority = done.priority;
            }
            Ok(Err(_)) => self.error("the generator's thread died".to_owned()),
            Err(error) => self.error(format!("the generator's thread did not start: {error}")),
        }
        let tails = self.deliveries(&acks).await;
        let last_due_us = acks.samples.last().map_or(start_us, |s| s.due_us);
        let measured_from_us = start_us + load.settle_us;
        let span =
            (last_due_us > measured_from_us).then_some(Window { start_us: measured_from_us, end_us: last_due_us });
        self.keep(&acks);
        Block { span, appends: acks.samples, tails }
    }

    /// Keeps `window` appends in flight for `duration_us`, then waits until everything is answered and delivered.
    pub async fn closed_loop(&mut self, window: usize, duration_us: u64) -> Block {
        let start_us = self.clock.now_us();
        let end_us = start_us + duration_us;
        let acks = closed::run(self.clock, &mut self.senders, &self.maker, window.max(1), end_us, PATIENCE).await;
        let tails = self.deliveries(&acks).await;
        self.keep(&acks);
        Block { span: Some(Window { start_us, end_us }), appends: acks.samples, tails }
    }

    /// What the consumers were handed of this block, sorted by due time.
    async fn deliveries(&mut self, acks: &Acks) -> Vec<Sample> {
        let end = acks.acked.iter().map(|a| a.offset + 1).max().unwrap_or(0);
        let mut samples = Vec::new();
        let mut errors = Vec::new();
        for (index, (tail, read)) in self.tails.iter_mut().zip(&mut self.read).enumerate() {
            if !tail.reach(end, PATIENCE).await {
                errors.push(format!("consumer {index} did not get to offset {end}"));
            }
            let deliveries = tail.drain();
            samples.extend(deliveries.samples);
            read.seen.extend(deliveries.seen);
            read.corrupt_offsets.extend(deliveries.corrupt_offsets);
            errors.extend(deliveries.errors);
        }
        errors.into_iter().for_each(|e| self.error(e));
        let first_due_us = acks.samples.first().map_or(0, |s| s.due_us);
        samples.retain(|s| s.due_us >= first_due_us);
        samples.sort_by_key(|s| s.due_us);
        samples
    }

    fn keep(&mut self, acks: &Acks) {
        self.acked.extend(&acks.acked);
        self.error_count += acks.error_count - acks.errors.len() as u64;
        acks.errors.iter().for_each(|e| self.error(e.clone()));
    }

    fn error(&mut self, text: String) {
        tracing::warn!("{text}");
        self.error_count += 1;
        if self.errors.len() < ERRORS_KEPT {
            self.errors.push(text);
        }
    }

    /// Everything acked so far against what each consumer was handed; summed over the consumers, but for `records_acked`.
    pub fn verdict(&self) -> Verdict {
        let mut sum = Verdict::default();
        for read in &self.read {
            sum.add(&verify::verify(&self.acked, &read.seen, &read.corrupt_offsets));
        }
        sum.records_acked = self.acked.len() as u64;
        sum
    }
}
