//! Where a local cluster keeps its things: one directory, one place for each kind of file. Paths only, and how a file is
//! replaced so that a reader sees the old one or the new one and nothing between.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The directory of one local cluster; absolute, since the processes outlive the shell that started them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    root: PathBuf,
}

/// Held while a command changes the cluster, so that two of them never do at once. Released by the system if we die.
pub struct Lock {
    _file: File,
}

impl Layout {
    /// # Errors
    /// The current directory is gone.
    pub fn new(dir: &Path) -> Result<Self> {
        let root = std::path::absolute(dir).with_context(|| format!("{} is not a usable path", dir.display()))?;
        Ok(Layout { root })
    }

    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What the cluster is made of: names, ports, domains. Its presence makes the directory a cluster's.
    #[must_use]
    pub fn cluster_file(&self) -> PathBuf {
        self.root.join("cluster.toml")
    }

    /// What client programs take by `--config`.
    #[must_use]
    pub fn client_file(&self) -> PathBuf {
        self.root.join("client.toml")
    }

    /// The round trip added to metad's links, in milliseconds; the relay reads it again and again.
    #[must_use]
    pub fn rtt_file(&self) -> PathBuf {
        self.root.join("metad_rtt_ms")
    }

    /// The throw-away certificate authority and everybody's certificates.
    #[must_use]
    pub fn pki_dir(&self) -> PathBuf {
        self.root.join("pki")
    }

    #[must_use]
    pub fn config_file(&self, name: &str) -> PathBuf {
        self.root.join("conf").join(format!("{name}.toml"))
    }

    #[must_use]
    pub fn data_dir(&self, name: &str) -> PathBuf {
        self.root.join("data").join(name)
    }

    #[must_use]
    pub fn log_file(&self, name: &str) -> PathBuf {
        self.root.join("logs").join(format!("{name}.log"))
    }

    #[must_use]
    pub fn pid_file(&self, name: &str) -> PathBuf {
        self.root.join("run").join(format!("{name}.pid"))
    }

    #[must_use]
    pub fn exists(&self) -> bool {
        self.cluster_file().is_file()
    }

    /// Makes every directory. The root is for its owner alone: it holds private keys.
    ///
    /// # Errors
    /// A directory cannot be made.
    pub fn create(&self) -> Result<()> {
        use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.root)
            .and_then(|()| fs::set_permissions(&self.root, fs::Permissions::from_mode(0o700)))
            .with_context(|| format!("cannot make {}", self.root.display()))?;
        for dir in ["conf", "data", "logs", "run"].map(|name| self.root.join(name)) {
            fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        Ok(())
    }

    /// Takes the cluster's lock.
    ///
    /// # Errors
    /// Another `seam dev` command holds it.
    pub fn lock(&self) -> Result<Lock> {
        let path = self.root.join("lock");
        let file = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Lock { _file: file }),
            Err(rustix::io::Errno::WOULDBLOCK) => {
                bail!("another `seam dev` command is at work on {}: wait for it to end", self.root.display())
            }
            Err(error) => Err(error).with_context(|| format!("cannot lock {}", path.display())),
        }
    }

    /// Removes what a cluster keeps, and the directory itself if nothing else is in it: a mistyped `--dir` costs nothing.
    ///
    /// # Errors
    /// Something cannot be removed.
    pub fn wipe(&self) -> Result<()> {
        for dir in ["conf", "data", "logs", "run", "pki"].map(|name| self.root.join(name)) {
            allow_missing(fs::remove_dir_all(&dir)).with_context(|| format!("cannot remove {}", dir.display()))?;
        }
        let files = [self.client_file(), self.rtt_file(), self.root.join("lock"), self.cluster_file()];
        for file in files {
            allow_missing(fs::remove_file(&file)).with_context(|| format!("cannot remove {}", file.display()))?;
        }
        match fs::remove_dir(&self.root) {
            Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(()),
            other => allow_missing(other).with_context(|| format!("cannot remove {}", self.root.display())),
        }
    }
}

/// Writes beside, then renames over: a reader sees the whole old file or the whole new one.
///
/// # Errors
/// The directory cannot be written.
pub fn write_atomically(path: &Path, contents: &str) -> Result<()> {
    let beside = path.with_added_extension(format!("{}.new", std::process::id()));
    let written = File::create(&beside).and_then(|mut file| {
        file.write_all(contents.as_bytes())?;
        file.sync_data()
    });
    written.and_then(|()| fs::rename(&beside, path)).with_context(|| format!("cannot write {}", path.display()))
}

fn allow_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> (tempfile::TempDir, Layout) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let layout = Layout::new(&dir.path().join("cluster")).expect("a layout");
        layout.create().expect("directories");
        (dir, layout)
    }

    #[test]
    fn a_second_command_finds_the_lock_taken_until_the_first_lets_go() {
        let (_dir, layout) = scratch();
        let held = layout.lock().expect("free");
        let refused = layout.lock().err().expect("taken");
        assert!(refused.to_string().contains("another `seam dev` command"), "{refused}");
        drop(held);
        layout.lock().expect("free again");
    }

    #[test]
    fn wiping_leaves_what_is_not_ours() {
        let (_dir, layout) = scratch();
        write_atomically(&layout.cluster_file(), "x").expect("written");
        let theirs = layout.root().join("notes.txt");
        fs::write(&theirs, "mine").expect("written");
        layout.wipe().expect("wiped");
        assert!(theirs.is_file());
        assert!(!layout.exists());
        fs::remove_file(&theirs).expect("removed");
        layout.wipe().expect("wiped again");
        assert!(!layout.root().exists());
    }

    #[test]
    fn the_directory_is_for_its_owner_alone() {
        use std::os::unix::fs::PermissionsExt;
        let (_dir, layout) = scratch();
        let mode = fs::metadata(layout.root()).expect("there").permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
}
