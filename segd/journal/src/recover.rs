//! The reading end: finds the live run of entries at open, hands it out, tells a torn tail from corruption, and leaves
//! the directory ready for a writer. Running it again after a crash in the middle of it is safe.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::Bytes;

use crate::Lsn;
use crate::config::{JournalConfig, SyncMode};
use crate::disk::Disk;
use crate::error::OpenError;
use crate::format::{BLOCK_BYTES, FileHeader, FileMark, GroupHeader, HEADER_BYTES, Run, SECTOR_BYTES};
use crate::ledger::ClosedFile;
use crate::pool::{FoundSupply, Slot, file_number};

const SCAN_STEP_BYTES: u64 = 1 << 20;

/// What an open found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Entries replayed.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes of entries past the torn tail that were cut: a lower bound, since a torn header cannot be counted.
    pub torn_bytes: u64,
    /// Files that hold replayed entries.
    pub files: u64,
    /// The number of the first entry replayed, or of the next append if there was none.
    pub first_lsn: Lsn,
    /// The number the next append gets.
    pub next_lsn: Lsn,
}

/// The directory as the writer takes it over.
pub(crate) struct Recovered {
    pub closed: VecDeque<ClosedFile>,
    pub supply: FoundSupply,
    pub run: Run,
    pub synced_through: Lsn,
    pub report: OpenReport,
}

struct Found {
    slot: Slot,
    header: FileHeader,
}

/// Where an intact group lies.
struct Place {
    position: u64,
    bytes: u64,
    end_lsn: Lsn,
}

/// A live file that was read through.
struct Scanned {
    found: Found,
    places: Vec<Place>,
    end_lsn: Lsn,
    /// Where its last intact group ends.
    end_position: u64,
}

struct Directory {
    live: Vec<Found>,
    free: Vec<Found>,
    unfinished: Vec<String>,
    next_number: u64,
}

pub(crate) fn recover(
    disk: &dyn Disk,
    config: &JournalConfig,
    replay: &mut dyn FnMut(Lsn, Bytes),
) -> Result<Recovered, OpenError> {
    let Directory { live, free, unfinished, next_number } = survey(disk)?;
    let headers = || live.iter().chain(&free).map(|found| found.header);
    let floor = headers().map(|header| header.floor).max().unwrap_or(Lsn::FIRST);
    let run = Run::after(headers().map(|header| header.generation));
    let mut witness = headers().map(|header| header.synced_through).max().unwrap_or_default();

    let mut report = OpenReport { first_lsn: floor, next_lsn: floor, ..OpenReport::default() };
    let (scanned, unused) = read_run(live, floor, &mut report, &mut witness, replay)?;
    let end_name = scanned.last().map_or("none", |last| &last.found.slot.name).to_owned();
    let corrupt = |what| Err(OpenError::Corrupt { at: report.next_lsn, file: end_name.clone(), what });
    if report.next_lsn <= witness {
        return corrupt("an entry that was synced is damaged or missing");
    }
    if report.next_lsn < floor {
        return corrupt("the entries end before the release floor");
    }

    // Only now, with nothing left to object to, is the disk changed.
    let mut tidy = Tidy { sync: config.sync, floor, witness };
    tidy.make_durable(&scanned, report.next_lsn)?;
    let (kept, emptied): (Vec<_>, Vec<_>) =
        scanned.into_iter().partition(|file| file.end_lsn > file.found.header.first_lsn);
    let (mut ready, mut doomed) = (VecDeque::new(), unfinished);
    for Found { slot, header } in free {
        // One too small for the settings goes, unless its mark carries the floor: then it stays, unused.
        if slot.file_bytes >= config.least_file_bytes() {
            ready.push_back(slot);
        } else if header.floor < floor {
            doomed.push(slot.name);
        }
    }
    for found in unused.into_iter().chain(emptied.into_iter().map(|file| file.found)) {
        tidy.free(&found)?;
        if found.slot.file_bytes >= config.least_file_bytes() {
            ready.push_back(found.slot);
        }
    }
    report.files = kept.len() as u64;
    let closed = kept.into_iter().map(|Scanned { found: Found { slot, header }, end_lsn, .. }| ClosedFile {
        slot,
        first_lsn: header.first_lsn,
        end_lsn,
    });
    let closed = closed.collect();
    let supply = FoundSupply { ready, doomed, next_number, run, floor };
    Ok(Recovered { closed, supply, run, synced_through: tidy.witness, report })
}

