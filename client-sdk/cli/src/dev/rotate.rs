//! `seam dev rotate-certs`: a new authority and new certificates for every process and client, while they run and under load.
//!
//! In three steps, each awaited everywhere before the next, so that at no time two sides distrust each other: both authorities
//! are trusted; everybody shows a certificate of the new one; only the new one is trusted. Stopped in between, both are
//! trusted still, and running it again goes on.

use super::cluster::{Cluster, Node, Role};
use super::layout::{Layout, write_atomically};
use super::wait::until;
use super::{Dir, daemon::Daemon};
use crate::output::Out;
use anyhow::{Context, Result, ensure};
use clap::Args;
use seam_transport::Role as CertRole;
use seam_transport::pki::DevCa;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Duration;

/// How long every process may take to notice new files.
const PATIENCE: Duration = Duration::from_secs(30);
/// Programs that use `client.toml` cannot be asked: they look every second and take what they saw twice.
const CLIENTS_NEED: Duration = Duration::from_secs(4);
const ANSWER: Duration = Duration::from_secs(2);

/// Replace the CA and all certificates while the cluster runs.
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example, under load:\n  loadgen bench & seam dev rotate-certs")]
pub struct Rotate {
    #[command(flatten)]
    dir: Dir,
}

impl Rotate {
    /// # Errors
    /// The directory holds no cluster or cannot be written, or a process does not take the new files in time.
    pub fn run(self, out: &mut Out) -> Result<()> {
        let layout = self.dir.layout()?;
        let _lock = layout.lock()?;
        let cluster = Cluster::load(&layout)?;
        let rotation = Rotation::new(&layout, &cluster)?;
        rotation.trust_both()?;
        rotation.show_new()?;
        rotation.trust_new()?;
        if out.is_json() {
            return out.json(&serde_json::json!({ "rotated": cluster.process_names() }));
        }
        out.line("every process shows a certificate of the new CA and trusts no other")
    }
}

struct Rotation<'a> {
    layout: &'a Layout,
    cluster: &'a Cluster,
    next: DevCa,
}

impl<'a> Rotation<'a> {
    fn new(layout: &'a Layout, cluster: &'a Cluster) -> Result<Self> {
        let next = DevCa::open(layout.pki_dir().join("next"))?;
        Ok(Rotation { layout, cluster, next })
    }

    fn pki(&self, file: &str) -> PathBuf {
        self.layout.pki_dir().join(file)
    }

    fn trust_both(&self) -> Result<()> {
        let (old, new) = (read(self.pki("ca.crt"))?, read(self.next.ca_cert())?);
        if old.contains(&new) {
            return Ok(());
        }
        self.change("trust both CAs", || write_atomically(&self.pki("ca.crt"), &format!("{old}{new}")))
    }

    fn show_new(&self) -> Result<()> {
        self.change("show certificates of the new CA", || {
            for node in &self.cluster.nodes {
                let role = match node.role() {
                    Role::Metad => CertRole::Metad,
                    Role::Segd => CertRole::Segd,
                    Role::Router => CertRole::Router,
                    Role::Relay => continue,
                };
                self.replace(&node.name(), role)?;
            }
            self.replace("client", CertRole::Client)
        })
    }

    fn replace(&self, name: &str, role: CertRole) -> Result<()> {
        let issued = self.next.issue(name, role)?;
        for (file, kind) in [(issued.key, "key"), (issued.cert, "crt")] {
            let to = self.pki(&format!("{name}.{kind}"));
            fs::rename(&file, &to).with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(())
    }

    fn trust_new(&self) -> Result<()> {
        self.change("trust the new CA alone", || {
            for file in ["ca.key", "ca.crt"] {
                let to = self.pki(file);
                fs::rename(self.pki("next").join(file), &to)
                    .with_context(|| format!("cannot write {}", to.display()))?;
            }
            Ok(())
        })?;
        fs::remove_dir_all(self.pki("next")).context("cannot remove the old staging directory")
    }

    /// Makes a change and waits until every process that runs has taken it.
    fn change(&self, what: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut waiting = Vec::new();
        for node in &self.cluster.nodes {
            // One that is down reads its files when it starts.
            if Daemon::of(self.layout, node).live()?.is_some() {
                waiting.push((node, reloads(node)?));
            }
        }
        make()?;
        let done = until(PATIENCE, || {
            waiting.retain(|(node, before)| reloads(node).map_or(true, |now| now <= *before));
            waiting.is_empty()
        });
        let names: Vec<String> = waiting.iter().map(|(node, _)| node.name()).collect();
        ensure!(
            done,
            "{} did not {what} within {} s; see `seam dev logs`, then run this again: it goes on where it stopped",
            names.join(", "),
            PATIENCE.as_secs()
        );
        std::thread::sleep(CLIENTS_NEED);
        Ok(())
    }
}

/// How often a process has taken new certificates.
fn reloads(node: &Node) -> Result<u64> {
    let asked = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&node.metrics, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: seam\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    let answer = asked().with_context(|| format!("{} shows no metrics at {}", node.name(), node.metrics))?;
    let line = answer.lines().find(|line| line.contains("tls_reloads_total"));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    value
        .map(|value| value as u64)
        .with_context(|| format!("{} does not count its reloads: is it older than this seam?", node.name()))
}

fn read(path: PathBuf) -> Result<String> {
    fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
}
