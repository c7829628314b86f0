//! [`Disk`] in memory, with the faults of real ones: for tests and simulations, seeded and repeatable.
//!
//! It is as unkind as the contract allows: a power cut keeps an arbitrary subset of the unsynced 512-byte sectors (any
//! of the versions written since the last sync), a name is lost unless the directory was synced, and a failed sync calls
//! dirty sectors clean that never reached the disk. It is not a model of time: nothing takes any.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile};

const SECTOR: usize = crate::format::SECTOR_BYTES;

/// What happens at a chosen operation (see [`SimDisk::fault_after`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The operation fails with `EIO`. A write is done in part; a sync leaves an arbitrary part undone and clean.
    Eio,
    /// The operation fails with `ENOSPC`.
    NoSpace,
    /// The next write lands whole blocks beside its place, over what is there, and is said to be done.
    Misdirect,
    /// The machine or process stops in the middle of the operation: it and all later ones fail, until
    /// [`SimDisk::power_cut`] or [`SimDisk::kill`].
    Crash,
}

/// A simulated directory. Clones share it.
#[derive(Clone)]
pub struct SimDisk {
    sim: Arc<Mutex<Sim>>,
}

#[derive(Default)]
struct Inode {
    /// What reads see.
    current: Vec<u8>,
    /// What a power cut keeps for certain.
    durable: Vec<u8>,
    /// The contents each unsynced sector had, oldest first.
    pending: BTreeMap<usize, Vec<Vec<u8>>>,
}

struct Sim {
    inodes: BTreeMap<u64, Inode>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    next_inode: u64,
    /// Counts power cuts and kills; a handle of an earlier life is dead.
    life: u64,
    /// Operations that change something, so far.
    operations: u64,
    fault: Option<(u64, Fault)>,
    is_crashed: bool,
    capacity_bytes: u64,
    random: u64,
}

impl SimDisk {
    /// An empty directory; everything random follows from `seed`.
    pub fn new(seed: u64) -> Self {
        let sim = Sim {
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            next_inode: 0,
            life: 0,
            operations: 0,
            fault: None,
            is_crashed: false,
            capacity_bytes: u64::MAX,
            random: seed,
        };
        SimDisk { sim: Arc::new(Mutex::new(sim)) }
    }

    /// Operations so far that change something: creations, removals, writes and syncs.
    pub fn operations(&self) -> u64 {
        self.sim.lock().operations
    }

    /// Plans one fault: `operations` more succeed, the next meets `fault`. Replaces an earlier plan.
    pub fn fault_after(&self, operations: u64, fault: Fault) {
        let mut sim = self.sim.lock();
        sim.fault = Some((sim.operations + operations, fault));
    }

    /// Drops the plan made by [`SimDisk::fault_after`].
    pub fn clear_fault(&self) {
        self.sim.lock().fault = None;
    }

    /// Space for files in bytes; writes that would grow them beyond it fail with `ENOSPC`.
    pub fn set_capacity(&self, bytes: u64) {
        self.sim.lock().capacity_bytes = bytes;
    }

    /// The machine loses power and comes back: keeps what was synced and an arbitrary part of the rest.
    pub fn power_cut(&self) {
        let mut sim = self.sim.lock();
        sim.restart();
        sim.settle_names();
        sim.settle_sectors();
    }

    /// The process dies and is started again: what was written stays, synced or not.
    pub fn kill(&self) {
        self.sim.lock().restart();
    }

    /// Flips one bit of a file, on the disk and in the cache. The file must be that long.
    pub fn flip_bit(&self, name: &str, bit: u64) {
        let mut sim = self.sim.lock();
        let inode = sim.names.get(name).copied().and_then(|id| sim.inodes.get_mut(&id));
        let inode = inode.unwrap_or_else(|| panic!("no file {name} to flip a bit of"));
        let (byte, mask) = ((bit / 8) as usize, 1 << (bit % 8));
        inode.current[byte] ^= mask;
        if let Some(durable) = inode.durable.get_mut(byte) {
            *durable ^= mask;
        }
    }

    /// The contents of a file as reads see them.
    pub fn contents(&self, name: &str) -> Option<Vec<u8>> {
        let sim = self.sim.lock();
        sim.names.get(name).and_then(|id| sim.inodes.get(id)).map(|inode| inode.current.clone())
    }
}

