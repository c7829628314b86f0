//! Waiting until the cluster, or one process of it, really works: metad has a leader that all members follow, every segd
//! node is registered and live, every router answers. Ends early if a process ends, and shows why.

use super::cluster::{Cluster, Node, Role};
use super::daemon::{Daemon, State};
use super::every_daemon;
use super::layout::Layout;
use super::probe::Probe;
use crate::output::explain;
use anyhow::{Result, bail};
use std::cell::RefCell;
use std::fmt;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Pause between two looks.
const POLL: Duration = Duration::from_millis(50);
/// How long one process may take to be ready.
const ONE_PATIENCE: Duration = Duration::from_secs(60);

/// What is still missing.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Missing {
    Leader { member: String, why: String },
    Nodes { waiting: Vec<String>, of: usize },
    Router { name: String, why: String, answering: usize, of: usize },
}

impl Missing {
    /// Whose log tells most about it.
    fn suspect(&self) -> &str {
        match self {
            Missing::Leader { member, .. } => member,
            Missing::Nodes { waiting, .. } => waiting.first().map_or("", String::as_str),
            Missing::Router { name, .. } => name,
        }
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Missing::Leader { .. } => f.write_str("metad elects a leader"),
            Missing::Nodes { waiting, of } => write!(f, "segd nodes register: {} of {of}", of - waiting.len()),
            Missing::Router { answering, of, .. } => write!(f, "routers answer: {answering} of {of}"),
        }
    }
}

/// Waits until all is well.
///
/// # Errors
/// A process ended, or `patience` is over; the end of the log concerned is in the message.
pub async fn await_all(layout: &Layout, cluster: &Cluster, patience: Duration, progress: &Progress) -> Result<()> {
    let probe = Probe::new(layout, cluster)?;
    let daemons = every_daemon(layout, cluster);
    let watched: Vec<&Daemon> = daemons.iter().collect();
    await_clear(&watched, patience, progress, || missing(&probe, cluster)).await
}

/// Waits until the nodes called `names` take part: those and no others are asked.
///
/// # Errors
/// As [`await_all`].
pub async fn await_added(layout: &Layout, cluster: &Cluster, names: &[String], progress: &Progress) -> Result<()> {
    let probe = Probe::new(layout, cluster)?;
    let daemons = every_daemon(layout, cluster);
    let watched: Vec<&Daemon> = daemons.iter().filter(|daemon| names.contains(&daemon.name)).collect();
    let added: Vec<&Node> = cluster.nodes.iter().filter(|node| names.contains(&node.name())).collect();
    await_clear(&watched, ONE_PATIENCE, progress, || async {
        match missing_nodes(&probe, &added, 0).await {
            None => missing_router(&probe, &added).await,
            some => some,
        }
    })
    .await
}

/// Waits until a process that was just started does its work again. A segd node must be registered in a life later than
/// `life_before`, since metad may not have noticed yet that it was gone.
///
/// # Errors
/// As [`await_all`].
pub async fn await_one(layout: &Layout, cluster: &Cluster, daemon: &Daemon, life_before: u64) -> Result<()> {
    let Some(node) = cluster.node(&daemon.name) else {
        return Ok(()); // The relay: it listens before it does anything else.
    };
    let probe = Probe::new(layout, cluster)?;
    await_clear(&[daemon], ONE_PATIENCE, &Progress::silent(), || async {
        match node.role() {
            Role::Metad => missing_member(&probe, node, has_metad_quorum(layout, cluster)).await,
            Role::Segd => missing_nodes(&probe, &[node], life_before).await,
            Role::Router => missing_router(&probe, &[node]).await,
            Role::Relay => None,
        }
    })
    .await
}

/// The life in which metad knows the segd node; 0 if it does not know it, or does not answer.
pub async fn life_of(layout: &Layout, cluster: &Cluster, name: &str) -> u64 {
    let Ok(probe) = Probe::new(layout, cluster) else { return 0 };
    let nodes = probe.admin().list_nodes().await.unwrap_or_default();
    nodes.iter().find(|node| node.name == name).map_or(0, |node| node.incarnation)
}

async fn await_clear<F: Future<Output = Option<Missing>>>(
    watched: &[&Daemon],
    patience: Duration,
    progress: &Progress,
    look: impl Fn() -> F,
) -> Result<()> {
    let deadline = Instant::now() + patience;
    loop {
        fail_if_ended(watched)?;
        let Some(missing) = look().await else {
            progress.done();
            return Ok(());
        };
        progress.say(&missing.to_string());
        if Instant::now() >= deadline {
            progress.done();
            fail_if_ended(watched)?;
            let log = watched.iter().find(|daemon| daemon.name == missing.suspect()).map(|daemon| daemon.tail());
            let why = match &missing {
                Missing::Leader { member, why } => format!("{member}: {why}"),
                Missing::Nodes { waiting, .. } => format!("not live for metad: {}", waiting.join(" ")),
                Missing::Router { name, why, .. } => format!("{name}: {why}"),
            };
            bail!("not ready after {patience:?}: {missing} ({why})\n{}", log.unwrap_or_default());
        }
        tokio::time::sleep(POLL).await;
    }
}

