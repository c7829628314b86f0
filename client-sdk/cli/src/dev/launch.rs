//! The last steps of a daemon before it becomes its program: a session of its own, so that no Ctrl-C of the terminal
//! reaches it; room for many descriptors; its pid file. Then it turns into the program, under the same pid.
//!
//! A step of its own (`seam dev-exec`) because the pid file must be there before the program is: were it written from
//! outside, a starter killed in between would leave a process that nobody finds.

use super::identity::Identity;
use super::layout::write_atomically;
use anyhow::{Context, Error, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit, setsid};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Becomes `command`; returns only if that fails.
///
/// # Errors
/// The pid file cannot be written, or the program cannot be run.
pub fn exec(pid_file: &Path, command: &[OsString]) -> Result<()> {
    setsid().context("cannot leave the terminal's session")?;
    raise_descriptor_limit();
    write_atomically(pid_file, &Identity::own()?.encode())?;
    let (program, arguments) = command.split_first().context("no program to run")?;
    let error = Command::new(program).args(arguments).exec();
    Err(Error::from(error)).with_context(|| format!("cannot run {}", Path::new(program).display()))
}

/// As many as the system lets us have. Best effort: the program itself says so if they do not suffice.
fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum }) {
        tracing::warn!(%error, "cannot raise the limit of open files");
    }
}
