//! The generator: a thread of its own that sleeps to each due time and hands the record over. It never waits for the system
//! under test, and it is kept cheap: no spinning, since the cluster may share its cores.

use crate::clock::Clock;
use crate::drive::priority::{self, Priority};
use crate::measure::lateness::Lateness;
use crate::measure::schedule::Schedule;
use crate::record::RecordMaker;
use crate::target::Producer;
use std::sync::Arc;
use std::thread;
use tokio::sync::mpsc::UnboundedSender;

/// A record handed over.
pub struct Pending<A> {
    pub producer: u32,
    pub seq: u64,
    pub due_us: u64,
    pub hash: u32,
    pub ack: A,
}

/// One producer and how far its sequence got.
pub struct Sender<P> {
    pub producer: Arc<P>,
    pub next_seq: u64,
}

/// What the generator's thread works from.
pub struct Work<P: Producer> {
    pub clock: Clock,
    pub schedule: Schedule,
    pub maker: Arc<RecordMaker>,
    /// Takes turns over them.
    pub senders: Vec<Sender<P>>,
    pub pending: UnboundedSender<Pending<P::Ack>>,
}

/// What it gives back.
pub struct Done<P> {
    pub senders: Vec<Sender<P>>,
    pub lateness: Lateness,
    pub priority: Priority,
}

/// Runs the schedule to its end on the calling thread.
pub fn run<P: Producer>(mut work: Work<P>) -> Done<P> {
    let priority = priority::ask();
    let mut lateness = Lateness::default();
    if work.senders.is_empty() {
        return Done { senders: work.senders, lateness, priority };
    }
    for (turn, due_us) in work.schedule.by_ref().enumerate() {
        sleep_until(work.clock, due_us);
        let index = turn % work.senders.len();
        let sender = &mut work.senders[index];
        let (producer, seq) = (index as u32, sender.next_seq);
        let (value, hash) = work.maker.make(producer, seq, due_us);
        lateness.record(due_us, work.clock.now_us());
        let ack = sender.producer.submit(value, work.clock.at(due_us));
        sender.next_seq += 1;
        if work.pending.send(Pending { producer, seq, due_us, hash, ack }).is_err() {
            break; // the collector gave up; the run is over
        }
    }
    Done { senders: work.senders, lateness, priority }
}

fn sleep_until(clock: Clock, due_us: u64) {
    let mut now_us = clock.now_us();
    while now_us < due_us {
        thread::sleep(std::time::Duration::from_micros(due_us - now_us));
        now_us = clock.now_us();
    }
}
