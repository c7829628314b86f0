//! A journal whose disk fails stays failed, says so to everyone, and loses nothing it called durable.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc;
use std::time::Duration;

use seam_journal::sim::{Fault, SimDisk};
use seam_journal::{Disk, Durability, Journal, JournalConfig, JournalError, Lsn};

fn small() -> JournalConfig {
    JournalConfig {
        file_bytes: 64 << 10,
        max_entry_bytes: 32 << 10,
        queue_bytes: 1 << 20,
        fill_pause: Duration::ZERO,
        ..JournalConfig::new("unused")
    }
}

fn open(disk: &SimDisk) -> Journal {
    Journal::open_on(Arc::new(disk.clone()), small(), |_, _| ()).unwrap().0
}

#[test]
fn one_failed_sync_fails_every_append_for_ever() {
    for fault in [Fault::Eio, Fault::NoSpace, Fault::Crash] {
        let disk = SimDisk::new(1);
        let journal = open(&disk);
        let (sender, failures) = mpsc::channel();
        journal.on_failure(move |error| sender.send(error.clone()).unwrap());
        // Hold the writer, queue more, then let all of it meet the fault.
        let (gate, wait) = mpsc::channel::<()>();
        let (entered, is_held) = mpsc::channel::<()>();
        let hold = Box::new(move |_| {
            entered.send(()).unwrap();
            wait.recv().unwrap();
        });
        journal.append(vec![0], Durability::Written, hold).unwrap();
        is_held.recv().unwrap();
        let (sender, outcomes) = mpsc::channel();
        for n in 2..=20u64 {
            let sender = sender.clone();
            let durability = if n % 2 == 0 { Durability::Written } else { Durability::Synced };
            let done = Box::new(move |outcome| sender.send((n, outcome)).unwrap());
            assert_eq!(journal.append(vec![n as u8; 100], durability, done), Ok(Lsn(n)));
        }
        drop(sender);
        // The writer has its file and is held; with the spares made as well, the next operation is the writer's.
        while journal.stats().files_ready < 2 {
            std::thread::yield_now();
        }
        disk.fault_after(0, fault);
        gate.send(()).unwrap();
        let outcomes: Vec<_> = outcomes.iter().collect();
        assert_eq!(outcomes.len(), 19, "everyone is answered");
        assert!(outcomes.iter().map(|(n, _)| n).is_sorted(), "and in order");
        assert!(
            outcomes.iter().all(|(_, outcome)| matches!(outcome, Err(JournalError::Failed { .. }))),
            "{outcomes:?}"
        );
        assert!(matches!(failures.recv().unwrap(), JournalError::Failed { .. }));
        assert!(failures.recv().is_err(), "told once");
        // The disk works again, the journal does not.
        let later = journal.append(vec![1], Durability::Written, Box::new(|_| unreachable!()));
        assert!(matches!(later, Err(JournalError::Failed { .. })), "{later:?}");
        assert!(journal.failed().is_some() && journal.shutdown().is_err());
    }
}

#[test]
fn a_panicking_completion_fails_the_journal_rather_than_hang_it() {
    let journal = open(&SimDisk::new(1));
    journal.append(vec![0], Durability::Synced, Box::new(|_| panic!("an owner's mistake"))).unwrap();
    while journal.failed().is_none() {
        std::thread::yield_now();
    }
    assert!(journal.shutdown().is_err());
}

#[test]
fn the_last_handle_may_be_dropped_by_a_completion() {
    let disk = SimDisk::new(1);
    let journal = open(&disk);
    let (sender, done) = mpsc::channel();
    let last = journal.clone();
    let completion = Box::new(move |outcome: Result<Lsn, JournalError>| {
        drop(last);
        sender.send(outcome).unwrap();
    });
    journal.append(vec![1], Durability::Synced, completion).unwrap();
    drop(journal);
    assert_eq!(done.recv().unwrap(), Ok(Lsn(1)));
}

#[test]
fn no_space_for_spares_is_no_failure_until_the_writer_needs_a_file() {
    let disk = SimDisk::new(1);
    disk.set_capacity(2 * (64 << 10) + 1000);
    let journal = open(&disk);
    let (sender, outcomes) = mpsc::channel();
    for n in 1..=30u64 {
        let sender = sender.clone();
        journal
            .append(vec![n as u8; 20_000], Durability::Synced, Box::new(move |out| sender.send(out).unwrap()))
            .unwrap();
        if outcomes.recv().unwrap().is_err() {
            assert!(n > 3, "the files there are can be filled");
            return;
        }
    }
    panic!("30 entries cannot fit in two files");
}

/// Many threads, a power cut at a random moment, again and again: what was completed is there, in order.
#[test]
fn completed_entries_survive_power_cuts_under_load() {
    for seed in 0..60u64 {
        let disk = SimDisk::new(seed);
        let mut released = 1;
        for round in 0..4u64 {
            let mut next = 0;
            let (journal, report) = Journal::open_on(Arc::new(disk.clone()), small(), |lsn, bytes| {
                assert!(next == 0 || lsn.0 == next, "dense");
                next = lsn.0 + 1;
                assert!(bytes.iter().all(|byte| *byte == bytes[0]));
            })
            .unwrap();
            assert!(report.first_lsn.0 <= released, "seed {seed} round {round}");
            let durable = Arc::new(AtomicU64::new(report.next_lsn.0 - 1));
            disk.fault_after(20 + (seed * 31 + round * 17) % 200, Fault::Crash);
            std::thread::scope(|scope| {
                for writer in 0..4u8 {
                    let (journal, durable) = (&journal, durable.clone());
                    scope.spawn(move || {
                        loop {
                            let (sender, done) = mpsc::channel();
                            let done_in = Box::new(move |outcome| sender.send(outcome).unwrap());
                            let bytes = vec![writer + 1; 700 * (usize::from(writer) + 1)];
                            let queued = journal.append(bytes, Durability::Synced, done_in);
                            match queued.and_then(|_| done.recv().unwrap()) {
                                Ok(lsn) => durable.fetch_max(lsn.0, SeqCst),
                                Err(JournalError::Failed { .. }) => return,
                                Err(other) => panic!("{other}"),
                            };
                            let low = durable.load(SeqCst).saturating_sub(30);
                            journal.release(Lsn(low));
                        }
                    });
                }
            });
            drop(journal);
            released = durable.load(SeqCst).saturating_sub(30).max(released);
            disk.power_cut();
            let (journal, report) = Journal::open_on(Arc::new(disk.clone()), small(), |_, _| ()).unwrap();
            assert!(report.next_lsn.0 > durable.load(SeqCst), "seed {seed} round {round}: {report:?}");
            drop(journal);
            assert!(disk.list().unwrap().len() < 20);
        }
    }
}
