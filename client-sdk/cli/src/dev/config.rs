//! The settings files of a local cluster's processes and of its clients, made anew from `cluster.toml` at each start.
//! Nothing else writes them; whoever wants other settings edits a copy, not these.

use super::cluster::{Cluster, Kind, Node, RELAY, Role};
use super::layout::{Layout, write_atomically};
use super::relay::{LinkConfig, RelayConfig};
use anyhow::{Context, Result};
use seam_transport::Role as CertRole;
use seam_transport::pki::DevCa;
use seamlog::{ClientConfig, DevConfig, Peer, QuicConfig, TlsPaths};
use serde::Serialize;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Loopback carries large packets, and with them twice the throughput; all ends of a local cluster agree on it.
const LOOPBACK_MTU: u16 = 6500;

#[derive(Serialize)]
struct Member {
    id: u32,
    name: String,
    addr: SocketAddr,
}

#[derive(Serialize)]
struct MetadFile {
    id: u32,
    name: String,
    listen: SocketAddr,
    data_dir: PathBuf,
    metrics_listen: SocketAddr,
    tls: TlsPaths,
    members: Vec<Member>,
}

#[derive(Serialize)]
struct SegdFile {
    id: u32,
    name: String,
    listen: SocketAddr,
    domain: String,
    data_dir: PathBuf,
    metrics_listen: SocketAddr,
    tls: TlsPaths,
    metad: Vec<Peer>,
    quic: QuicConfig,
}

#[derive(Serialize)]
struct RouterFile {
    name: String,
    listen: SocketAddr,
    metrics_listen: SocketAddr,
    tls: TlsPaths,
    metad: Vec<Peer>,
    quic: QuicConfig,
}

/// Writes the file of every process, with a certificate where one is missing. `client.toml` is written apart, once the
/// cluster is ready.
///
/// # Errors
/// The directory cannot be written.
pub fn write_services(layout: &Layout, cluster: &Cluster) -> Result<()> {
    let ca = DevCa::open(layout.pki_dir())?;
    for node in &cluster.nodes {
        let cert_role = match node.kind {
            Kind::Metad { .. } => CertRole::Metad,
            Kind::Segd { .. } => CertRole::Segd,
            Kind::Router => CertRole::Router,
        };
        certify(&ca, &node.name(), cert_role)?;
        if !matches!(node.kind, Kind::Router) {
            let data = layout.data_dir(&node.name());
            fs::create_dir_all(&data).with_context(|| format!("cannot make {}", data.display()))?;
        }
        write_atomically(&layout.config_file(&node.name()), &service(layout, cluster, node, &ca)?)?;
    }
    certify(&ca, "client", CertRole::Client)?;
    let links =
        cluster.metad().map(|(node, relay)| LinkConfig { name: node.name(), listen: relay, target: node.listen });
    let relay = RelayConfig { rtt_file: layout.rtt_file(), links: links.collect() };
    write_atomically(&layout.config_file(RELAY), &toml::to_string_pretty(&relay)?)
}

/// Writes `client.toml`.
///
/// # Errors
/// The directory cannot be written.
pub fn write_client(layout: &Layout, cluster: &Cluster) -> Result<()> {
    write_atomically(&layout.client_file(), &toml::to_string_pretty(&client(layout, cluster)?)?)
}

/// What `client.toml` holds.
///
/// # Errors
/// The cluster has no certificates yet.
pub fn client(layout: &Layout, cluster: &Cluster) -> Result<ClientConfig> {
    let routers = cluster.of(Role::Router).map(|node| Peer { name: node.name(), addr: node.listen.to_string() });
    let tls = DevCa::load(layout.pki_dir())?.paths("client");
    Ok(ClientConfig {
        quic: quic(),
        dev: Some(DevConfig { dir: Some(layout.root().to_owned()), metad_rtt_file: Some(layout.rtt_file()) }),
        ..ClientConfig::new(routers.collect(), metad_peers(cluster), tls)
    })
}

fn quic() -> QuicConfig {
    QuicConfig { max_mtu: LOOPBACK_MTU, ..QuicConfig::default() }
}

fn certify(ca: &DevCa, name: &str, role: CertRole) -> Result<()> {
    let paths = ca.paths(name);
    if !(paths.cert.is_file() && paths.key.is_file()) {
        ca.issue(name, role)?;
    }
    Ok(())
}

fn service(layout: &Layout, cluster: &Cluster, node: &Node, ca: &DevCa) -> Result<String> {
    let name = node.name();
    let tls = ca.paths(&name);
    let text = match &node.kind {
        Kind::Metad { .. } => toml::to_string_pretty(&MetadFile {
            id: node.id,
            listen: node.listen,
            data_dir: layout.data_dir(&name),
            metrics_listen: node.metrics,
            tls,
            members: members(cluster, node),
            name,
        }),
        Kind::Segd { domain } => toml::to_string_pretty(&SegdFile {
            id: node.id,
            listen: node.listen,
            domain: domain.clone(),
            data_dir: layout.data_dir(&name),
            metrics_listen: node.metrics,
            tls,
            metad: metad_peers(cluster),
            quic: quic(),
            name,
        }),
        Kind::Router => toml::to_string_pretty(&RouterFile {
            listen: node.listen,
            metrics_listen: node.metrics,
            tls,
            metad: metad_peers(cluster),
            quic: quic(),
            name,
        }),
    };
    text.with_context(|| format!("cannot write the settings of {}", node.name()))
}

