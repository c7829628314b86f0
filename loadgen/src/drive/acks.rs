//! Collects acks: stamps each the moment it resolves, and keeps what was promised for verification.

use crate::clock::Clock;
use crate::drive::generator::Pending;
use crate::measure::sample::Sample;
use crate::measure::verify::Seen;
use crate::target::AppendError;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use std::future::Future;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedReceiver;

/// Errors kept in words; all are counted.
pub const ERRORS_KEPT: usize = 20;

/// What became of the records of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    /// Sorted by due time.
    pub samples: Vec<Sample>,
    pub acked: Vec<Seen>,
    pub errors: Vec<String>,
    pub error_count: u64,
}

impl Acks {
    pub(super) fn take(&mut self, done: Done) {
        let Done { producer, seq, due_us, hash, done_us, result } = done;
        match result {
            Ok(offset) => {
                self.samples.push(Sample { due_us, done_us, offset, ok: true });
                self.acked.push(Seen { offset, id: (producer, seq), hash });
            }
            Err(error) => {
                self.samples.push(Sample { due_us, done_us, offset: 0, ok: false });
                self.error(format!("append {seq} of producer {producer}: {error}"));
            }
        }
    }

    /// `stuck` appends were never answered.
    pub(super) fn give_up(&mut self, stuck: u64, patience: Duration) {
        self.error(format!("{stuck} appends had no answer {patience:?} after the last one"));
        self.error_count += stuck.saturating_sub(1);
    }

    pub(super) fn sort(&mut self) {
        self.samples.sort_by_key(|s| s.due_us);
    }

    fn error(&mut self, text: String) {
        self.error_count += 1;
        if self.errors.len() < ERRORS_KEPT {
            self.errors.push(text);
        }
    }
}

pub(super) struct Done {
    producer: u32,
    seq: u64,
    due_us: u64,
    hash: u32,
    done_us: u64,
    result: Result<u64, AppendError>,
}

/// Collects until the generator is done and every ack has resolved, or none has for `patience`: each append that is still
/// open then counts as an error, since a call without an end is one.
pub async fn collect<A>(clock: Clock, mut pending: UnboundedReceiver<Pending<A>>, patience: Duration) -> Acks
where
    A: Future<Output = Result<u64, AppendError>> + Send + 'static,
{
    let mut acks = Acks::default();
    let mut open = FuturesUnordered::new();
    let mut more = true;
    while more || !open.is_empty() {
        tokio::select! {
            biased;
            Some(done) = open.next() => acks.take(done),
            record = pending.recv(), if more => match record {
                Some(record) => open.push(resolve(clock, record)),
                None => more = false,
            },
            () = tokio::time::sleep(patience) => {
                acks.give_up(open.len() as u64, patience);
                break;
            }
        }
    }
    acks.sort();
    acks
}

pub(super) async fn resolve<A>(clock: Clock, record: Pending<A>) -> Done
where
    A: Future<Output = Result<u64, AppendError>>,
{
    let Pending { producer, seq, due_us, hash, ack } = record;
    let result = ack.await;
    Done { producer, seq, due_us, hash, done_us: clock.now_us(), result }
}
