//! A closed loop: so many appends in flight, the next as soon as one is answered. It tells what a cluster carries, not how
//! long a record waits; latency comes from the open loop.

use crate::clock::Clock;
use crate::drive::acks::{Acks, resolve};
use crate::drive::generator::{Pending, Sender};
use crate::record::RecordMaker;
use crate::target::Producer;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::time::Duration;

/// Keeps `window` appends in flight over all producers until `end_us`, then waits for the last. `None` of the appends may take
/// longer than `patience` after the one before.
pub async fn run<P: Producer>(
    clock: Clock,
    senders: &mut [Sender<P>],
    maker: &RecordMaker,
    window: usize,
    end_us: u64,
    patience: Duration,
) -> Acks {
    let mut acks = Acks::default();
    let mut open = FuturesUnordered::new();
    let mut turn = 0;
    loop {
        while open.len() < window && !senders.is_empty() && clock.now_us() < end_us {
            let index = turn % senders.len();
            turn += 1;
            let sender = &mut senders[index];
            let (producer, seq, due_us) = (index as u32, sender.next_seq, clock.now_us());
            let (value, hash) = maker.make(producer, seq, due_us);
            let ack = sender.producer.submit(value, clock.at(due_us));
            sender.next_seq += 1;
            open.push(resolve(clock, Pending { producer, seq, due_us, hash, ack }));
        }
        match tokio::time::timeout(patience, open.next()).await {
            Ok(Some(done)) => acks.take(done),
            Ok(None) => break,
            Err(_) => {
                acks.give_up(open.len() as u64, patience);
                break;
            }
        }
    }
    acks.sort();
    acks
}
