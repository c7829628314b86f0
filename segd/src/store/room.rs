//! Whether the disk has room for the journal, asked before the node starts: one that runs out of it in its first second takes
//! part in the next placements and then fails them.

use rustix::fs::statvfs;
use seam_journal::JournalConfig;
use std::path::Path;
use std::{fs, io};

/// The disk cannot hold the journal's first files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the disk has {free_bytes} bytes free, but the journal still needs {missing_bytes} ({files} files of {file_bytes}): \
     free space there, put data_dir on a larger disk, or lower limits.journal_file_bytes"
)]
pub struct NoRoom {
    free_bytes: u64,
    missing_bytes: u64,
    files: u64,
    file_bytes: u64,
}

/// Room for the file that is written and the spares behind it, as far as they are not there yet. A journal that has them all
/// recycles its own files: it starts on a full disk too, so that retention can free space.
///
/// # Errors
/// `NoRoom`, or the disk cannot be asked.
pub fn check(config: &JournalConfig) -> anyhow::Result<()> {
    fs::create_dir_all(&config.dir)?;
    let disk = statvfs(&config.dir).map_err(io::Error::from)?;
    Ok(judge(config, &lengths(&config.dir)?, disk.f_bavail.saturating_mul(disk.f_frsize))?)
}

fn judge(config: &JournalConfig, lengths: &[u64], free_bytes: u64) -> Result<(), NoRoom> {
    let file_bytes = config.file_bytes;
    let whole = lengths.iter().filter(|bytes| **bytes >= file_bytes).count() as u64;
    // Cut short while they were made: the journal removes them.
    let unfinished: u64 = lengths.iter().filter(|bytes| **bytes < file_bytes).sum();
    let files = (config.spare_files as u64 + 1).saturating_sub(whole);
    let missing_bytes = files.saturating_mul(file_bytes);
    let free_bytes = free_bytes.saturating_add(unfinished);
    if missing_bytes > free_bytes {
        return Err(NoRoom { free_bytes, missing_bytes, files, file_bytes });
    }
    Ok(())
}

fn lengths(dir: &Path) -> io::Result<Vec<u64>> {
    let mut lengths = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.path().extension().is_some_and(|kind| kind == "journal") {
            lengths.push(entry.metadata()?.len());
        }
    }
    Ok(lengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 64 << 20;

    #[test]
    fn a_disk_without_room_for_the_journal_is_refused_with_the_remedy() {
        let config = JournalConfig::new("journal");
        let files = config.spare_files as u64 + 1;
        assert_eq!(judge(&config, &[], files * FILE), Ok(()));
        let error = judge(&config, &[], files * FILE - 1).expect_err("one byte is missing");
        assert_eq!((error.files, error.missing_bytes), (files, files * FILE));
        for named in ["bytes free", "free space", "larger disk", "limits.journal_file_bytes"] {
            assert!(error.to_string().contains(named), "{error}");
        }
        // What is there already needs no room; what was cut short gives room back.
        assert_eq!(judge(&config, &[FILE, FILE], FILE), Ok(()));
        assert_eq!(judge(&config, &[FILE, FILE, FILE / 2], FILE / 2), Ok(()));
        assert_eq!(judge(&config, &[FILE; 3], 0), Ok(()));
    }

    /// Against the real disk: no disk has room for files of an exbibyte.
    #[test]
    fn the_real_disk_is_asked() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut config = JournalConfig::new(dir.path().join("journal"));
        config.file_bytes = 1 << 60;
        let error = check(&config).expect_err("no disk is so large").downcast::<NoRoom>().expect("no room");
        assert_eq!(error.file_bytes, 1 << 60);
        config.file_bytes = 1 << 20;
        check(&config).expect("a few MiB are free");
    }
}