/// The members as `own` dials them: the others through the relay, itself directly.
fn members(cluster: &Cluster, own: &Node) -> Vec<Member> {
    let dialed = |(node, relay): (&Node, SocketAddr)| Member {
        id: node.id,
        name: node.name(),
        addr: if node.id == own.id { node.listen } else { relay },
    };
    cluster.metad().map(dialed).collect()
}

fn metad_peers(cluster: &Cluster) -> Vec<Peer> {
    cluster.metad().map(|(node, relay)| Peer { name: node.name(), addr: relay.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::cluster::Counts;
    use super::*;
    use std::collections::BTreeSet;
    use toml::Value;

    fn written() -> (tempfile::TempDir, Layout, Cluster) {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let layout = Layout::new(&dir.path().join("cluster")).expect("a layout");
        layout.create().expect("directories");
        let cluster = Cluster::plan(Counts { metad: 3, segd: 5, router: 2 }, 3).expect("a plan");
        write_services(&layout, &cluster).expect("written");
        write_client(&layout, &cluster).expect("written");
        (dir, layout, cluster)
    }

    fn read(path: &std::path::Path) -> toml::Table {
        toml::from_str(&fs::read_to_string(path).expect("readable")).expect("TOML")
    }

    fn addresses(table: &toml::Table, key: &str) -> BTreeSet<String> {
        let peers = table[key].as_array().expect("an array");
        peers.iter().map(|peer| peer["addr"].as_str().expect("a string").to_owned()).collect()
    }

    #[test]
    fn everybody_dials_metad_through_the_relay_and_a_member_dials_itself_directly() {
        let (_dir, layout, cluster) = written();
        let relayed: BTreeSet<String> = cluster.metad().map(|(_, relay)| relay.to_string()).collect();
        for name in ["segd-1", "segd-5", "router-2"] {
            assert_eq!(addresses(&read(&layout.config_file(name)), "metad"), relayed, "{name}");
        }
        assert_eq!(addresses(&read(&layout.client_file()), "metad"), relayed);
        for (own, own_relay) in cluster.metad() {
            let mut expected = relayed.clone();
            expected.remove(&own_relay.to_string());
            expected.insert(own.listen.to_string());
            assert_eq!(addresses(&read(&layout.config_file(&own.name())), "members"), expected);
        }
        let relay: RelayConfig = toml::from_str(&fs::read_to_string(layout.config_file(RELAY)).expect("readable"))
            .expect("the relay's settings");
        assert!(relay.links.iter().zip(cluster.metad()).all(|(link, (node, _))| link.target == node.listen));
    }

    #[test]
    fn the_files_hold_what_the_services_ask_for() {
        let (_dir, layout, cluster) = written();
        let segd = read(&layout.config_file("segd-2"));
        assert_eq!(segd["id"], Value::Integer(2));
        assert_eq!(segd["name"].as_str(), Some("segd-2"));
        assert_eq!(segd["domain"].as_str(), Some("rack-2"));
        assert_eq!(segd["quic"]["max_mtu"], Value::Integer(6500));
        for (table, keys) in [
            (&segd, vec!["id", "name", "listen", "domain", "data_dir", "metrics_listen", "tls", "metad", "quic"]),
            (
                &read(&layout.config_file("metad-1")),
                vec!["id", "name", "listen", "data_dir", "metrics_listen", "tls", "members"],
            ),
            (&read(&layout.config_file("router-1")), vec!["name", "listen", "metrics_listen", "tls", "metad", "quic"]),
            (
                &read(&layout.client_file()),
                vec!["routers", "metad", "tls", "quic", "connect_timeout_ms", "request_timeout_ms", "dev"],
            ),
        ] {
            let found: BTreeSet<&str> = table.keys().map(String::as_str).collect();
            assert_eq!(found, keys.into_iter().collect());
            for key in ["ca", "cert", "key"] {
                let path = table["tls"][key].as_str().expect("a path");
                assert!(std::path::Path::new(path).is_file(), "{path} is missing");
            }
        }
        let client = read(&layout.client_file());
        assert_eq!(addresses(&client, "routers").len(), cluster.of(Role::Router).count());
        assert_eq!(client["dev"]["metad_rtt_file"].as_str(), layout.rtt_file().to_str());
        let read_back = ClientConfig::load(layout.client_file()).expect("the SDK reads it");
        assert_eq!(read_back, super::client(&layout, &cluster).expect("settings"));
    }

    #[test]
    fn certificates_outlive_a_rewrite() {
        let (_dir, layout, cluster) = written();
        let key = layout.pki_dir().join("segd-1.key");
        let before = fs::read(&key).expect("a key");
        write_services(&layout, &cluster).expect("written again");
        assert_eq!(fs::read(&key).expect("a key"), before);
    }
}