impl Sim {
    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.random() % bound as u64) as usize
    }

    fn restart(&mut self) {
        self.life += 1;
        self.is_crashed = false;
        self.fault = None;
    }

    fn settle_names(&mut self) {
        let mut names = self.durable_names.clone();
        let changed: Vec<String> = self
            .names
            .keys()
            .chain(self.durable_names.keys())
            .filter(|name| self.names.get(*name) != self.durable_names.get(*name))
            .cloned()
            .collect();
        for name in changed {
            if self.below(2) == 0 {
                match self.names.get(&name) {
                    Some(id) => names.insert(name, *id),
                    None => names.remove(&name),
                };
            }
        }
        self.inodes.retain(|id, _| names.values().any(|kept| kept == id));
        (self.names, self.durable_names) = (names.clone(), names);
    }

    fn settle_sectors(&mut self) {
        for id in self.inodes.keys().copied().collect::<Vec<_>>() {
            let mut inode = self.inodes.remove(&id).expect("key was just listed");
            for (sector, versions) in std::mem::take(&mut inode.pending) {
                let choice = self.below(versions.len() + 1);
                if let Some(kept) = choice.checked_sub(1).and_then(|index| versions.get(index)) {
                    put(&mut inode.durable, sector * SECTOR, kept);
                }
            }
            inode.current = inode.durable.clone();
            self.inodes.insert(id, inode);
        }
    }

    fn check(&self, life: u64) -> io::Result<()> {
        if self.is_crashed || life != self.life {
            Err(io::Error::other("the simulated machine is down"))
        } else {
            Ok(())
        }
    }

    /// Counts an operation and says which fault it meets.
    fn begin(&mut self, life: u64) -> io::Result<Option<Fault>> {
        self.check(life)?;
        let fault = self.fault.take_if(|(at, _)| *at <= self.operations).map(|(_, fault)| fault);
        self.operations += 1;
        self.is_crashed = fault == Some(Fault::Crash);
        Ok(fault)
    }

    /// It waits for the next operation, of a kind it can strike.
    fn put_off(&mut self, fault: Fault) {
        self.fault = Some((self.operations, fault));
    }

    /// Another place in the file for a write of so many bytes, whole blocks away; the right one if there is no other.
    fn beside(&mut self, id: u64, offset: usize, bytes: usize) -> usize {
        let block = crate::format::BLOCK_BYTES as usize;
        let file_bytes = self.inodes.get(&id).map_or(0, |inode| inode.current.len());
        let within = offset % block;
        let places = file_bytes.saturating_sub(bytes + within) / block + 1;
        let place = self.below(places) * block + within;
        if place + bytes <= file_bytes { place } else { offset }
    }

    /// For operations that are done whole or not at all.
    fn begin_whole(&mut self, life: u64) -> io::Result<()> {
        match self.begin(life)? {
            None => Ok(()),
            Some(Fault::Misdirect) => {
                self.put_off(Fault::Misdirect);
                Ok(())
            }
            Some(fault) => Err(fault.error()),
        }
    }

    fn write(&mut self, id: u64, data: &[u8], offset: usize) -> io::Result<()> {
        let used: usize = self.inodes.values().map(|inode| inode.current.len()).sum();
        let inode = self.inodes.get_mut(&id).expect("an open handle keeps its inode");
        let grown = (offset + data.len()).saturating_sub(inode.current.len());
        if (used + grown) as u64 > self.capacity_bytes {
            return Err(Fault::NoSpace.error());
        }
        inode.write(data, offset);
        Ok(())
    }

    /// A sync that fails: part of the dirty sectors reach the disk, all are clean from now on.
    fn fail_sync(&mut self, id: u64) {
        let pending = self.inodes.get_mut(&id).map(|inode| std::mem::take(&mut inode.pending)).unwrap_or_default();
        for (sector, versions) in pending {
            let is_kept = self.below(2) == 0;
            if let (true, Some(last), Some(inode)) = (is_kept, versions.last(), self.inodes.get_mut(&id)) {
                put(&mut inode.durable, sector * SECTOR, last);
            }
        }
    }
}

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Fault::Eio => io::Error::from_raw_os_error(rustix::io::Errno::IO.raw_os_error()),
            Fault::NoSpace => io::Error::from_raw_os_error(rustix::io::Errno::NOSPC.raw_os_error()),
            Fault::Crash | Fault::Misdirect => io::Error::other("the simulated machine went down"),
        }
    }
}

