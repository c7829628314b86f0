//! `seam dev scale`: more or fewer segd nodes and routers under load. Added ones are ready before clients hear of them;
//! removed ones are drained first, and none goes that holds the last copy of anything.

use super::cluster::{COUNT_MAX, Cluster, Role};
use super::daemon::{Daemon, STOP_PATIENCE};
use super::layout::Layout;
use super::ports::Ports;
use super::probe::Probe;
use super::ready::{self, Progress};
use super::{Dir, config, drain};
use crate::output::Out;
use anyhow::{Context, Result, bail};
use clap::Args;
use std::str::FromStr;

/// Add or remove segd nodes and routers while the cluster is under load.
#[derive(Clone, Debug, Args)]
#[command(
    after_help = "Examples:\n  seam dev scale segd=7 router=3\n  seam dev scale segd=5      drains segd-7 and segd-6, then stops them"
)]
pub struct Scale {
    /// How many of a role there shall be: segd=7, router=3.
    #[arg(required = true, value_name = "ROLE=COUNT")]
    targets: Vec<Target>,
    #[command(flatten)]
    dir: Dir,
}

/// `segd=7`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    role: Role,
    count: usize,
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (role, count) = text.split_once('=').context("write ROLE=COUNT, e.g. segd=7")?;
        let target = Target { role: role.parse()?, count: count.parse().context("the count must be a whole number")? };
        match target.role {
            Role::Segd | Role::Router if (1..=COUNT_MAX as usize).contains(&target.count) => Ok(target),
            Role::Segd | Role::Router => bail!("{role} must be 1 to {COUNT_MAX}, not {count}"),
            Role::Metad => bail!(
                "the members of metad are fixed when a cluster is made: for another number of them, \
                 `seam dev down --wipe`, then `seam dev up --metad {count}`"
            ),
            Role::Relay => bail!("there is one relay: scale segd or router"),
        }
    }
}

impl Scale {
    /// # Errors
    /// A process does not get ready, does not drain, or must not go.
    pub async fn run(self, out: &mut Out) -> Result<()> {
        let layout = self.dir.layout()?;
        let _lock = layout.lock()?;
        let progress = Progress::new();
        let (mut added, mut removed, mut thinned) = (Vec::new(), Vec::new(), 0);
        for target in self.targets {
            let mut cluster = Cluster::load(&layout)?;
            let names: Vec<String> = cluster.of(target.role).map(super::cluster::Node::name).collect();
            if target.count > names.len() {
                added.extend(add(&layout, &mut cluster, target, &progress).await?);
            } else if target.count < names.len() {
                // The youngest go.
                let leaving = names[target.count..].iter().rev().cloned().collect::<Vec<_>>();
                thinned += remove(&layout, &mut cluster, target.role, &leaving, &progress).await?;
                removed.extend(leaving);
            }
        }
        if out.is_json() {
            return out.json(&serde_json::json!({ "added": added, "removed": removed, "thinned_segments": thinned }));
        }
        if added.is_empty() && removed.is_empty() {
            return out.line("nothing to do: there are so many already");
        }
        for (what, names) in [("added", added), ("removed", removed)] {
            if !names.is_empty() {
                out.line(format!("{what} {}", names.join(" ")))?;
            }
        }
        if thinned > 0 {
            out.line(format!(
                "{thinned} segments keep fewer copies than they had; the others stay in {}, unused",
                layout.root().join("data").display()
            ))?;
        }
        Ok(())
    }
}

async fn add(layout: &Layout, cluster: &mut Cluster, target: Target, progress: &Progress) -> Result<Vec<String>> {
    let before = cluster.clone();
    let mut ports = Ports::new(cluster.nodes.iter().flat_map(super::cluster::Node::addresses).map(|addr| addr.port()));
    let missing = target.count - cluster.of(target.role).count();
    let names = (0..missing).map(|_| cluster.add(target.role, &mut ports)).collect::<Result<Vec<_>>>()?;
    cluster.save(layout)?;
    config::write_services(layout, cluster)?;
    let started = async {
        for daemon in super::daemons(layout, cluster, target.role.as_str())? {
            if names.contains(&daemon.name) {
                daemon.start()?;
            }
        }
        if target.role == Role::Segd {
            drain::end(layout, cluster, &names).await?;
        }
        ready::await_added(layout, cluster, &names, progress).await
    };
    if let Err(error) = started.await {
        for node in cluster.nodes.iter().filter(|node| names.contains(&node.name())) {
            Daemon::of(layout, node).stop(STOP_PATIENCE)?;
        }
        before.save(layout)?;
        return Err(error);
    }
    config::write_client(layout, cluster)?;
    Ok(names)
}

/// Returns how many segments keep fewer copies.
async fn remove(
    layout: &Layout,
    cluster: &mut Cluster,
    role: Role,
    leaving: &[String],
    progress: &Progress,
) -> Result<usize> {
    let mut thinned = 0;
    let daemons: Vec<Daemon> = super::daemons(layout, cluster, role.as_str())?
        .into_iter()
        .filter(|daemon| leaving.contains(&daemon.name))
        .collect();
    if role == Role::Segd {
        let ids: Vec<u32> =
            cluster.of(role).filter(|node| leaving.contains(&node.name())).map(|node| node.id).collect();
        let probe = Probe::new(layout, cluster)?;
        drain::refuse_if_needed(&probe.admin().list_topics().await?, &ids, cluster.of(role).count())?;
        drain::run(&probe, &ids, progress).await?;
        thinned = drain::thinned(&probe.admin().list_topics().await?, &ids);
    }
    // Clients started from now on no longer hear of them.
    cluster.nodes.retain(|node| !leaving.contains(&node.name()));
    cluster.save(layout)?;
    config::write_client(layout, cluster)?;
    for daemon in daemons {
        daemon.stop(STOP_PATIENCE)?;
    }
    Ok(thinned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_parse() {
        assert_eq!("segd=7".parse::<Target>().expect("taken"), Target { role: Role::Segd, count: 7 });
        assert_eq!("router=3".parse::<Target>().expect("taken"), Target { role: Role::Router, count: 3 });
    }

    #[test]
    fn what_cannot_be_scaled_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("metad=1", "seam dev up --metad 1"),
            ("relay=2", "scale segd or router"),
            ("segd=0", "1 to 64"),
            ("segd", "ROLE=COUNT"),
            ("disk=3", "metad, segd or router"),
        ] {
            let error = text.parse::<Target>().expect_err(text);
            assert!(format!("{error:#}").contains(remedy), "{error:#}");
        }
    }
}
