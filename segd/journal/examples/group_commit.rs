//! How much group commit gains: 4 KiB appends by 1, 4, 16 and 64 writers, each waiting for its own.
//!
//! `cargo run --release -p seam-journal --example group_commit [DIRECTORY] [SECONDS_PER_ROW]`

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use seam_journal::{Durability, Journal, JournalConfig, JournalError};

const ENTRY_BYTES: usize = 4096;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let dir = arguments.next().map_or_else(|| PathBuf::from("group-commit-journal"), PathBuf::from);
    let row = Duration::from_secs_f64(arguments.next().map_or(Ok(3.0), |seconds| seconds.parse())?);
    println!("writers  appends/s   p50 us   p99 us  group  sync p50 us  sync p99 us  file waits");
    for writers in [1, 4, 16, 64] {
        let (journal, _) = Journal::open(JournalConfig::new(&dir), |_, _| ())?;
        journal.release(journal.next_lsn());
        while journal.stats().files_ready < 2 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut took = run(&journal, writers, row)?;
        took.sort();
        let at = |q: f64| took[((took.len() - 1) as f64 * q) as usize].as_micros();
        let stats = journal.stats();
        println!(
            "{writers:>7}  {:>9.0}  {:>7}  {:>7}  {:>5.1}  {:>11}  {:>11}  {:>10}",
            took.len() as f64 / row.as_secs_f64(),
            at(0.5),
            at(0.99),
            stats.appends as f64 / stats.groups as f64,
            stats.sync_p50.as_micros(),
            stats.sync_p99.as_micros(),
            stats.journal_file_waits,
        );
        journal.shutdown()?;
    }
    Ok(())
}

/// Appends from `writers` threads for `row`; how long each append took. Old entries are released as it goes.
fn run(journal: &Journal, writers: usize, row: Duration) -> Result<Vec<Duration>, JournalError> {
    let payload = Bytes::from(vec![0x5a; ENTRY_BYTES]);
    let end = Instant::now() + row;
    std::thread::scope(|scope| {
        let writer = || {
            let (sender, done) = mpsc::channel();
            let mut took = Vec::new();
            while Instant::now() < end {
                let started = Instant::now();
                let sender = sender.clone();
                // The receiver outlives the append: it is waited for on the next line.
                let completion = Box::new(move |outcome| drop(sender.send(outcome)));
                journal.append(payload.clone(), Durability::Synced, completion)?;
                let lsn = done.recv().expect("an accepted append is always completed")?;
                took.push(started.elapsed());
                journal.release(lsn);
            }
            Ok(took)
        };
        let threads: Vec<_> = (0..writers).map(|_| scope.spawn(writer)).collect();
        let rows: Result<Vec<_>, JournalError> =
            threads.into_iter().map(|thread| thread.join().expect("a writer does not panic")).collect();
        Ok(rows?.concat())
    })
}