fn put(target: &mut Vec<u8>, at: usize, data: &[u8]) {
    target.resize(target.len().max(at + data.len()), 0);
    target[at..at + data.len()].copy_from_slice(data);
}

impl Inode {
    fn write(&mut self, data: &[u8], offset: usize) {
        if data.is_empty() {
            return;
        }
        put(&mut self.current, offset, data);
        for sector in offset / SECTOR..=(offset + data.len() - 1) / SECTOR {
            let end = self.current.len().min((sector + 1) * SECTOR);
            self.pending.entry(sector).or_default().push(self.current[sector * SECTOR..end].to_vec());
        }
    }

    fn sync(&mut self) {
        for (sector, versions) in std::mem::take(&mut self.pending) {
            let last = versions.last().expect("a pending sector has a version");
            put(&mut self.durable, sector * SECTOR, last);
        }
    }
}

impl Disk for SimDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let sim = self.sim.lock();
        sim.check(sim.life)?;
        Ok(sim.names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let mut sim = self.sim.lock();
        let life = sim.life;
        sim.begin_whole(life)?;
        if sim.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = sim.next_inode;
        sim.next_inode += 1;
        sim.inodes.insert(id, Inode::default());
        sim.names.insert(name.to_owned(), id);
        Ok(Arc::new(SimFile { disk: self.clone(), id, life }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let sim = self.sim.lock();
        sim.check(sim.life)?;
        let id = *sim.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Arc::new(SimFile { disk: self.clone(), id, life: sim.life }))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut sim = self.sim.lock();
        let life = sim.life;
        sim.begin_whole(life)?;
        sim.names.remove(name).map(|_| ()).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_dir(&self) -> io::Result<()> {
        let mut sim = self.sim.lock();
        let life = sim.life;
        sim.begin_whole(life)?;
        sim.durable_names = sim.names.clone();
        Ok(())
    }
}

struct SimFile {
    disk: SimDisk,
    id: u64,
    life: u64,
}

impl DiskFile for SimFile {
    fn bytes(&self) -> io::Result<u64> {
        let sim = self.disk.sim.lock();
        sim.check(self.life)?;
        Ok(sim.inodes.get(&self.id).map_or(0, |inode| inode.current.len() as u64))
    }

    fn write_all_at(&self, pieces: &mut [IoSlice<'_>], offset: u64) -> io::Result<()> {
        let mut data = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
        pieces.iter().for_each(|piece| data.extend_from_slice(piece));
        let mut sim = self.disk.sim.lock();
        match sim.begin(self.life)? {
            None => sim.write(self.id, &data, offset as usize),
            Some(Fault::Misdirect) => {
                let place = sim.beside(self.id, offset as usize, data.len());
                sim.write(self.id, &data, place)
            }
            Some(fault) => {
                // A write that is broken off ends at a sector border of the file.
                let end = offset as usize + sim.below(data.len() + 1);
                let part = (end / SECTOR * SECTOR).saturating_sub(offset as usize);
                sim.write(self.id, &data[..part], offset as usize)?;
                Err(fault.error())
            }
        }
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let sim = self.disk.sim.lock();
        sim.check(self.life)?;
        let inode = sim.inodes.get(&self.id).ok_or(io::ErrorKind::NotFound)?;
        let at = offset as usize;
        let data = inode.current.get(at..at + buf.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(data);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut sim = self.disk.sim.lock();
        let fault = sim.begin(self.life)?;
        if fault == Some(Fault::Misdirect) {
            sim.put_off(Fault::Misdirect);
        }
        match fault {
            None | Some(Fault::Misdirect) => {
                sim.inodes.get_mut(&self.id).expect("an open handle keeps its inode").sync();
                Ok(())
            }
            // Whether the machine got round to it is for the power cut to say.
            Some(Fault::Crash) => Err(Fault::Crash.error()),
            Some(fault) => {
                sim.fail_sync(self.id);
                Err(fault.error())
            }
        }
    }
}
