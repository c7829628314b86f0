//! Reading the processes' logs: the last lines, and what is added while one looks. Reads from the end, so that a long log
//! costs no more than a short one.

use super::cluster::Cluster;
use super::layout::Layout;
use crate::output::Out;
use anyhow::{Context, Result};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How much of a log is read at a time, from its end.
const BLOCK_BYTES: u64 = 64 << 10;
/// How often a followed log is looked at.
const POLL: Duration = Duration::from_millis(100);

/// `seam dev logs`: prints the last `lines` of each log that `pattern` means, and goes on if `follow` is set.
///
/// # Errors
/// No such process, or a log that cannot be read.
pub fn show(layout: &Layout, pattern: &str, lines: usize, follow: bool, out: &mut Out) -> Result<()> {
    let names = Cluster::load(layout)?.select(pattern)?;
    let labelled = names.len() > 1;
    let mut followed = Vec::new();
    for name in names {
        let label = if labelled { format!("{name} | ") } else { String::new() };
        let path = layout.log_file(&name);
        let read =
            File::open(&path).and_then(|mut file| Ok((file.metadata()?.len(), last_lines_of(&mut file, lines)?)));
        let (end, last) = match read {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (0, Vec::new()),
            other => other.with_context(|| format!("cannot read {}", path.display()))?,
        };
        for line in last {
            out.line(format!("{label}{line}"))?;
        }
        followed.push(Followed { label, path, at: end, partial: String::new() });
    }
    out.flush()?;
    if !follow {
        return Ok(());
    }
    loop {
        std::thread::sleep(POLL);
        for log in &mut followed {
            for line in log.news()? {
                out.line(format!("{}{line}", log.label))?;
            }
        }
        out.flush()?;
    }
}

/// The last `count` lines of the file at `path`; none if it is not there.
///
/// # Errors
/// The file cannot be read.
pub fn last_lines(path: &Path, count: usize) -> std::io::Result<Vec<String>> {
    match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
        Ok(mut file) => last_lines_of(&mut file, count),
    }
}

fn last_lines_of(file: &mut File, count: usize) -> std::io::Result<Vec<String>> {
    let mut start = file.metadata()?.len();
    let mut tail: Vec<u8> = Vec::new();
    // One newline more than lines: the first line found must be whole.
    while start > 0 && tail.iter().filter(|byte| **byte == b'\n').count() <= count {
        let block = start.min(BLOCK_BYTES);
        start -= block;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.by_ref().take(block).read_to_end(&mut bytes)?;
        bytes.append(&mut tail);
        tail = bytes;
    }
    let text = String::from_utf8_lossy(&tail);
    let lines: Vec<&str> = text.lines().collect();
    Ok(lines[lines.len().saturating_sub(count)..].iter().map(|line| (*line).to_owned()).collect())
}

struct Followed {
    label: String,
    path: PathBuf,
    at: u64,
    /// A line whose end has not been written yet.
    partial: String,
}

impl Followed {
    fn news(&mut self) -> Result<Vec<String>> {
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other.with_context(|| format!("cannot read {}", self.path.display()))?,
        };
        if file.metadata()?.len() < self.at {
            self.at = 0; // Begun anew.
        }
        file.seek(SeekFrom::Start(self.at))?;
        let mut bytes = Vec::new();
        self.at += file.read_to_end(&mut bytes)? as u64;
        self.partial.push_str(&String::from_utf8_lossy(&bytes));
        let whole = self.partial.rfind('\n').map_or(0, |end| end + 1);
        let rest = self.partial.split_off(whole);
        Ok(std::mem::replace(&mut self.partial, rest).lines().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_last_lines_are_found_across_blocks() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("x.log");
        assert!(last_lines(&path, 5).expect("no file is no error").is_empty());
        let lines: Vec<String> = (0..9_000).map(|n| format!("line {n} {}", "x".repeat(n % 50))).collect();
        fs::write(&path, lines.join("\n") + "\n").expect("written");
        for count in [0, 1, 7, 5_000, 9_000, 20_000] {
            let expected = &lines[lines.len().saturating_sub(count)..];
            assert_eq!(last_lines(&path, count).expect("read"), expected, "{count}");
        }
    }

    #[test]
    fn following_gives_whole_lines_and_survives_a_new_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let path = dir.path().join("x.log");
        let mut log = Followed { label: String::new(), path: path.clone(), at: 0, partial: String::new() };
        fs::write(&path, "one\ntw").expect("written");
        assert_eq!(log.news().expect("read"), ["one"]);
        fs::write(&path, "one\ntwo\nthree\n").expect("written");
        assert_eq!(log.news().expect("read"), ["two", "three"]);
        fs::write(&path, "new\n").expect("written");
        assert_eq!(log.news().expect("read"), ["new"]);
    }
}
