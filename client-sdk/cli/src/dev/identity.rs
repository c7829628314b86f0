//! Which process a pid file means. A pid alone is reused by the system; a pid with its start time and the machine's boot is
//! not. Signals go through a pidfd that was checked after it was opened, so that none ever hits a stranger.

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// One process, told from every other that ever had or will have its pid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pid: Pid,
    /// Start of the process in clock ticks since boot, as `/proc/PID/stat` has it.
    start_ticks: u64,
    boot: String,
}

/// What becomes of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    Delivered,
    /// The process is gone; whoever has its pid now was left alone.
    Gone,
}

/// How a process stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vital {
    Running,
    /// Stopped by SIGSTOP.
    Paused,
    /// Ended, also if nobody has collected it yet.
    Gone,
}

struct Stat {
    state: char,
    start_ticks: u64,
}

impl Identity {
    /// This very process.
    ///
    /// # Errors
    /// `/proc` cannot be read.
    pub fn own() -> Result<Self> {
        Self::of(std::process::id()).context("/proc does not show this process: is /proc mounted?")
    }

    /// The process that has `pid` now, if any.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let stat = Stat::read(pid)?;
        Some(Identity { pid, start_ticks: stat.start_ticks, boot: boot_id()? })
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid.as_raw_pid().unsigned_abs()
    }

    #[must_use]
    pub fn encode(&self) -> String {
        format!("{} {} {}\n", self.pid.as_raw_pid(), self.start_ticks, self.boot)
    }

    /// `None` for what [`Identity::encode`] did not write.
    #[must_use]
    pub fn decode(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let pid = Pid::from_raw(words.next()?.parse().ok()?)?;
        let start_ticks = words.next()?.parse().ok()?;
        let boot = words.next()?.to_owned();
        words.next().is_none().then_some(Identity { pid, start_ticks, boot })
    }

    /// What the pid file at `path` says; `None` if there is none.
    ///
    /// # Errors
    /// The file is there but cannot be read or understood.
    pub fn load(path: &Path) -> Result<Option<Self>> {
        let text = match fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let identity = Identity::decode(&text).with_context(|| {
            format!("{} is not a pid file of ours: remove it if no process is left", path.display())
        })?;
        Ok(Some(identity))
    }

    #[must_use]
    pub fn vital(&self) -> Vital {
        match Stat::read(self.pid) {
            Some(stat) if stat.start_ticks == self.start_ticks && boot_id().as_ref() == Some(&self.boot) => {
                stat.vital()
            }
            Some(_) | None => Vital::Gone,
        }
    }

    /// Sends a signal to this process, and to no other.
    ///
    /// # Errors
    /// The system refuses it, e.g. because the process belongs to somebody else.
    pub fn signal(&self, signal: Signal) -> Result<Sent> {
        let pidfd = match rustix::process::pidfd_open(self.pid, PidfdFlags::empty()) {
            Err(rustix::io::Errno::SRCH) => return Ok(Sent::Gone),
            other => other.with_context(|| format!("cannot open process {}", self.pid()))?,
        };
        // Only now: what the pidfd refers to can no longer change.
        if self.vital() == Vital::Gone {
            return Ok(Sent::Gone);
        }
        match rustix::process::pidfd_send_signal(&pidfd, signal) {
            Ok(()) => Ok(Sent::Delivered),
            Err(rustix::io::Errno::SRCH) => Ok(Sent::Gone),
            Err(error) => Err(error).with_context(|| format!("cannot signal process {}", self.pid())),
        }
    }

    /// Waits until the process stands like `wanted`. False after `patience`.
    #[must_use]
    pub fn wait_for(&self, wanted: Vital, patience: Duration) -> bool {
        super::wait::until(patience, || self.vital() == wanted)
    }
}

impl Stat {
    fn read(pid: Pid) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_pid())).ok()?)
    }

    /// The program's name stands in parentheses and may hold anything, spaces and parentheses too: count from the last one.
    fn parse(text: &str) -> Option<Self> {
        let after_name = &text[text.rfind(')')? + 1..];
        let mut fields = after_name.split_whitespace();
        let state = fields.next()?.chars().next()?;
        // `starttime` is field 22 of the line; the state, just taken, is field 3.
        let start_ticks = fields.nth(22 - 4)?.parse().ok()?;
        Some(Stat { state, start_ticks })
    }

    fn vital(&self) -> Vital {
        match self.state {
            'Z' | 'X' | 'x' => Vital::Gone,
            'T' => Vital::Paused,
            // Running, sleeping, waiting for a disk, traced, idle: all alive.
            _ => Vital::Running,
        }
    }
}

fn boot_id() -> Option<String> {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    const PATIENCE: Duration = Duration::from_secs(20);

    fn sleeper() -> Child {
        Command::new("sleep").arg("600").spawn().expect("sleep(1) starts")
    }

    #[test]
    fn a_pid_file_reads_back() {
        let own = Identity::own().expect("this process");
        assert_eq!(Identity::decode(&own.encode()), Some(own));
        for text in ["", "12", "12 34", "0 34 boot", "x 34 boot", "12 34 boot more"] {
            assert_eq!(Identity::decode(text), None, "{text}");
        }
    }

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_fields() {
        let line = "42 (a) b) (c) T 1 42 42 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2";
        let stat = Stat::parse(line).expect("parsed");
        assert_eq!((stat.state, stat.start_ticks), ('T', 987_654));
        assert_eq!(stat.vital(), Vital::Paused);
    }

    #[test]
    fn a_recycled_pid_is_left_alone() {
        let mut stranger = sleeper();
        let now = Identity::of(stranger.id()).expect("alive");
        // The pid file of a process that had the same pid before, and of one from before a reboot.
        let earlier = Identity { start_ticks: now.start_ticks - 1, ..now.clone() };
        let other_boot = Identity { boot: "another".into(), ..now.clone() };
        for stale in [earlier, other_boot] {
            assert_eq!(stale.vital(), Vital::Gone);
            assert_eq!(stale.signal(Signal::KILL).expect("no error"), Sent::Gone);
        }
        assert_eq!(now.vital(), Vital::Running);
        assert!(stranger.try_wait().expect("waitable").is_none(), "the stranger was killed");

        assert_eq!(now.signal(Signal::KILL).expect("sent"), Sent::Delivered);
        assert!(now.wait_for(Vital::Gone, PATIENCE), "killed, though not yet collected");
        stranger.wait().expect("collected");
        assert_eq!(now.signal(Signal::KILL).expect("no error"), Sent::Gone);
    }

    #[test]
    fn pause_and_resume_are_seen() {
        let mut child = sleeper();
        let identity = Identity::of(child.id()).expect("alive");
        identity.signal(Signal::STOP).expect("sent");
        assert!(identity.wait_for(Vital::Paused, PATIENCE));
        identity.signal(Signal::CONT).expect("sent");
        assert!(identity.wait_for(Vital::Running, PATIENCE));
        identity.signal(Signal::KILL).expect("sent");
        child.wait().expect("collected");
    }
}