/// Opens every file of ours and sorts them by what their first block says.
fn survey(disk: &dyn Disk) -> Result<Directory, OpenError> {
    let mut directory = Directory { live: Vec::new(), free: Vec::new(), unfinished: Vec::new(), next_number: 1 };
    let mut numbered: Vec<(u64, String)> = disk
        .list()
        .map_err(OpenError::io("list", "directory"))?
        .into_iter()
        .filter_map(|name| Some((file_number(&name)?, name)))
        .collect();
    numbered.sort();
    for (number, name) in numbered {
        directory.next_number = number + 1;
        let file = disk.open(&name).map_err(OpenError::io("open", &name))?;
        let file_bytes = file.bytes().map_err(OpenError::io("measure", &name))?;
        let mut sector = [0; SECTOR_BYTES];
        let has_sector = file_bytes >= SECTOR_BYTES as u64;
        if has_sector {
            file.read_exact_at(&mut sector, 0).map_err(OpenError::io("read", &name))?;
        }
        let slot = Slot { name, file, file_bytes };
        match FileHeader::decode(&sector) {
            // The header is put on last, so the filling was not finished, or at least its sync was not.
            FileMark::Blank => directory.unfinished.push(slot.name),
            FileMark::Header(header) if header.file_bytes != file_bytes => {
                return Err(OpenError::Corrupt { at: header.first_lsn, file: slot.name, what: "its length changed" });
            }
            FileMark::Header(header) if header.live => directory.live.push(Found { slot, header }),
            FileMark::Header(header) => directory.free.push(Found { slot, header }),
            FileMark::Unreadable => {
                return Err(OpenError::Corrupt { at: Lsn(0), file: slot.name, what: "its header is damaged" });
            }
        }
    }
    directory.live.sort_by_key(|found| found.header.generation);
    directory.free.sort_by_key(|found| (found.header.floor, found.header.generation));
    Ok(directory)
}

/// Reads the live files in order for as long as they are dense (J1, J2), and collects from the rest whatever witnesses
/// there are. Returns the files of the run, and those that lie before its start or past its end.
fn read_run(
    live: Vec<Found>,
    floor: Lsn,
    report: &mut OpenReport,
    witness: &mut Lsn,
    replay: &mut dyn FnMut(Lsn, Bytes),
) -> Result<(Vec<Scanned>, Vec<Found>), OpenError> {
    // Files before the newest that starts at or below the floor were released; only the marking was cut short. If there
    // is no such file the run is empty, and what the witnesses say of it decides.
    let start = live.iter().rposition(|found| found.header.first_lsn <= floor).unwrap_or(0);
    let mut rest = live.into_iter();
    let mut unused: Vec<Found> = rest.by_ref().take(start).collect();
    let mut rest = rest.peekable();
    if let Some(first) = rest.peek().filter(|first| first.header.first_lsn <= floor) {
        report.first_lsn = first.header.first_lsn;
        report.next_lsn = first.header.first_lsn;
    }
    let mut scanned: Vec<Scanned> = Vec::new();
    while let Some(found) = rest.next_if(|found| found.header.first_lsn <= report.next_lsn) {
        if found.header.first_lsn < report.next_lsn {
            let at = found.header.first_lsn;
            return Err(OpenError::Corrupt { at, file: found.slot.name, what: "it overlaps the file before it" });
        }
        let file = read_file(found, report, witness, replay)?;
        scanned.push(file);
    }
    if let Some(last) = scanned.last() {
        report.torn_bytes += find_witnesses(&last.found, last.end_position, witness)?;
    }
    for found in rest {
        report.torn_bytes += find_witnesses(&found, BLOCK_BYTES, witness)?;
        unused.push(found);
    }
    Ok((scanned, unused))
}

/// Reads one file up to its first group that is not intact.
fn read_file(
    found: Found,
    report: &mut OpenReport,
    witness: &mut Lsn,
    replay: &mut dyn FnMut(Lsn, Bytes),
) -> Result<Scanned, OpenError> {
    let mut places = Vec::new();
    let mut position = BLOCK_BYTES;
    while let Some((header, body)) = read_group(&found, position, report.next_lsn)? {
        let Some(entries) = header.split(&body) else { break };
        for place in entries {
            report.entries += 1;
            report.bytes += place.len() as u64;
            replay(report.next_lsn, body.slice(place));
            report.next_lsn = report.next_lsn.next();
        }
        *witness = header.synced_through.max(*witness);
        places.push(Place { position, bytes: header.padded_bytes(), end_lsn: report.next_lsn });
        position += header.padded_bytes();
    }
    Ok(Scanned { found, places, end_lsn: report.next_lsn, end_position: position })
}

