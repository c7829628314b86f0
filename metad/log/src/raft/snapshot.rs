//! The snapshot file of a member: written aside, synced, renamed into place, its folder synced. Never half of one.

use super::types::SnapshotMeta;
use bytes::Bytes;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8; 8] = b"SEAMSNP1";
/// Magic, length of the meta part, length of the data part.
const HEADER_BYTES: usize = 8 + 4 + 8;
const CHECKSUM_BYTES: usize = 4;

/// Where the newest snapshot lives.
#[derive(Clone, Debug)]
pub struct SnapshotFile {
    dir: PathBuf,
}

impl SnapshotFile {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        SnapshotFile { dir: dir.into() }
    }

    fn path(&self) -> PathBuf {
        self.dir.join("snapshot")
    }

    /// Replaces the snapshot. It is durable when this returns. Blocks on the disk.
    pub fn write(&self, meta: &SnapshotMeta, data: &[u8]) -> io::Result<()> {
        let meta = postcard::to_allocvec(meta).map_err(io::Error::other)?;
        let meta_bytes = u32::try_from(meta.len()).map_err(io::Error::other)?;
        let mut head = Vec::with_capacity(HEADER_BYTES + meta.len());
        head.extend_from_slice(MAGIC);
        head.extend_from_slice(&meta_bytes.to_le_bytes());
        head.extend_from_slice(&(data.len() as u64).to_le_bytes());
        head.extend_from_slice(&meta);
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&head), data);

        let aside = self.dir.join("snapshot.tmp");
        let mut file = File::create(&aside)?;
        file.write_all(&head)?;
        file.write_all(data)?;
        file.write_all(&checksum.to_le_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(&aside, self.path())?;
        File::open(&self.dir)?.sync_all()
    }

    /// The newest snapshot, if there is one. A damaged file is an error: its log may be purged already, so going on
    /// without it would lose state.
    pub fn read(&self) -> io::Result<Option<(SnapshotMeta, Bytes)>> {
        let path = self.path();
        let bytes = match fs::read(&path) {
            Ok(bytes) => Bytes::from(bytes),
            Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(why),
        };
        parse(&bytes).map(Some).ok_or_else(|| damaged(&path))
    }
}

fn damaged(path: &Path) -> io::Error {
    let text = format!(
        "the metadata snapshot {} is damaged; empty this member's data folder under a new member id, or restore the file",
        path.display()
    );
    io::Error::new(io::ErrorKind::InvalidData, text)
}

fn parse(bytes: &Bytes) -> Option<(SnapshotMeta, Bytes)> {
    let body_end = bytes.len().checked_sub(CHECKSUM_BYTES)?;
    if body_end < HEADER_BYTES || &bytes[..8] != MAGIC {
        return None;
    }
    let checksum = u32::from_le_bytes(bytes[body_end..].try_into().ok()?);
    if crc32c::crc32c(&bytes[..body_end]) != checksum {
        return None;
    }
    let meta_bytes = u32::from_le_bytes(bytes[8..12].try_into().ok()?) as usize;
    let data_bytes = usize::try_from(u64::from_le_bytes(bytes[12..20].try_into().ok()?)).ok()?;
    let data_start = HEADER_BYTES.checked_add(meta_bytes)?;
    if data_start.checked_add(data_bytes)? != body_end {
        return None;
    }
    let meta = postcard::from_bytes(&bytes[HEADER_BYTES..data_start]).ok()?;
    Some((meta, bytes.slice(data_start..body_end)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raft::types::Types;
    use openraft::testing::log_id;

    fn meta(index: u64) -> SnapshotMeta {
        SnapshotMeta { last_log_id: Some(log_id::<Types>(1, 1, index)), ..SnapshotMeta::default() }
    }

    #[test]
    fn a_snapshot_is_read_back_and_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let file = SnapshotFile::new(dir.path());
        assert!(file.read().unwrap().is_none());
        file.write(&meta(5), b"five").unwrap();
        file.write(&meta(9), b"").unwrap();
        assert_eq!(file.read().unwrap().unwrap(), (meta(9), Bytes::new()));
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let dir = tempfile::tempdir().unwrap();
        let file = SnapshotFile::new(dir.path());
        file.write(&meta(5), b"some state").unwrap();
        let good = fs::read(file.path()).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(file.path(), &bad).unwrap();
            assert!(file.read().is_err(), "flipped byte {at} went unseen");
        }
        fs::write(file.path(), &good[..good.len() - 1]).unwrap();
        assert!(file.read().is_err(), "a cut file went unseen");
    }
}
