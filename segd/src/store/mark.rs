//! The mark of a clean stop. A topic with `ack = replicated` acks before the sync, so after an unclean stop the end found on
//! disk need not be the end that was acked: such a replica answers nobody until its segment is decided. A clean stop syncs
//! everything and then says so, durably, in this file; and names the replicas whose end was unknown before it already.

use anyhow::Context;
use seam_wire::SegmentId;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

const NAME: &str = "stopped-clean";

/// How the last life of this disk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LastStop {
    /// Everything that was acked is on disk, but for what these segments may have lost at an earlier, unclean stop.
    Clean {
        unknown: BTreeSet<SegmentId>,
    },
    Unclean,
}

impl LastStop {
    /// Whether the end found on disk is the end that was acked, though acks did not wait for the sync.
    pub fn knows_tail(&self, segment: SegmentId) -> bool {
        match self {
            LastStop::Clean { unknown } => !unknown.contains(&segment),
            LastStop::Unclean => false,
        }
    }
}

/// Reads the mark. It stays until [`clear`]: a start that fails before it writes anything leaves the disk as it was.
pub fn read(data_dir: &Path) -> anyhow::Result<LastStop> {
    let path = data_dir.join(NAME);
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(LastStop::Unclean),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let id = |line: &str| line.parse().map(SegmentId).with_context(|| format!("{}: {line:?} is no id", path.display()));
    let unknown = text.lines().map(id).collect::<anyhow::Result<_>>()?;
    Ok(LastStop::Clean { unknown })
}

/// Takes the mark away, durably: from here on something may be acked that is not on disk.
pub fn clear(data_dir: &Path) -> std::io::Result<()> {
    match std::fs::remove_file(data_dir.join(NAME)) {
        Ok(()) => File::open(data_dir)?.sync_all(),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Leaves the mark, durably. Only after everything else was synced.
pub fn leave(data_dir: &Path, unknown: &BTreeSet<SegmentId>) -> std::io::Result<()> {
    let fresh = data_dir.join(NAME).with_extension("new");
    let text: String = unknown.iter().map(|segment| format!("{}\n", segment.0)).collect();
    std::fs::write(&fresh, text)?;
    File::open(&fresh)?.sync_all()?;
    std::fs::rename(&fresh, data_dir.join(NAME))?;
    File::open(data_dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_there_until_it_is_cleared_and_names_what_was_unknown() {
        let dir = tempfile::tempdir().expect("a folder");
        assert_eq!(read(dir.path()).expect("readable"), LastStop::Unclean);
        let unknown = BTreeSet::from([SegmentId(3), SegmentId(70)]);
        leave(dir.path(), &unknown).expect("left");
        for _ in 0..2 {
            let stop = read(dir.path()).expect("readable");
            assert_eq!(stop, LastStop::Clean { unknown: unknown.clone() });
            assert!(stop.knows_tail(SegmentId(4)) && !stop.knows_tail(SegmentId(70)));
        }
        clear(dir.path()).expect("cleared");
        clear(dir.path()).expect("nothing to clear");
        assert!(!read(dir.path()).expect("readable").knows_tail(SegmentId(4)));
    }
}
