//! [`Disk`] on a real directory: positioned vectored writes, `fdatasync`, and a lock on the directory while it is open.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FlockOperation;

use crate::disk::{Disk, DiskFile};
use crate::error::OpenError;

/// The most pieces one `pwritev` takes (`IOV_MAX` on Linux).
const MAX_PIECES_PER_WRITE: usize = 1024;

/// A directory, held under an exclusive lock until dropped.
pub struct RealDisk {
    path: PathBuf,
    dir: File,
}

impl RealDisk {
    /// Opens `path`, making it (and syncing its parent) if missing. `InUse` if another `RealDisk` holds it.
    pub fn open(path: &Path) -> Result<RealDisk, OpenError> {
        let name = path.display().to_string();
        if !path.is_dir() {
            std::fs::create_dir_all(path).map_err(OpenError::io("make directory", &name))?;
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            File::open(parent).and_then(|dir| dir.sync_all()).map_err(OpenError::io("sync parent of", &name))?;
        }
        let dir = File::open(path).map_err(OpenError::io("open directory", &name))?;
        match rustix::fs::flock(&dir, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(RealDisk { path: path.to_owned(), dir }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(OpenError::InUse),
            Err(errno) => Err(OpenError::io("lock directory", &name)(errno.into())),
        }
    }

    fn options() -> OpenOptions {
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        options
    }
}

impl Disk for RealDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            // A name that is not UTF-8 is none of ours.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(Self::options().create_new(true).open(self.path.join(name))?)))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(RealFile(Self::options().open(self.path.join(name))?)))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.path.join(name))
    }

    fn sync_dir(&self) -> io::Result<()> {
        self.dir.sync_all()
    }
}

struct RealFile(File);

impl DiskFile for RealFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn write_all_at(&self, mut pieces: &mut [IoSlice<'_>], mut offset: u64) -> io::Result<()> {
        // Leading empty pieces would make a write of nothing look like a full disk.
        IoSlice::advance_slices(&mut pieces, 0);
        while !pieces.is_empty() {
            let most = pieces.len().min(MAX_PIECES_PER_WRITE);
            match rustix::io::pwritev(&self.0, &pieces[..most], offset) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut pieces, written);
                    offset += written as u64;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buf, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }
}
