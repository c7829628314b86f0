//! Where the figures were taken: file system, cost of a sync, cores. Measured here rather than asked of anyone.

use crate::measure::latency::Summary;
use crate::report::contract::Environment;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use thiserror::Error;

const PROBE_WRITES: usize = 200;
const PROBE_BYTES: usize = 4096;

#[derive(Debug, Error)]
pub enum EnvironmentError {
    #[error("data directory {dir}: {source}")]
    Dir { dir: PathBuf, source: std::io::Error },
    #[error(
        "{dir} is on a {file_system}: a sync costs nothing there, so the figures mean nothing. Use a directory on a disk, or pass --allow-tmpfs"
    )]
    Memory { dir: PathBuf, file_system: String },
}

/// Describes the machine and the data directory; `durability` and the generator's figures are filled in by the run.
/// A file system in memory is refused unless `allow_memory`.
pub fn survey(dir: &Path, allow_memory: bool) -> Result<Environment, EnvironmentError> {
    let fail = |source| EnvironmentError::Dir { dir: dir.to_owned(), source };
    let dir_found = dir.canonicalize().map_err(fail)?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(fail)?;
    let file_system = file_system(&mounts, &dir_found).unwrap_or("unknown").to_owned();
    if matches!(file_system.as_str(), "tmpfs" | "ramfs") && !allow_memory {
        return Err(EnvironmentError::Memory { dir: dir.to_owned(), file_system });
    }
    let sync = probe_sync(&dir_found).map_err(fail)?;
    Ok(Environment {
        file_system,
        fdatasync_p50_us: sync.p50_us,
        fdatasync_p99_us: sync.p99_us,
        cores: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        cpu: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_s: std::time::UNIX_EPOCH.elapsed().map_or(0, |d| d.as_secs()),
        ..Environment::default()
    })
}

/// The type of the file system that `dir` is on, from the text of `mountinfo`: the longest mount point that holds it, the
/// last one where several are mounted over each other.
fn file_system<'a>(mountinfo: &'a str, dir: &Path) -> Option<&'a str> {
    let mount = |line: &'a str| {
        let (before, after) = line.split_once(" - ")?;
        let point = before.split(' ').nth(4)?.replace("\\040", " ");
        let holds = dir.starts_with(&point);
        holds.then_some((point.len(), after.split(' ').next()?))
    };
    mountinfo.lines().filter_map(mount).max_by_key(|(len, _)| *len).map(|(_, kind)| kind)
}

/// Overwrites a zero-filled file in blocks of 4 KiB, each followed by an fdatasync, as a journal does.
fn probe_sync(dir: &Path) -> std::io::Result<Summary> {
    let path = dir.join(format!(".loadgen-sync-probe-{}", std::process::id()));
    let result = OpenOptions::new().write(true).create(true).truncate(true).open(&path).and_then(time_syncs);
    let removed = fs::remove_file(&path);
    let durations_us = result?;
    removed?;
    Ok(Summary::exact(&durations_us))
}

fn time_syncs(mut file: File) -> std::io::Result<Vec<u64>> {
    let block = [0u8; PROBE_BYTES];
    for _ in 0..PROBE_WRITES {
        file.write_all(&block)?;
    }
    file.sync_all()?;
    file.seek(SeekFrom::Start(0))?;
    let mut durations_us = Vec::with_capacity(PROBE_WRITES);
    for _ in 0..PROBE_WRITES {
        let start = Instant::now();
        file.write_all(&block)?;
        file.sync_data()?;
        durations_us.push(u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    Ok(durations_us)
}

fn cpu_model(cpuinfo: &str) -> String {
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    model.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
22 1 254:0 / / rw,relatime - ext4 /dev/vda rw
30 22 0:26 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw
31 22 254:16 / /mnt/my\\040disk rw - xfs /dev/vdb rw
32 22 0:30 / /mnt rw - tmpfs tmpfs rw
";

    #[test]
    fn the_longest_mount_point_wins() {
        let kind = |dir: &str| file_system(MOUNTS, Path::new(dir));
        assert_eq!(kind("/home/me/.seam"), Some("ext4"));
        assert_eq!(kind("/dev/shm/x"), Some("tmpfs"));
        assert_eq!(kind("/dev/shmx"), Some("ext4"), "a mount point is a whole path component");
        assert_eq!(kind("/mnt/my disk/data"), Some("xfs"));
    }

    #[test]
    fn survey_measures_and_leaves_nothing_behind() {
        let dir = tempfile::tempdir().expect("a directory");
        let found = survey(dir.path(), true).expect("a readable directory");
        assert!(found.cores >= 1 && !found.file_system.is_empty());
        assert!(found.fdatasync_p99_us >= found.fdatasync_p50_us);
        assert_eq!(fs::read_dir(dir.path()).expect("still there").count(), 0);
    }

    #[test]
    fn a_file_system_in_memory_is_refused_unless_asked_for() {
        let shm = Path::new("/dev/shm");
        if !shm.is_dir() {
            return;
        }
        assert!(matches!(survey(shm, false), Err(EnvironmentError::Memory { .. })));
        assert!(survey(shm, true).is_ok());
    }

    #[test]
    fn a_missing_directory_is_named() {
        let error = survey(Path::new("/no/such/place"), false).expect_err("not there");
        assert!(error.to_string().contains("/no/such/place"));
    }
}
