//! Real-time priority for the generator's thread, so that a busy machine delays the system under test rather than the clock
//! that judges it. Best effort: without the right to it the thread runs as any other, and its lateness is in the report.

use serde::{Deserialize, Serialize};
use std::process::{Command, Stdio};

/// Lowest of the real-time priorities: above all ordinary work, below whatever else is real-time.
const REAL_TIME: &str = "1";
/// The next best, among the threads of this session.
const NICE: i32 = -15;

/// What the generator's thread was given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    #[default]
    Ordinary,
    Raised,
    RealTime,
}

impl Priority {
    pub fn words(self) -> &'static str {
        match self {
            Priority::Ordinary => "ordinary",
            Priority::Raised => "raised",
            Priority::RealTime => "real-time",
        }
    }
}

/// Asks for the calling thread, in turn for what is best.
pub fn ask() -> Priority {
    if real_time() {
        return Priority::RealTime;
    }
    // On Linux this priority belongs to the calling thread, not to the process.
    match rustix::process::setpriority_process(None, NICE) {
        Ok(()) => Priority::Raised,
        Err(_) => Priority::Ordinary,
    }
}

/// Through `chrt` of util-linux, since the system call is out of reach of safe code.
fn real_time() -> bool {
    // `PID/task/TID`.
    let Ok(this_thread) = std::fs::read_link("/proc/thread-self") else { return false };
    let Some(thread) = this_thread.file_name() else { return false };
    let mut chrt = Command::new("chrt");
    chrt.args(["--fifo", "--pid", REAL_TIME]).arg(thread);
    let status = chrt.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_given_is_in_force() {
        let thread = std::thread::spawn(|| {
            let given = ask();
            let stat = std::fs::read_to_string("/proc/thread-self/stat").expect("Linux");
            // Counted from the state, field 3: nice is 19, the policy 41 (1 is FIFO).
            let fields: Vec<String> =
                stat.rsplit(')').next().expect("a state").split_whitespace().map(str::to_owned).collect();
            (given, fields[16].clone(), fields[38].clone())
        });
        let (given, nice, policy) = thread.join().expect("ran");
        match given {
            Priority::RealTime => assert_eq!(policy, "1"),
            Priority::Raised => assert_eq!((policy.as_str(), nice.as_str()), ("0", "-15")),
            Priority::Ordinary => assert_eq!(policy, "0"),
        }
    }
}