/// The group at `position`, if its header is intact and it is the one expected. The body is yet to be checked.
fn read_group(found: &Found, position: u64, expected: Lsn) -> Result<Option<(GroupHeader, Bytes)>, OpenError> {
    let Slot { name, file, file_bytes } = &found.slot;
    if position + BLOCK_BYTES > *file_bytes {
        return Ok(None);
    }
    let mut group = vec![0; BLOCK_BYTES as usize];
    file.read_exact_at(&mut group, position).map_err(OpenError::io("read", name))?;
    let header = GroupHeader::decode(&group, found.header.generation, position)
        .filter(|header| header.first_lsn == expected && position + header.padded_bytes() <= *file_bytes);
    let Some(header) = header else { return Ok(None) };
    let end = HEADER_BYTES + header.body_bytes as usize;
    if end > group.len() {
        let have = group.len();
        group.resize(end, 0);
        file.read_exact_at(&mut group[have..], position + have as u64).map_err(OpenError::io("read", name))?;
    }
    Ok(Some((header, Bytes::from(group).slice(HEADER_BYTES..end))))
}

/// Looks at every block from `start` for group headers of this file's life. Returns the bytes of the groups found.
fn find_witnesses(found: &Found, start: u64, witness: &mut Lsn) -> Result<u64, OpenError> {
    let Slot { name, file, file_bytes } = &found.slot;
    let (mut position, mut torn_bytes) = (start, 0);
    while position < *file_bytes {
        let mut step = vec![0; SCAN_STEP_BYTES.min(file_bytes - position) as usize];
        file.read_exact_at(&mut step, position).map_err(OpenError::io("read", name))?;
        for (index, block) in step.chunks(BLOCK_BYTES as usize).enumerate() {
            let at = position + index as u64 * BLOCK_BYTES;
            if let Some(header) = GroupHeader::decode(block, found.header.generation, at) {
                *witness = header.synced_through.max(*witness);
                torn_bytes += header.padded_bytes();
            }
        }
        position += step.len() as u64;
    }
    Ok(torn_bytes)
}

/// The changes an open makes to the disk.
struct Tidy {
    sync: SyncMode,
    floor: Lsn,
    witness: Lsn,
}

impl Tidy {
    /// Makes sure that what was replayed stays. Entries that no witness vouches for may be in the page cache only, and
    /// after a sync that failed in an earlier run the cache may even call them clean: so they are written once more.
    fn make_durable(&mut self, scanned: &[Scanned], next_lsn: Lsn) -> Result<(), OpenError> {
        if self.sync == SyncMode::None {
            return Ok(());
        }
        for Scanned { found: Found { slot, header }, places, .. } in scanned {
            let doubtful: Vec<&Place> = places.iter().filter(|place| place.end_lsn > self.witness.next()).collect();
            if doubtful.is_empty() {
                continue;
            }
            for place in doubtful {
                let mut group = vec![0; place.bytes as usize];
                slot.file.read_exact_at(&mut group, place.position).map_err(OpenError::io("read", &slot.name))?;
                self.write(slot, &group, place.position)?;
            }
            self.write(slot, &header.encode(), 0)?;
            self.sync(slot)?;
        }
        self.witness = Lsn(next_lsn.0 - 1);
        Ok(())
    }

    /// Marks a file outside the run as free, so that what it holds can never join a later run.
    fn free(&self, Found { slot, header }: &Found) -> Result<(), OpenError> {
        let (live, first_lsn) = (false, Lsn(0));
        let header = FileHeader { live, first_lsn, floor: self.floor, synced_through: self.witness, ..*header };
        self.write(slot, &header.encode(), 0)?;
        match self.sync {
            SyncMode::Durable => self.sync(slot),
            SyncMode::None => Ok(()),
        }
    }

    fn write(&self, slot: &Slot, bytes: &[u8], position: u64) -> Result<(), OpenError> {
        let written = slot.file.write_all_at(&mut [IoSlice::new(bytes)], position);
        written.map_err(OpenError::io("write", &slot.name))
    }

    fn sync(&self, slot: &Slot) -> Result<(), OpenError> {
        slot.file.sync_data().map_err(OpenError::io("sync", &slot.name))
    }
}
