//! The real journal under a node's disk, on simulated sectors: what it wrote is torn at a power cut, and what lies there rots.
//!
//! Its groups, files, recycling and recovery are the shipped code, without its threads; the simulated disk keeps any subset of
//! the unsynced sectors. An entry's number is its place in the node's list of entries, counted from 1.

use super::disk::Entry;
use super::rng::Rng;
use seam_journal::disk::Disk as _;
use seam_journal::engine::Engine;
use seam_journal::sim::{Fault, SimDisk};
use seam_journal::{JournalConfig, Lsn, OpenError};
use std::sync::Arc;

/// A journal file: small, so that a run goes through several.
const FILE_BYTES: u64 = 16 * 4096;

pub struct Sectors {
    disk: SimDisk,
    config: JournalConfig,
    engine: Option<Engine>,
    rng: Rng,
    /// Entries given to the journal.
    written: usize,
    /// Entries that segment files have, synced: the journal was told that it may let go of them.
    filed: usize,
    /// Something that was at rest was damaged since it was last read.
    damaged: bool,
}

/// How a disk is left when its process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The process alone: what it wrote is in the page cache.
    Kill,
    /// The machine: any part of what was not synced is gone.
    PowerCut,
}

/// What a new process found.
#[derive(Debug)]
pub enum Found {
    /// All entries there are now.
    Entries(Vec<Entry>),
    /// The journal refuses the disk, or lost what nothing vouched for: another one must take its place.
    Unusable { refused: bool },
}

/// The journal failed: it takes nothing any more in this life of the process.
#[derive(Debug)]
pub struct Failed;

impl Sectors {
    pub fn new(mut rng: Rng) -> Self {
        let disk = SimDisk::new(rng.next());
        let config = JournalConfig {
            file_bytes: FILE_BYTES,
            max_entry_bytes: 4 * 4096,
            keep_files: 2,
            spare_files: 1,
            fill_pause: std::time::Duration::ZERO,
            ..JournalConfig::new("simulated")
        };
        let opened = Engine::open(Arc::new(disk.clone()), &config, |_, _| panic!("R2: an empty disk has no entry"));
        let (engine, _) = opened.expect("R1: an empty disk opens");
        Sectors { disk, config, engine: Some(engine), rng, written: 0, filed: 0, damaged: false }
    }

    /// Gives the journal what it has not got yet of `entries`.
    pub fn write(&mut self, entries: &[Entry]) -> Result<(), Failed> {
        let fresh: Vec<seam_journal::Entry> = entries[self.written..].iter().map(encode).collect();
        self.written = entries.len();
        self.engine()?.write(&fresh).or_else(|_| self.fail())
    }

    /// A sync is done. Now and then segment files have caught up meanwhile, and the journal lets go of what they hold.
    pub fn sync(&mut self, synced: usize) -> Result<(), Failed> {
        self.engine()?.sync().or_else(|_| self.fail())?;
        if self.rng.percent(10) {
            self.filed = self.filed.max(synced.saturating_sub(self.rng.index(20)));
            let before = Lsn(self.filed as u64 + 1);
            self.engine()?.release(before);
        }
        while self.engine()?.supply().or_else(|_| self.fail())? {}
        Ok(())
    }

    fn engine(&mut self) -> Result<&mut Engine, Failed> {
        self.engine.as_mut().ok_or(Failed)
    }

    fn fail<T>(&mut self) -> Result<T, Failed> {
        self.engine = None;
        Err(Failed)
    }

    /// After so many more operations on the disk, one meets `fault`.
    pub fn fault_after(&mut self, operations: u64, fault: Fault) {
        self.damaged |= fault == Fault::Misdirect;
        self.disk.fault_after(operations, fault);
    }

    /// A bit turns over somewhere.
    pub fn flip_bit(&mut self) {
        let names = self.disk.list().expect("the machine is up");
        let name = &names[self.rng.index(names.len())];
        let bytes = self.disk.contents(name).expect("just listed").len();
        if bytes > 0 {
            self.damaged = true;
            // Anywhere, or where something is likely to be.
            let within = if self.rng.percent(50) { bytes } else { bytes.min(3 * 4096) };
            let bit = self.rng.index(within * 8) as u64;
            self.disk.flip_bit(name, bit);
        }
    }

