//! What a data directory knows of itself: how often it was started, and since when it has been in use. Small files, durable
//! before anything relies on them; lost with the disk, as they must be.

use anyhow::Context;
use seam_wire::{Incarnation, SegmentId};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const INCARNATION: &str = "incarnation";
const FOUNDED: &str = "founded";

/// One more than at the last start, and never below the clock: larger at each start of this node. Durable before it is used.
pub fn next_incarnation(data_dir: &Path) -> anyhow::Result<Incarnation> {
    let last = read(data_dir, INCARNATION)?.unwrap_or(0);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let next = u64::try_from(clock).unwrap_or(0).max(last + 1);
    write(data_dir, INCARNATION, next)?;
    Ok(Incarnation(next))
}

/// The first segment that an earlier disk in this place cannot have held; `None` on a disk that is new.
pub fn founded(data_dir: &Path) -> anyhow::Result<Option<SegmentId>> {
    Ok(read(data_dir, FOUNDED)?.map(SegmentId))
}

/// Marks the disk, once. Durable when it returns.
pub fn found(data_dir: &Path, first: SegmentId) -> anyhow::Result<()> {
    write(data_dir, FOUNDED, first.0)
}

fn read(data_dir: &Path, name: &str) -> anyhow::Result<Option<u64>> {
    let path = data_dir.join(name);
    match fs::read_to_string(&path) {
        Ok(text) => {
            let number = text.trim().parse();
            Ok(Some(number.with_context(|| format!("{} is damaged: it should hold one number", path.display()))?))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn write(data_dir: &Path, name: &str, number: u64) -> anyhow::Result<()> {
    let path = data_dir.join(name);
    let fresh = path.with_extension("new");
    let durably = || {
        let mut file = File::create(&fresh)?;
        file.write_all(number.to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &path)?;
        File::open(data_dir)?.sync_all()
    };
    durably().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn lives_rise_and_a_mark_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let first = next_incarnation(dir.path()).unwrap();
        assert!(next_incarnation(dir.path()).unwrap() > first);
        assert_eq!(founded(dir.path()).unwrap(), None);
        found(dir.path(), SegmentId(7)).unwrap();
        assert_eq!(founded(dir.path()).unwrap(), Some(SegmentId(7)));
    }

    #[test]
    fn a_damaged_mark_is_named() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(FOUNDED), "soon").unwrap();
        assert!(founded(dir.path()).unwrap_err().to_string().contains("founded is damaged"));
    }
}
