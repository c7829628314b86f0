//! Watch streams: complete, in order, over the death of members; bounded for the slow.

use crate::cluster::{Cluster, PATIENCE, until};
use crate::nodes::{Nodes, registration};
use seam_grpc as rpc;
use seam_transport::Role;
use seam_transport::grpc::{GrpcConfig, channel};
use seam_transport::meta_client::{MetaClient, MetaClientConfig};
use seam_wire::NodeId;
use seam_wire::meta::MetaUpdate;
use std::time::Duration;

/// Each version once, none left out, after the first update which may be a snapshot.
fn assert_unbroken(versions: &[(u64, bool)]) {
    for pair in versions.windows(2) {
        let [(before, _), (after, reset)] = pair else { unreachable!() };
        assert!(*reset || *after == before + 1, "{after} follows {before}: {versions:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_outlives_every_member_and_misses_no_version() {
    let mut cluster = Cluster::started().await;
    let nodes = Nodes::start(&cluster, 5).await;
    let admin = cluster.client("client", Role::Client);
    let create = rpc::CreateTopicRequest { name: "clicks".to_owned(), config: None };
    admin.create_topic(create).await.unwrap();
    let mut head = nodes.open_segment().await;
    for at in 0..3 {
        head = nodes.roll(&head).await;
        cluster.kill(at).await;
        head = nodes.roll(&head).await;
        cluster.start(at).await;
    }
    cluster.leader().await;
    let (version, _) = cluster.fingerprint().await;
    until("the watcher is up to date", || {
        nodes.known.versions().last().is_some_and(|(last, _)| *last >= version).then_some(())
    })
    .await;
    let versions = nodes.known.versions();
    assert_unbroken(&versions);
    assert_eq!(versions.iter().filter(|(_, reset)| *reset).count(), 1, "resumed by version: {versions:?}");
}

/// A member is frozen, not dead: its connection stays open and says nothing. It is left for another.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_member_is_left() {
    let cluster = Cluster::started().await;
    // A listener that accepts and never answers stands in for a frozen member, first in the list.
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut members = cluster.member_list();
    members[0].addr = silent.local_addr().unwrap().to_string();
    let held = tokio::spawn(async move {
        let mut connections = Vec::new();
        loop {
            connections.push(silent.accept().await.unwrap());
        }
    });
    let config = MetaClientConfig { attempt_timeout_ms: 300, stall_ms: 300, ..MetaClientConfig::default() };
    let tls = cluster.tls("segd-1", Role::Segd);
    let client = MetaClient::new(&members, &tls, &GrpcConfig::default(), config).unwrap();
    let registered = client.register(registration(NodeId(1)));
    let mut watch = client.watch(0, "segd-1");
    let (registered, first) = tokio::join!(registered, tokio::time::timeout(PATIENCE, watch.next()));
    // The leader may be the one behind the silent address; then nobody can register, but any other member is watched.
    if cluster.leader().await != 0 {
        registered.unwrap();
    }
    assert!(first.unwrap().unwrap().reset, "a watch begins with the whole state");
    held.abort();
}

/// A place that is no longer in the ring cannot be resumed from: the watcher gets the whole state, and knows it.
#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_too_far_behind_gets_the_whole_state() {
    let mut cluster = Cluster::new();
    cluster.limits.watch_updates = 4;
    cluster.start_all().await;
    let _nodes = Nodes::start(&cluster, 8).await;
    let client = cluster.client("router-1", Role::Router);
    let mut watch = client.watch(1, "router-1");
    let update = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap().unwrap();
    assert!(update.reset && update.version >= 8 && update.items.len() >= 8, "{update:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_watch_shows_signs_of_life() {
    let cluster = Cluster::started().await;
    let at = cluster.leader().await;
    let tls = cluster.tls("router-1", Role::Router);
    let name = format!("metad-{}", at + 1);
    let channel = channel(&cluster.addr(at).to_string(), &name, &tls, &GrpcConfig::default()).unwrap();
    let mut client = rpc::metadata_client::MetadataClient::new(channel);
    let request = rpc::WatchRequest { after_version: 0, who: "idle".to_owned() };
    let answer = client.watch(request).await.unwrap();
    assert_eq!(answer.metadata().get("seam-leader").unwrap().to_str().unwrap(), name);
    let mut stream = answer.into_inner();
    let mut seen = Vec::new();
    for _ in 0..4 {
        let message = tokio::time::timeout(Duration::from_secs(30), stream.message()).await.unwrap().unwrap().unwrap();
        seen.push(postcard::from_bytes::<MetaUpdate>(&message.update).unwrap());
    }
    assert!(seen[0].reset);
    assert!(seen[1..].iter().all(|update| update.items.is_empty() && update.version == seen[0].version), "{seen:?}");
}
