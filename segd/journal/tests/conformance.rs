//! One suite for every `Disk`, and one for the journal on top of it: run on a real directory and on the simulated one.

#![allow(clippy::unwrap_used)]

use std::io::{ErrorKind, IoSlice};
use std::sync::Arc;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use seam_journal::sim::SimDisk;
use seam_journal::{Disk, Durability, Journal, JournalConfig, JournalError, Lsn, OpenError, RealDisk, SyncMode};

fn small() -> JournalConfig {
    JournalConfig {
        file_bytes: 64 << 10,
        max_entry_bytes: 32 << 10,
        queue_bytes: 1 << 20,
        fill_pause: Duration::ZERO,
        ..JournalConfig::new("unused")
    }
}

/// Runs `suite` on both disks; `suite` gets a way to open the same directory again.
fn on_both(suite: impl Fn(&dyn Fn() -> Arc<dyn Disk>)) {
    let sim = SimDisk::new(7);
    suite(&|| Arc::new(sim.clone()));
    let dir = tempfile::tempdir().unwrap();
    suite(&|| Arc::new(RealDisk::open(&dir.path().join("journal")).unwrap()));
}

#[test]
fn a_disk_keeps_its_contract() {
    on_both(|disk| {
        let disk = disk();
        assert!(disk.list().unwrap().is_empty());
        let file = disk.create("one").unwrap();
        assert_eq!(disk.create("one").err().unwrap().kind(), ErrorKind::AlreadyExists);
        assert_eq!(disk.open("two").err().unwrap().kind(), ErrorKind::NotFound);
        assert_eq!(disk.remove("two").err().unwrap().kind(), ErrorKind::NotFound);
        assert_eq!(file.bytes().unwrap(), 0);

        let pieces = ["", "ab", "", "cdef", ""].map(str::as_bytes);
        file.write_all_at(&mut pieces.map(IoSlice::new), 1000).unwrap();
        assert_eq!(file.bytes().unwrap(), 1006);
        let mut read = [9; 8];
        disk.open("one").unwrap().read_exact_at(&mut read, 998).unwrap();
        assert_eq!(&read, b"\0\0abcdef", "a gap reads as zero, through any handle, before the sync");
        assert_eq!(file.read_exact_at(&mut read, 999).err().unwrap().kind(), ErrorKind::UnexpectedEof);

        let many: Vec<[u8; 3]> = (0..5000u32).map(|n| [n as u8, (n >> 8) as u8, 7]).collect();
        let mut slices: Vec<IoSlice<'_>> = many.iter().map(|piece| IoSlice::new(piece)).collect();
        file.write_all_at(&mut slices, 0).unwrap();
        let mut read = vec![0; 15_000];
        file.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(read, many.concat(), "more pieces than one system call takes");

        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
        assert_eq!(disk.list().unwrap(), ["one"]);
        disk.remove("one").unwrap();
        assert!(disk.list().unwrap().is_empty());
        file.read_exact_at(&mut read, 0).unwrap();
    });
}

#[test]
fn a_sim_disk_forgets_what_was_not_synced() {
    let mut kept = [0; 2];
    for seed in 0..64 {
        let disk = SimDisk::new(seed);
        let file = disk.create("named").unwrap();
        file.write_all_at(&mut [IoSlice::new(&[1; 1024])], 0).unwrap();
        file.sync_data().unwrap();
        disk.sync_dir().unwrap();
        file.write_all_at(&mut [IoSlice::new(&[2; 1024])], 512).unwrap();
        disk.create("unnamed").unwrap();
        disk.power_cut();
        assert!(file.sync_data().is_err(), "a handle does not outlive its machine");
        let contents = disk.contents("named").unwrap();
        assert_eq!(contents[..512], [1; 512], "a synced sector stays");
        assert!(contents[512..1024] == [1; 512] || contents[512..1024] == [2; 512]);
        kept[0] += usize::from(contents[512] == 2);
        kept[1] += usize::from(disk.contents("unnamed").is_some());
    }
    assert!(kept.iter().all(|kept| (1..64).contains(kept)), "chance goes both ways: {kept:?}");
}

fn replayed(disk: Arc<dyn Disk>, config: JournalConfig) -> Vec<(Lsn, Bytes)> {
    let mut entries = Vec::new();
    let (journal, _) = Journal::open_on(disk, config, |lsn, bytes| entries.push((lsn, bytes))).unwrap();
    drop(journal);
    entries
}