fn fail_if_ended(daemons: &[&Daemon]) -> Result<()> {
    for daemon in daemons {
        match daemon.state()? {
            State::Running | State::Paused => {}
            State::Crashed | State::Stopped => bail!("{} ended\n{}", daemon.name, daemon.tail()),
        }
    }
    Ok(())
}

async fn missing(probe: &Probe, cluster: &Cluster) -> Option<Missing> {
    for member in cluster.of(Role::Metad) {
        if let Some(missing) = missing_member(probe, member, true).await {
            return Some(missing);
        }
    }
    let all: Vec<&Node> = cluster.nodes.iter().collect();
    match missing_nodes(probe, &all, 0).await {
        None => missing_router(probe, &all).await,
        some => some,
    }
}

async fn missing_member(probe: &Probe, member: &Node, wants_leader: bool) -> Option<Missing> {
    let why = match probe.leader_seen_by(&member.name()).await {
        Ok(leader) if !wants_leader || !leader.is_empty() => return None,
        Ok(_) => "it knows no leader".to_owned(),
        Err(error) => explain(&error),
    };
    Some(Missing::Leader { member: member.name(), why })
}

/// The segd nodes among `nodes` that metad does not count as live in a life later than `life_before`.
async fn missing_nodes(probe: &Probe, nodes: &[&Node], life_before: u64) -> Option<Missing> {
    let expected: Vec<String> = nodes.iter().filter(|node| node.role() == Role::Segd).map(|node| node.name()).collect();
    if expected.is_empty() {
        return None;
    }
    // A metad that cannot answer right now counts none of them; the next look asks again.
    let known = probe.admin().list_nodes().await.unwrap_or_default();
    let live = |name: &&String| {
        known.iter().any(|node| node.name == **name && node.state == "live" && node.incarnation > life_before)
    };
    let waiting: Vec<String> = expected.iter().filter(|name| !live(name)).cloned().collect();
    (!waiting.is_empty()).then_some(Missing::Nodes { waiting, of: expected.len() })
}

async fn missing_router(probe: &Probe, nodes: &[&Node]) -> Option<Missing> {
    let routers: Vec<&&Node> = nodes.iter().filter(|node| node.role() == Role::Router).collect();
    for (answering, router) in routers.iter().enumerate() {
        if let Err(error) = probe.router(router).await {
            return Some(Missing::Router { name: router.name(), why: explain(&error), answering, of: routers.len() });
        }
    }
    None
}

fn has_metad_quorum(layout: &Layout, cluster: &Cluster) -> bool {
    let members = cluster.of(Role::Metad).count();
    let running = |node: &&Node| matches!(Daemon::of(layout, node).state(), Ok(State::Running));
    cluster.of(Role::Metad).filter(running).count() * 2 > members
}

/// Tells on standard error how far the cluster is: one line that changes on a terminal, else a line for each change.
pub struct Progress {
    began: Instant,
    shown: Shown,
    last: RefCell<String>,
}

enum Shown {
    InPlace,
    ByLine,
    Not,
}

impl Progress {
    #[must_use]
    pub fn new() -> Self {
        Self::with(if std::io::stderr().is_terminal() { Shown::InPlace } else { Shown::ByLine })
    }

    #[must_use]
    pub fn silent() -> Self {
        Self::with(Shown::Not)
    }

    fn with(shown: Shown) -> Self {
        Progress { began: Instant::now(), shown, last: RefCell::default() }
    }

    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// Shows what is going on now.
    pub fn say(&self, text: &str) {
        let mut error = std::io::stderr().lock();
        let seconds = self.elapsed().as_secs_f64();
        // A standard error that cannot be written is no reason to stop.
        let _ignored = match self.shown {
            Shown::InPlace => write!(error, "\r\x1b[K{seconds:5.1} s  {text}").and_then(|()| error.flush()),
            Shown::ByLine if *self.last.borrow() != text => writeln!(error, "{seconds:5.1} s  {text}"),
            Shown::ByLine | Shown::Not => Ok(()),
        };
        text.clone_into(&mut self.last.borrow_mut());
    }

    /// Ends the line that changes.
    pub fn done(&self) {
        if matches!(self.shown, Shown::InPlace) && !self.last.borrow().is_empty() {
            eprint!("\r\x1b[K");
        }
    }
}
