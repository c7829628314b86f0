//! Starting, finding and stopping one process of the cluster. Says how a process stands; decides nothing about others.

use super::cluster::{Node, RELAY, Role};
use super::identity::{Identity, Sent, Vital};
use super::layout::Layout;
use super::{logs, wait};
use anyhow::{Context, Result, bail};
use rustix::process::Signal;
use serde::Serialize;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long a process may take from its start until its pid file is there.
const LAUNCH_PATIENCE: Duration = Duration::from_secs(20);
/// How long a process has to end by itself after SIGTERM.
pub const STOP_PATIENCE: Duration = Duration::from_secs(15);
/// How long the system may take to act on a signal that cannot be refused.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(10);
/// Lines of a log shown when its process failed.
const TAIL_LINES: usize = 20;

/// How a process of the cluster stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    Running,
    Paused,
    /// Ended as asked, or never started.
    Stopped,
    /// Ended otherwise: by `seam dev kill`, by itself, or by the system.
    Crashed,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            State::Running => "running",
            State::Paused => "paused",
            State::Stopped => "stopped",
            State::Crashed => "crashed",
        })
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was not there.
    Already,
    Cleanly,
    /// It did not heed SIGTERM in time.
    Killed,
}

/// One process of the cluster, running or not.
#[derive(Clone, Debug)]
pub struct Daemon {
    pub name: String,
    pub role: Role,
    pub(super) pid_file: PathBuf,
    pub(super) log_file: PathBuf,
    config_file: PathBuf,
}

impl Daemon {
    #[must_use]
    pub fn relay(layout: &Layout) -> Self {
        Self::new(layout, RELAY.to_owned(), Role::Relay)
    }

    #[must_use]
    pub fn of(layout: &Layout, node: &Node) -> Self {
        Self::new(layout, node.name(), node.role())
    }

    fn new(layout: &Layout, name: String, role: Role) -> Self {
        Daemon {
            pid_file: layout.pid_file(&name),
            log_file: layout.log_file(&name),
            config_file: layout.config_file(&name),
            name,
            role,
        }
    }

    /// The process as its pid file has it, alive or not.
    ///
    /// # Errors
    /// The pid file cannot be read.
    pub fn identity(&self) -> Result<Option<Identity>> {
        Identity::load(&self.pid_file)
    }

    /// # Errors
    /// The pid file cannot be read.
    pub fn state(&self) -> Result<State> {
        Ok(match self.identity()?.map(|identity| identity.vital()) {
            None => State::Stopped,
            Some(Vital::Running) => State::Running,
            Some(Vital::Paused) => State::Paused,
            Some(Vital::Gone) => State::Crashed,
        })
    }

    /// The pid, if the process is alive.
    ///
    /// # Errors
    /// The pid file cannot be read.
    pub fn live(&self) -> Result<Option<Identity>> {
        Ok(self.identity()?.filter(|identity| identity.vital() != Vital::Gone))
    }

