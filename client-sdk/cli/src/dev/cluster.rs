//! What a local cluster is made of: its processes, their names, ports and failure domains. Kept in `cluster.toml`; every
//! other file is made from it. Nothing here says whether a process runs.

use super::layout::{Layout, write_atomically};
use super::ports::Ports;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::net::SocketAddr;
use std::str::FromStr;

/// The pattern for every service. Kill, pause and resume take the relay with them.
pub const ALL: &str = "all";
/// Version of `cluster.toml`; a directory of another version is refused.
const FORMAT: u32 = 1;
/// Most processes of one role.
pub const COUNT_MAX: u32 = 64;
/// The name of the process that delays metad's links.
pub const RELAY: &str = "relay";

/// What a process is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    Relay,
    Metad,
    Segd,
    Router,
}

impl Role {
    /// In the order in which they start.
    pub const ALL: [Role; 4] = [Role::Relay, Role::Metad, Role::Segd, Role::Router];

    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Relay => RELAY,
            Role::Metad => "metad",
            Role::Segd => "segd",
            Role::Router => "router",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Role {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let known = Role::ALL.into_iter().find(|role| role.as_str() == text);
        known.with_context(|| format!("{text:?} is no role: use metad, segd or router"))
    }
}

/// What only one role has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Kind {
    /// `relay` is the address everybody else dials; the relay forwards it to `listen`.
    Metad {
        relay: SocketAddr,
    },
    Segd {
        domain: String,
    },
    Router,
}

/// One service process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    pub id: u32,
    #[serde(flatten)]
    pub kind: Kind,
    /// gRPC of metad, QUIC of the others.
    pub listen: SocketAddr,
    pub metrics: SocketAddr,
}

impl Node {
    #[must_use]
    pub fn role(&self) -> Role {
        match self.kind {
            Kind::Metad { .. } => Role::Metad,
            Kind::Segd { .. } => Role::Segd,
            Kind::Router => Role::Router,
        }
    }

    /// As in its certificate: `segd-3`.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}-{}", self.role(), self.id)
    }

    /// Failure domain; only segd nodes have one.
    #[must_use]
    pub fn domain(&self) -> Option<&str> {
        match &self.kind {
            Kind::Segd { domain } => Some(domain),
            Kind::Metad { .. } | Kind::Router => None,
        }
    }

    /// Every address it or its relay listens on.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> + use<> {
        let relay = match self.kind {
            Kind::Metad { relay } => Some(relay),
            Kind::Segd { .. } | Kind::Router => None,
        };
        [self.listen, self.metrics].into_iter().chain(relay)
    }
}

/// How many processes of each role to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    pub metad: u32,
    pub segd: u32,
    pub router: u32,
}

/// A whole cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cluster {
    format: u32,
    /// segd nodes are spread over so many failure domains, `rack-1` and on.
    pub domains: u32,
    #[serde(rename = "node")]
    pub nodes: Vec<Node>,
}

impl Cluster {
    /// Plans a new cluster on free ports.
    ///
    /// # Errors
    /// A count out of bounds, or no free ports.
    pub fn plan(counts: Counts, domains: u32) -> Result<Self> {
        for (role, count) in [("metad", counts.metad), ("segd", counts.segd), ("router", counts.router)] {
            if !(1..=COUNT_MAX).contains(&count) {
                bail!("--{role} must be 1 to {COUNT_MAX}, not {count}");
            }
        }
        if counts.metad.is_multiple_of(2) {
            bail!(
                "--metad must be odd, not {}: an even number survives no more failures than one less of them",
                counts.metad
            );
        }
        if !(1..=COUNT_MAX).contains(&domains) {
            bail!("--domains must be 1 to {COUNT_MAX}, not {domains}");
        }
        let mut cluster = Cluster { format: FORMAT, domains, nodes: Vec::new() };
        let mut ports = Ports::new([]);
        for (role, count) in [(Role::Metad, counts.metad), (Role::Segd, counts.segd), (Role::Router, counts.router)] {
            for _ in 0..count {
                cluster.add(role, &mut ports)?;
            }
        }
        Ok(cluster)
    }

    /// Adds a node with the lowest free id of its role; returns its name.
    ///
    /// # Errors
    /// No free ports, or too many nodes.
    ///
    /// # Panics
    /// For the relay, which is no node.
    pub fn add(&mut self, role: Role, ports: &mut Ports) -> Result<String> {
        let used = |id: &u32| self.of(role).any(|node| node.id == *id);
        let id = (1..=COUNT_MAX).find(|id| !used(id)).with_context(|| format!("more than {COUNT_MAX} {role} nodes"))?;
        let kind = match role {
            Role::Metad => Kind::Metad { relay: ports.take()? },
            Role::Segd => Kind::Segd { domain: format!("rack-{}", (id - 1) % self.domains + 1) },
            Role::Router => Kind::Router,
            Role::Relay => unreachable!("there is one relay, and it is no node"),
        };
        let node = Node { id, kind, listen: ports.take()?, metrics: ports.take()? };
        let name = node.name();
        self.nodes.push(node);
        Ok(name)
    }

