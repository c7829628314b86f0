//! `seam dev` as a child: the program that lies beside this one does what is done to processes.

use crate::clock::Clock;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, UNIX_EPOCH};
use thiserror::Error;
use tokio::process::Command;

/// No command of `seam dev` takes longer, a whole start included.
const PATIENCE: Duration = Duration::from_secs(180);

#[derive(Debug, Error)]
pub enum DevError {
    #[error("the client file has no [dev] dir: faults need a local cluster, started with `seam dev up`")]
    NotLocal,
    #[error("{0} is missing: `seam` must lie beside `loadgen`; build it with `cargo build --release -p seam-cli`")]
    NoProgram(PathBuf),
    #[error("seam dev {what}: {detail}")]
    Failed { what: String, detail: String },
}

/// A local cluster, as `seam dev` knows it.
#[derive(Clone, Debug)]
pub struct Dev {
    program: PathBuf,
    dir: PathBuf,
    clock: Clock,
}

/// When a process was signalled, and when it was seen to have heeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    pub sent_us: u64,
    pub heeded_us: u64,
}

/// One process as `seam dev status` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub name: String,
    pub role: String,
    pub state: String,
}

impl Dev {
    /// `dir` as the client file names it. Errors: there is none, or the program is not there.
    pub fn new(dir: Option<&Path>, clock: Clock) -> Result<Dev, DevError> {
        let dir = dir.ok_or(DevError::NotLocal)?.to_owned();
        let own = std::env::current_exe().unwrap_or_default();
        let program = own.parent().unwrap_or(Path::new(".")).join("seam");
        if !program.is_file() {
            return Err(DevError::NoProgram(program));
        }
        Ok(Dev { program, dir, clock })
    }

    async fn run(&self, arguments: &[&str]) -> Result<String, DevError> {
        let what = arguments.join(" ");
        let mut command = Command::new(&self.program);
        command.arg("dev").args(arguments).arg("--dir").arg(&self.dir).arg("--json");
        command.stdin(Stdio::null()).kill_on_drop(true);
        let failed = |detail: String| DevError::Failed { what: what.clone(), detail };
        let output = tokio::time::timeout(PATIENCE, command.output())
            .await
            .map_err(|_| failed(format!("not done after {PATIENCE:?}")))?
            .map_err(|error| failed(error.to_string()))?;
        if !output.status.success() {
            return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        String::from_utf8(output.stdout).map_err(|error| failed(error.to_string()))
    }

    async fn signal(&self, verb: &str, name: &str) -> Result<Signal, DevError> {
        let text = self.run(&[verb, name]).await?;
        let nonsense = |detail: String| DevError::Failed { what: format!("{verb} {name}"), detail };
        let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
        let lines = lines.map_err(|error| nonsense(error.to_string()))?;
        let times = |key: &str| -> Option<Vec<u64>> { lines.iter().map(|line| line[key].as_u64()).collect() };
        let (Some(sent), Some(heeded)) = (times("began_unix_us"), times("ended_unix_us")) else {
            return Err(nonsense(format!("it does not say when: {text}")));
        };
        let sent_us = sent.into_iter().min().map_or(0, |us| self.on_clock(us));
        let heeded_us = heeded.into_iter().max().map_or(0, |us| self.on_clock(us));
        Ok(Signal { sent_us, heeded_us })
    }

    /// A time of the Unix epoch on the run's clock.
    fn on_clock(&self, unix_us: u64) -> u64 {
        let now_unix_us = UNIX_EPOCH.elapsed().map_or(0, |since| u64::try_from(since.as_micros()).unwrap_or(u64::MAX));
        self.clock.now_us().saturating_sub(now_unix_us.saturating_sub(unix_us))
    }

    pub async fn kill(&self, name: &str) -> Result<Signal, DevError> {
        self.signal("kill", name).await
    }

    pub async fn pause(&self, name: &str) -> Result<Signal, DevError> {
        self.signal("pause", name).await
    }

    pub async fn resume(&self, name: &str) -> Result<Signal, DevError> {
        self.signal("resume", name).await
    }

    /// Starts it, and waits until it does its work again.
    pub async fn restart(&self, name: &str) -> Result<(), DevError> {
        self.run(&["restart", name]).await.map(drop)
    }

    /// Starts a cluster of which nothing runs, with metad as far away as it was.
    pub async fn up(&self, metad_rtt_ms: f64) -> Result<(), DevError> {
        self.run(&["up", "--metad-rtt", &format!("{metad_rtt_ms:.0}ms"), "--timeout", "120s"]).await.map(drop)
    }

    /// Every process, and the round trip added to metad's links.
    pub async fn status(&self) -> Result<(Vec<Process>, f64), DevError> {
        let text = self.run(&["status"]).await?;
        let nonsense = |detail: String| DevError::Failed { what: "status".to_owned(), detail };
        let status: Value = serde_json::from_str(&text).map_err(|error| nonsense(error.to_string()))?;
        let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let processes = status["processes"].as_array().ok_or_else(|| nonsense("no processes".to_owned()))?;
        let processes = processes.iter().map(|process| Process {
            name: word(&process["name"]),
            role: word(&process["role"]),
            state: word(&process["state"]),
        });
        Ok((processes.collect(), status["metad_rtt_ms"].as_f64().unwrap_or(0.0)))
    }
}