#[test]
fn entries_complete_in_order_and_come_back() {
    for sync in [SyncMode::Durable, SyncMode::None] {
        on_both(|disk| {
            let config = JournalConfig { sync, ..small() };
            let (journal, report) = Journal::open_on(disk(), config.clone(), |_, _| unreachable!()).unwrap();
            assert_eq!((report.entries, report.first_lsn, report.next_lsn), (0, Lsn(1), Lsn(1)));
            let (sender, receiver) = mpsc::channel();
            for n in 0..500u64 {
                let pieces =
                    [Bytes::from(n.to_le_bytes().to_vec()), Bytes::from(vec![n as u8; (n as usize * 37) % 3000])];
                let durability = if n % 3 == 0 { Durability::Written } else { Durability::Synced };
                loop {
                    let sender = sender.clone();
                    let done = Box::new(move |outcome| sender.send(outcome).unwrap());
                    match journal.append(pieces.clone(), durability, done) {
                        Ok(lsn) => break assert_eq!(lsn, Lsn(n + 1)),
                        Err(JournalError::Overloaded { .. }) => std::thread::yield_now(),
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            drop(sender);
            let done: Vec<Lsn> = receiver.iter().map(|outcome| outcome.unwrap()).collect();
            assert_eq!(done.len(), 500);
            for is_written in [true, false] {
                let class: Vec<&Lsn> = done.iter().filter(|lsn| (lsn.0 % 3 == 1) == is_written).collect();
                assert!(class.is_sorted(), "each durability completes in order");
            }
            let stats = journal.stats();
            assert_eq!(stats.appends, 500);
            assert!(stats.groups < 500 && stats.max_group > 1, "grouped: {stats:?}");
            journal.shutdown().unwrap();
            assert_eq!(journal.synced_through(), Lsn(500));
            let late = journal.append(vec![1], Durability::Synced, Box::new(|_| unreachable!()));
            assert_eq!(late, Err(JournalError::Closed));
            drop(journal);

            let entries = replayed(disk(), config);
            assert_eq!(entries.len(), 500);
            for (n, (lsn, bytes)) in (0u64..).zip(&entries) {
                assert_eq!((*lsn, &bytes[..8]), (Lsn(n + 1), &n.to_le_bytes()[..]));
                assert_eq!(bytes.len(), 8 + (n as usize * 37) % 3000);
                assert!(bytes[8..].iter().all(|byte| *byte == n as u8));
            }
            // Clean the directory for the next round.
            let disk = disk();
            disk.list().unwrap().iter().for_each(|name| disk.remove(name).unwrap());
        });
    }
}

#[tokio::test]
async fn releasing_recycles_files_and_numbers_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let real = Arc::new(RealDisk::open(dir.path()).unwrap());
    for disk in [Arc::new(SimDisk::new(3)) as Arc<dyn Disk>, real] {
        let (journal, _) = Journal::open_on(disk.clone(), small(), |_, _| unreachable!()).unwrap();
        for n in 1..=200u64 {
            assert_eq!(journal.write(vec![n as u8; 20_000], Durability::Synced).await, Ok(Lsn(n)));
            journal.release(Lsn(n));
        }
        assert!(journal.pinned_bytes() <= 2 * (64 << 10));
        journal.release(Lsn(201));
        // The thread that keeps the files may be behind.
        let until = Instant::now() + Duration::from_secs(20);
        while disk.list().unwrap().len() > small().keep_files + 2 {
            assert!(Instant::now() < until, "{} files stay", disk.list().unwrap().len());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        journal.shutdown().unwrap();
        drop(journal);
        let (journal, report) = Journal::open_on(disk.clone(), small(), |_, _| ()).unwrap();
        assert_eq!(report.next_lsn, Lsn(201));
        journal.release(Lsn(201));
        assert_eq!(journal.pinned_bytes(), 0);
        assert_eq!(journal.write(Bytes::new(), Durability::Written).await, Ok(Lsn(201)));
    }
}

#[test]
fn limits_are_errors_with_a_remedy() {
    let disk = Arc::new(SimDisk::new(1));
    let config = JournalConfig { queue_bytes: 40 << 10, ..small() };
    let (journal, _) = Journal::open_on(disk, config, |_, _| unreachable!()).unwrap();
    let done = || Box::new(|_: Result<Lsn, JournalError>| ());
    let too_large = journal.append(vec![0; (32 << 10) + 1], Durability::Synced, done()).unwrap_err();
    assert!(matches!(too_large, JournalError::TooLarge { .. }), "{too_large}");
    // A completion that does not return holds the writer thread, so the queue must fill.
    let (open, gate) = mpsc::channel::<()>();
    journal.append(vec![0], Durability::Written, Box::new(move |_| gate.recv().unwrap())).unwrap();
    let refused = (0..100).find_map(|_| journal.append(vec![0; 1000], Durability::Synced, done()).err());
    assert!(matches!(refused, Some(JournalError::Overloaded { .. })), "{refused:?}");
    assert_eq!(journal.stats().overloaded, 1);
    open.send(()).unwrap();
    journal.shutdown().unwrap();

    let bad = JournalConfig { max_entry_bytes: 64 << 10, ..small() };
    let bad = Journal::open_on(Arc::new(SimDisk::new(1)), bad, |_, _| ());
    assert!(matches!(bad, Err(OpenError::Settings { .. })));
}

#[test]
fn a_directory_is_open_once() {
    let dir = tempfile::tempdir().unwrap();
    let config = JournalConfig { dir: dir.path().join("a/b"), ..small() };
    let (journal, _) = Journal::open(config.clone(), |_, _| ()).unwrap();
    assert!(matches!(Journal::open(config.clone(), |_, _| ()), Err(OpenError::InUse)));
    drop(journal);
    Journal::open(config, |_, _| ()).unwrap();
}