    /// The nodes of one role, by id.
    pub fn of(&self, role: Role) -> impl DoubleEndedIterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.role() == role)
    }

    #[must_use]
    pub fn node(&self, name: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.name() == name)
    }

    /// metad's members as everybody else dials them: through the relay.
    pub fn metad(&self) -> impl Iterator<Item = (&Node, SocketAddr)> {
        self.nodes.iter().filter_map(|node| match node.kind {
            Kind::Metad { relay } => Some((node, relay)),
            Kind::Segd { .. } | Kind::Router => None,
        })
    }

    /// Every process, the relay first, in the order in which they start.
    #[must_use]
    pub fn process_names(&self) -> Vec<String> {
        let nodes = Role::ALL.into_iter().flat_map(|role| self.of(role)).map(Node::name);
        std::iter::once(RELAY.to_owned()).chain(nodes).collect()
    }

    /// The processes `pattern` means: a name, a role, or [`ALL`] the services.
    ///
    /// # Errors
    /// Nothing has that name; the message lists what does.
    pub fn select(&self, pattern: &str) -> Result<Vec<String>> {
        let names = self.process_names();
        let matches = |name: &&String| match pattern {
            ALL => name.as_str() != RELAY,
            exact => name.as_str() == exact || name.rsplit_once('-').is_some_and(|(role, _)| role == exact),
        };
        let found: Vec<String> = names.iter().filter(matches).cloned().collect();
        if found.is_empty() {
            bail!(
                "no process is called {pattern:?}: use all, a role (metad, segd, router), or one of {}",
                names.join(" ")
            );
        }
        Ok(found)
    }

    /// # Errors
    /// The directory holds no cluster, or one this program cannot read.
    pub fn load(layout: &Layout) -> Result<Self> {
        let path = layout.cluster_file();
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                bail!("{} holds no local cluster: `seam dev up` starts one", layout.root().display())
            }
            other => other.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let cluster: Cluster =
            toml::from_str(&text).with_context(|| format!("cannot understand {}", path.display()))?;
        if cluster.format != FORMAT {
            bail!(
                "{} has format {}, this program writes {FORMAT}: `seam dev down --wipe`, then `seam dev up`",
                path.display(),
                cluster.format
            );
        }
        Ok(cluster)
    }

    /// # Errors
    /// The directory cannot be written.
    pub fn save(&self, layout: &Layout) -> Result<()> {
        write_atomically(&layout.cluster_file(), &toml::to_string_pretty(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn usual() -> Cluster {
        Cluster::plan(Counts { metad: 3, segd: 5, router: 2 }, 3).expect("a plan")
    }

    #[test]
    fn a_cluster_reads_back_from_its_file() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let layout = Layout::new(dir.path()).expect("a layout");
        let cluster = usual();
        cluster.save(&layout).expect("saved");
        assert_eq!(Cluster::load(&layout).expect("loaded"), cluster);
    }

    #[test]
    fn names_domains_and_ports_are_as_promised() {
        let cluster = usual();
        let names = cluster.process_names();
        let expected = [
            "relay", "metad-1", "metad-2", "metad-3", "segd-1", "segd-2", "segd-3", "segd-4", "segd-5", "router-1",
            "router-2",
        ];
        assert_eq!(names, expected);
        let domains: Vec<_> = cluster.nodes.iter().filter_map(Node::domain).collect();
        assert_eq!(domains, ["rack-1", "rack-2", "rack-3", "rack-1", "rack-2"]);
        let ports: Vec<_> = cluster.nodes.iter().flat_map(Node::addresses).collect();
        assert_eq!(ports.len(), 3 * 3 + 5 * 2 + 2 * 2);
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len(), "a port was given twice");
    }

    #[test]
    fn a_name_a_role_or_all_select_processes() {
        let cluster = usual();
        assert_eq!(cluster.select("segd-3").expect("found"), ["segd-3"]);
        assert_eq!(cluster.select("metad").expect("found"), ["metad-1", "metad-2", "metad-3"]);
        assert_eq!(cluster.select("relay").expect("found"), ["relay"]);
        assert_eq!(cluster.select("all").expect("found").len(), 10);
        let error = cluster.select("segd-9").expect_err("unknown").to_string();
        assert!(error.contains("segd-5") && error.contains("all"), "{error}");
    }

    #[test]
    fn a_new_node_takes_the_lowest_free_id() {
        let mut cluster = usual();
        cluster.nodes.retain(|node| node.name() != "segd-2");
        let mut ports = Ports::new([]);
        assert_eq!(cluster.add(Role::Segd, &mut ports).expect("added"), "segd-2");
        assert_eq!(cluster.add(Role::Segd, &mut ports).expect("added"), "segd-6");
    }

    #[test]
    fn counts_out_of_bounds_are_refused_by_name() {
        for (counts, flag) in [
            (Counts { metad: 2, segd: 5, router: 2 }, "--metad"),
            (Counts { metad: 3, segd: 0, router: 2 }, "--segd"),
            (Counts { metad: 3, segd: 5, router: 65 }, "--router"),
        ] {
            let error = Cluster::plan(counts, 3).expect_err("refused").to_string();
            assert!(error.contains(flag), "{error}");
        }
    }
}
