//! The program itself: started, stopped, paused, fed nonsense.

use crate::cluster::{Cluster, PATIENCE, until};
use crate::nodes::Nodes;
use rustix::process::{Pid, Signal, kill_process};
use seam_grpc as rpc;
use seam_transport::Role;
use seam_transport::meta_client::MetaClient;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Silence after which a node is taken for dead in these tests.
const SUSPECT_MS: u64 = 1500;

/// A process that does not outlive its test.
struct Process(Child);

impl Process {
    fn start(config: &Path) -> Process {
        let child = Command::new(env!("CARGO_BIN_EXE_metad"))
            .arg("--config")
            .arg(config)
            .env("SEAM_LOG", "error")
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        Process(child)
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already, or ended now.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn write_config(cluster: &Cluster, at: usize) -> PathBuf {
    let config = cluster.settings(at);
    let mut text = format!(
        "id = {}\nname = {:?}\nlisten = \"{}\"\ndata_dir = {:?}\n[tls]\nca = {:?}\ncert = {:?}\nkey = {:?}\n",
        config.id, config.name, config.listen, config.data_dir, config.tls.ca, config.tls.cert, config.tls.key
    );
    text += &format!(
        "[timing]\nheartbeat_ms = 100\nelection_min_ms = 400\nelection_max_ms = 800\nnode_suspect_ms = {SUSPECT_MS}\n"
    );
    for member in &config.members {
        text += &format!("[[members]]\nid = {}\nname = {:?}\naddr = {:?}\n", member.id, member.name, member.addr);
    }
    let path = config.data_dir.with_extension("toml");
    std::fs::write(&path, text).unwrap();
    path
}

fn start_all(cluster: &Cluster) -> Vec<Process> {
    (0..3).map(|at| Process::start(&write_config(cluster, at))).collect()
}

async fn status(client: &MetaClient) -> rpc::StatusResponse {
    client.status(rpc::StatusRequest {}).await.unwrap()
}

async fn leader(client: &MetaClient) -> usize {
    // Only a leader lists.
    client.list_nodes(rpc::ListNodesRequest {}).await.unwrap();
    let name = client.leader().unwrap();
    name.strip_prefix("metad-").unwrap().parse::<usize>().unwrap() - 1
}

async fn node_states(client: &MetaClient) -> Vec<String> {
    let nodes = client.list_nodes(rpc::ListNodesRequest {}).await.unwrap().nodes;
    nodes.into_iter().map(|node| node.state).collect()
}

#[test]
fn bad_settings_end_it_with_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metad.toml");
    std::fs::write(&path, "id = 1\nnmae = \"metad-1\"\n").unwrap();
    for (config, told) in [(path.as_path(), "nmae"), (Path::new("no/such.toml"), "no/such.toml")] {
        let output = Command::new(env!("CARGO_BIN_EXE_metad")).arg("--config").arg(config).output().unwrap();
        assert!(!output.status.success());
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(text.contains(told) && text.trim_end().lines().count() == 1, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_is_orderly_and_the_others_go_on() {
    let cluster = Cluster::new();
    let mut processes = start_all(&cluster);
    let client = cluster.client("client", Role::Client);
    let old = leader(&client).await;
    let term = status(&client).await.term;
    processes[old].signal(Signal::TERM);
    let ended = until("the process ends", || processes[old].0.try_wait().unwrap()).await;
    assert!(ended.success(), "{ended}");
    assert_ne!(leader(&client).await, old);
    assert!(status(&client).await.term > term);
}

/// A leader that is paused is replaced; back again, it knows that it leads no more. Nobody is taken for dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_paused_leader_is_left_and_does_no_harm() {
    let cluster = Cluster::new();
    let processes = start_all(&cluster);
    let client = cluster.client("client", Role::Client);
    let nodes = Nodes::start(&cluster, 3).await;
    let create = rpc::CreateTopicRequest { name: "clicks".to_owned(), config: None };
    client.create_topic(create).await.unwrap();
    let head = nodes.open_segment().await;
    let old = leader(&client).await;
    processes[old].signal(Signal::STOP);
    let next = nodes.roll(&head).await;
    assert_ne!(leader(&client).await, old);
    processes[old].signal(Signal::CONT);
    nodes.roll(&next).await;
    assert_eq!(node_states(&client).await, ["live", "live", "live"]);
}

/// The whole metadata tier stands still for longer than a node may be silent; when it returns nobody is taken for dead.
#[tokio::test(flavor = "multi_thread")]
async fn a_pause_of_all_kills_no_node() {
    let cluster = Cluster::new();
    let processes = start_all(&cluster);
    let client = cluster.client("client", Role::Client);
    let nodes = Nodes::start(&cluster, 3).await;
    let create = rpc::CreateTopicRequest { name: "clicks".to_owned(), config: None };
    client.create_topic(create).await.unwrap();
    let head = nodes.open_segment().await;
    processes.iter().for_each(|process| process.signal(Signal::STOP));
    let paused = Instant::now();
    until("the pause is long", || (paused.elapsed() > Duration::from_millis(SUSPECT_MS * 2)).then_some(())).await;
    processes.iter().for_each(|process| process.signal(Signal::CONT));
    let next = nodes.roll(&head).await;
    // A full period of its watch later the leader has judged everyone.
    let judged = Instant::now();
    until("everyone was judged", || (judged.elapsed() > Duration::from_millis(SUSPECT_MS * 2)).then_some(())).await;
    assert_eq!(node_states(&client).await, ["live", "live", "live"]);
    nodes.roll(&next).await;
    assert!(paused.elapsed() < PATIENCE);
}