    /// Starts the process; returns once its pid file is there. Whether it is ready is another question.
    ///
    /// # Errors
    /// It is running already, its program is missing, or it ended at once.
    pub fn start(&self) -> Result<()> {
        if let Some(live) = self.live()? {
            bail!("{} runs already, with pid {}", self.name, live.pid());
        }
        let command = self.command()?;
        remove(&self.pid_file)?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(&self.log_file)
            .with_context(|| format!("cannot write {}", self.log_file.display()))?;
        let mut child = Command::new(own_program()?)
            .arg("dev-exec")
            .arg("--pid-file")
            .arg(&self.pid_file)
            .arg("--")
            .args(command)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.name))?;
        let launched = wait::until(LAUNCH_PATIENCE, || self.pid_file.is_file() || has_ended(&mut child));
        if !launched || has_ended(&mut child) {
            bail!("{} ended as soon as it was started\n{}", self.name, self.tail());
        }
        // Collects the exit of a process that dies while we still run; otherwise it would stay a zombie until we end.
        std::thread::spawn(move || child.wait());
        Ok(())
    }

    /// SIGTERM, a bounded wait, SIGKILL.
    ///
    /// # Errors
    /// The process cannot be signalled, or does not end even then.
    pub fn stop(&self, patience: Duration) -> Result<Ended> {
        let Some(identity) = self.live()? else {
            remove(&self.pid_file)?;
            return Ok(Ended::Already);
        };
        identity.signal(Signal::TERM)?;
        // A paused process gets the signal only when it runs on.
        identity.signal(Signal::CONT)?;
        let mut ended = Ended::Cleanly;
        if !identity.wait_for(Vital::Gone, patience) {
            ended = Ended::Killed;
            identity.signal(Signal::KILL)?;
            self.expect(&identity, Vital::Gone, "SIGKILL")?;
        }
        remove(&self.pid_file)?;
        Ok(ended)
    }

    /// SIGKILL. The pid file stays: the process counts as crashed.
    ///
    /// # Errors
    /// The process is not there, or cannot be signalled.
    pub fn kill(&self) -> Result<()> {
        self.send(Signal::KILL, Vital::Gone, "SIGKILL")
    }

    /// SIGSTOP.
    ///
    /// # Errors
    /// As [`Daemon::kill`].
    pub fn pause(&self) -> Result<()> {
        self.send(Signal::STOP, Vital::Paused, "SIGSTOP")
    }

    /// SIGCONT.
    ///
    /// # Errors
    /// As [`Daemon::kill`].
    pub fn resume(&self) -> Result<()> {
        self.send(Signal::CONT, Vital::Running, "SIGCONT")
    }

    /// The end of the log, for an error message.
    #[must_use]
    pub fn tail(&self) -> String {
        let lines = logs::last_lines(&self.log_file, TAIL_LINES).unwrap_or_default();
        let shown: String = lines.iter().map(|line| format!("  {line}\n")).collect();
        let end = if shown.is_empty() { "  (nothing)" } else { shown.trim_end() };
        format!("the end of {}:\n{end}", self.log_file.display())
    }

    fn send(&self, signal: Signal, wanted: Vital, signal_name: &str) -> Result<()> {
        let identity = self.live()?.with_context(|| self.not_running())?;
        match identity.signal(signal)? {
            Sent::Delivered => self.expect(&identity, wanted, signal_name),
            Sent::Gone => bail!(self.not_running()),
        }
    }

    fn expect(&self, identity: &Identity, wanted: Vital, signal_name: &str) -> Result<()> {
        if identity.wait_for(wanted, SIGNAL_PATIENCE) {
            return Ok(());
        }
        bail!(
            "{} (pid {}) did not heed {signal_name} in {SIGNAL_PATIENCE:?}: it waits in the kernel, perhaps for a disk",
            self.name,
            identity.pid()
        )
    }

    fn not_running(&self) -> String {
        format!("{} does not run: `seam dev restart {}` starts it", self.name, self.name)
    }

    fn command(&self) -> Result<Vec<OsString>> {
        let config = [OsString::from("--config"), self.config_file.clone().into()];
        let program: Vec<OsString> = match self.role {
            Role::Relay => vec![own_program()?.into(), "dev-relay".into()],
            Role::Metad | Role::Segd | Role::Router => vec![service_program(self.role)?.into()],
        };
        Ok(program.into_iter().chain(config).collect())
    }
}

/// The service programs lie beside our own.
///
/// # Errors
/// It is not there; the message says how to build it.
pub fn service_program(role: Role) -> Result<PathBuf> {
    let own = own_program()?;
    let beside = own.parent().unwrap_or(Path::new("/")).join(role.as_str());
    if !beside.is_file() {
        bail!(
            "{role} is not beside {}: build all of them with `cargo build --release -p metad -p segd -p router -p seam-cli`",
            own.display()
        );
    }
    Ok(beside)
}

fn own_program() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot tell where this program lies: is /proc mounted?")?;
    // The kernel's word for a program that was replaced while it runs, as a build does.
    Ok(match own.to_str().and_then(|path| path.strip_suffix(" (deleted)")) {
        Some(replaced) => PathBuf::from(replaced),
        None => own,
    })
}

fn has_ended(child: &mut Child) -> bool {
    matches!(child.try_wait(), Ok(Some(_)))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