    /// The process ended; a new one opens what is there. `entries` are those of the old one, of which `synced` were durable.
    ///
    /// # Panics
    /// If the journal loses, invents or refuses anything without damage.
    pub fn reopen(&mut self, stop: Stop, mut entries: Vec<Entry>, synced: usize) -> Found {
        let failed = self.engine.take().is_none();
        self.halt(stop);
        let mut in_cache = stop == Stop::Kill && !failed && !self.damaged;
        if self.rng.percent(20) {
            in_cache = false;
            // It ends again before it has opened.
            self.disk.fault_after(self.rng.below(8), Fault::Crash);
            drop(self.open());
            self.halt(Stop::PowerCut);
        }
        let (engine, first, replayed) = match self.open() {
            Ok(opened) => opened,
            Err(error) => {
                assert!(self.damaged, "R1: the journal refuses a disk that nothing damaged: {error}");
                return Found::Unusable { refused: true };
            }
        };
        let end = first + replayed.len();
        if end < synced || first > self.filed {
            assert!(self.damaged, "R1: the journal lost synced entries: {first}..{end} of {synced} are left");
            return Found::Unusable { refused: false };
        }
        assert!(!in_cache || end >= self.written, "R1: a killed process lost what it wrote");
        assert!(end <= entries.len(), "R2: the journal has entries that nobody wrote");
        entries.truncate(end);
        for (index, bytes) in replayed.iter().enumerate() {
            let read: Entry = postcard::from_bytes(bytes).expect("R2: an entry reads as it was written");
            assert!(read.is_same(&entries[first + index]), "R2: entry {} came back as another", first + index + 1);
            entries[first + index] = read;
        }
        self.engine = Some(engine);
        self.written = end;
        Found::Entries(entries)
    }

    fn halt(&mut self, stop: Stop) {
        match stop {
            Stop::Kill => self.disk.kill(),
            Stop::PowerCut => self.disk.power_cut(),
        }
    }

    /// The engine, how many entries lie before the first replayed, and those.
    fn open(&self) -> Result<(Engine, usize, Vec<bytes::Bytes>), OpenError> {
        let mut replayed = Vec::new();
        let disk = Arc::new(self.disk.clone());
        let (engine, report) = Engine::open(disk, &self.config, |_, bytes| replayed.push(bytes))?;
        let first = usize::try_from(report.first_lsn.0 - 1).expect("few entries");
        Ok((engine, first, replayed))
    }
}

fn encode(entry: &Entry) -> seam_journal::Entry {
    postcard::to_allocvec(entry).expect("plain data always encodes").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many entries, of which `synced` were synced before the journal was cut off.
    fn cut_off(seed: u64, written: usize, synced: usize, stop: Stop) -> (Sectors, Vec<Entry>) {
        let mut sectors = Sectors::new(Rng::new(seed, 0));
        let entries: Vec<Entry> = (1..=written as u64).map(Entry::promise).collect();
        for end in 1..=written {
            sectors.write(&entries[..end]).expect("no fault is planned");
            if end <= synced {
                sectors.sync(end).expect("no fault is planned");
            }
        }
        let Found::Entries(found) = sectors.reopen(stop, entries, synced) else { panic!("R1: nothing was damaged") };
        (sectors, found)
    }

    #[test]
    fn what_was_synced_is_found_and_of_the_rest_any_beginning() {
        let ends = (0..200).map(|seed| cut_off(seed, 60, 50, Stop::PowerCut).1.len());
        let ends: std::collections::BTreeSet<usize> = ends.collect();
        assert!(ends.first() >= Some(&50) && ends.last() <= Some(&60) && ends.len() > 3, "{ends:?}");
    }

    #[test]
    #[should_panic(expected = "the journal lost synced entries")]
    fn an_entry_that_was_called_synced_and_was_not_is_seen() {
        for seed in 0..50 {
            let mut sectors = Sectors::new(Rng::new(seed, 0));
            let entries: Vec<Entry> = (1..=9).map(Entry::promise).collect();
            sectors.write(&entries).expect("no fault is planned");
            sectors.reopen(Stop::PowerCut, entries, 9);
        }
    }

    #[test]
    fn a_flipped_bit_is_refused_or_does_no_harm() {
        let mut refused = 0;
        for seed in 0..100 {
            let (mut sectors, found) = cut_off(seed, 60, 60, Stop::Kill);
            (0..50).for_each(|_| sectors.flip_bit());
            match sectors.reopen(Stop::Kill, found, 60) {
                Found::Entries(found) => assert_eq!(found.len(), 60),
                Found::Unusable { .. } => refused += 1,
            }
        }
        assert!(refused > 10, "{refused} of 100");
    }

    #[test]
    fn a_failed_operation_ends_the_journal_and_a_new_process_finds_all_that_was_synced() {
        for seed in 0..100 {
            let (mut sectors, mut entries) = cut_off(seed, 5, 5, Stop::Kill);
            sectors.fault_after(seed % 7, Fault::Eio);
            let mut synced = entries.len();
            for epoch in 6..100 {
                entries.push(Entry::promise(epoch));
                if sectors.write(&entries).is_err() || sectors.sync(entries.len()).is_err() {
                    break;
                }
                synced = entries.len();
            }
            assert!(synced < 99, "the planned fault struck");
            assert!(sectors.write(&entries).is_err(), "and nothing is taken after it");
            assert!(matches!(sectors.reopen(Stop::PowerCut, entries, synced), Found::Entries(_)));
        }
    }
}
