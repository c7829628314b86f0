//! Where a command's answer goes: standard output, as a table or as JSON. A reader that has had enough (`| head`) closes
//! the pipe; that ends the command quietly and is no error. Progress and complaints go to standard error, not here.

use anyhow::{Context, Result};
use serde::Serialize;
use std::io::{self, BufWriter, Stdout, Write};

/// Bytes gathered before they are written, unless flushed earlier.
const BUFFER_BYTES: usize = 64 << 10;

/// Buffered standard output.
pub struct Out {
    inner: BufWriter<Stdout>,
    json: bool,
}

impl Out {
    #[must_use]
    pub fn new(json: bool) -> Self {
        Out { inner: BufWriter::with_capacity(BUFFER_BYTES, io::stdout()), json }
    }

    /// Whether the user asked for JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// One line of text.
    ///
    /// # Errors
    /// Standard output cannot be written; see [`is_closed_stdout`].
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<()> {
        self.bytes_line(text.as_ref().as_bytes())
    }

    /// One line of any bytes, as they are.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn bytes_line(&mut self, bytes: &[u8]) -> Result<()> {
        let written = self.inner.write_all(bytes).and_then(|()| self.inner.write_all(b"\n"));
        checked(written)
    }

    /// One JSON value, indented, for a command that gives one answer.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec_pretty(value)?;
        self.bytes_line(&text)
    }

    /// One JSON value on one line, for a command that gives many.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn json_line(&mut self, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_vec(value)?;
        self.bytes_line(&text)
    }

    /// Columns aligned under their headings; the last one is not padded.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn table(&mut self, headings: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let headings: Vec<String> = headings.iter().map(|h| (*h).to_owned()).collect();
        let width = |column: usize| {
            let cells = rows.iter().chain([&headings]).filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..headings.len()).map(width).collect();
        for row in [&headings].into_iter().chain(rows) {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }

    /// Hands everything to the operating system.
    ///
    /// # Errors
    /// As [`Out::line`].
    pub fn flush(&mut self) -> Result<()> {
        let flushed = self.inner.flush();
        checked(flushed)
    }
}

/// Nobody reads standard output any more. A type of its own, so that a broken network connection is never taken for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StdoutClosed;

impl std::fmt::Display for StdoutClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("nobody reads standard output any more")
    }
}

impl std::error::Error for StdoutClosed {}

fn checked(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StdoutClosed.into()),
        Err(error) => Err(error).context("cannot write to standard output"),
        Ok(()) => Ok(()),
    }
}

/// An error and its causes on one line. A cause that the text before it tells already is left out.
#[must_use]
pub fn explain(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        before if before.contains(&cause) => told,
        before => format!("{before}: {cause}"),
    })
}

/// Whether `error` only says that nobody reads standard output any more.
#[must_use]
pub fn is_closed_stdout(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.is::<StdoutClosed>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_is_told_once() {
        let bare = anyhow::anyhow!("the disk is full");
        assert_eq!(explain(&bare), "the disk is full");
        let told = anyhow::anyhow!("the disk is full").context("cannot write: the disk is full").context("no report");
        assert_eq!(explain(&told), "no report: cannot write: the disk is full");
    }

    #[test]
    fn only_our_own_closed_pipe_counts() {
        let closed = checked(Err(io::ErrorKind::BrokenPipe.into())).context("printing").expect_err("an error");
        let full = checked(Err(io::ErrorKind::StorageFull.into())).expect_err("an error");
        let network =
            Err::<(), _>(io::Error::from(io::ErrorKind::BrokenPipe)).context("sending").expect_err("an error");
        assert!(is_closed_stdout(&closed));
        assert!(!is_closed_stdout(&full));
        assert!(!is_closed_stdout(&network));
    }
}
